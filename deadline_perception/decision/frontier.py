"""The best path whose bound fits: before a frame, and again at every operator while it runs.

For every prefix (the choices already made as a segment begins) the paths that may still follow are reduced to their
Pareto frontier of remaining time and quality. All frontiers of a segment lie behind each other in one flat list, so a
decision is two look-ups and one bisect.

A path whose own bound does not fit may be planned all the same, where at every operator from here on, reached at the
p90 time, another path follows whose bound fits. Then a frame that goes as most do ends on the better
path, and a slow one is brought home by its later operators. (A decision of several stages with recourse, as in
stochastic programming; the later stages are decided by what the frame has really taken.) The remaining time of such a
path is what it needs of it to be planned.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.decision.policy import (
    Choice,
    Quality,
    check_position,
    check_time_left,
)
from deadline_perception.timing.time_model import MAX_FACTOR, Forecast

LEVELS = (
    0.5,
    0.6,
    0.7,
    0.8,
    0.9,
    1.0,
)  # shares of the bound; one between two is rounded up


@dataclass(frozen=True)
class SegmentFrontiers:
    """The frontiers of all prefixes that a frame can have when one segment begins.

    Attributes:
        group_of: int32 `[paths]`, the number of each path's prefix; of a memoryview, one item is read fastest.
        begins: `[prefixes + 1]`, where each prefix's frontier begins in the lists below.
        remaining_ms: forecast of what remains, or what is needed of that; strictly ascending within a frontier.
        qualities: strictly ascending within a frontier.
        members: index of the path.
    """

    group_of: memoryview
    begins: list[int]
    remaining_ms: list[float]
    qualities: list[float]
    members: list[int]


def pareto_frontiers(
    groups: np.ndarray, costs: np.ndarray, qualities: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Reduces every group of candidates to those that no other of the group beats in both cost and quality.

    Args:
        groups: int `[N]`, numbers 0 to G-1; one that is absent has no member.
        costs: float `[N]`.
        qualities: float `[N]`.

    Returns:
        Indices of the members, by group, then cost ascending (and with it quality, both strictly); and int
        `[G + 1]`, where each group begins among them. Of equal candidates the first stays.
    """
    order = np.lexsort((-qualities, costs, groups))
    rank = np.unique(qualities, return_inverse=True)[1].reshape(-1)[order]
    # A group's ranks are lifted above those of all groups before it, so that one running maximum serves all.
    lifted = groups[order].astype(np.int64) * (len(groups) + 1) + rank
    keep = np.ones(len(order), dtype=bool)
    keep[1:] = lifted[1:] > np.maximum.accumulate(lifted)[:-1]
    members = order[keep]
    return members, np.searchsorted(groups[members], np.arange(groups.max() + 2))


def needed_times_ms(
    path_space: PathSpace,
    settings: np.ndarray,
    remaining_ms: np.ndarray,
    prefix_numbers: Callable[[int], np.ndarray],
    p90_share: float,
) -> np.ndarray:
    """The forecast whose bound has to fit as a segment begins, so that each path can be planned from there on.

    Here that is the forecast of going on along the path until its next operator and on the shortest path from there. At
    each later operator it is the same, with the p90 time taken until then.

    Args:
        path_space: of the network.
        settings: of the paths that may be chosen, int `[paths, operators]`.
        remaining_ms: forecast of each path from each segment on, float64 `[segments, paths]`, never rising.
        prefix_numbers: number of each path's choices before a segment, int `[paths]`, from 0 on.
        p90_share: share of its bound that a part of a frame stays below in nine of ten frames, in (0, 1].

    Returns:
        float64 `[segments, paths]`, at most `remaining_ms`, and that where `p90_share` is 1; always that for the shortest
        path that may follow on given choices.
    """
    needed_ms = remaining_ms.copy()
    # At the next operator of each path, if there is one: what turning to the shortest path saves there, the forecast
    # from there on, and what is needed there.
    saved_ms = np.zeros(len(settings))
    next_ms = np.zeros(len(settings))
    next_needed_ms = np.full(len(settings), -np.inf)
    for segment in reversed(range(len(path_space.segments))):
        here_ms = remaining_ms[segment]
        needed_ms[segment] = np.minimum(
            here_ms,
            np.maximum(here_ms - saved_ms, p90_share * (here_ms - next_ms) + next_needed_ms),
        )
        if path_space.segments[segment].operator is not None:
            numbers = prefix_numbers(segment)
            least_ms = np.full(numbers.max() + 1, np.inf)
            np.minimum.at(least_ms, numbers, here_ms)
            condition = path_space.conditions[segment]
            decides = (
                True if condition is None else np.isin(settings[:, condition[0]], condition[1])
            )
            saved_ms = np.where(decides, here_ms - least_ms[numbers], saved_ms)
            next_ms = np.where(decides, here_ms, next_ms)
            next_needed_ms = np.where(decides, needed_ms[segment], next_needed_ms)
    return needed_ms


class FrontierPolicy:
    """Among all paths that agree with what has run, the one of highest quality whose bound fits the time left.

    With `p90_share` below 1, also one that probably fits and whose later operators can turn to a path whose bound fits.
    When nothing fits: the cheapest, with `feasible=False`. At a re-decision the planned path is kept while its bound
    fits, unless another gains more than `keep_epsilon` in quality or is better and no more expensive.

    Args:
        path_space: all paths of the network.
        forecast: expected idle times. Where measurement noise says that what remains takes longer than the whole,
            the whole is taken to be that long too.
        quality: expected average precision of the paths.
        keep_epsilon: gain in quality that is worth a change of plan, in [0, 1].
        paths: those that are kept ready and may be chosen, at least one; None: all of the network.

    Raises:
        ValueError: forecast or quality gives values that are out of range.
    """

    name = 'frontier'
    keeps_bounds = True
    _levels = LEVELS

    def __init__(
        self,
        path_space: PathSpace,
        forecast: Forecast,
        quality: Quality,
        *,
        keep_epsilon: float = 0.005,
        paths: Sequence[ExecutionPath] | None = None,
    ) -> None:
        self._space = path_space
        self._keep_epsilon = keep_epsilon
        self._paths = list(path_space) if paths is None else list(dict.fromkeys(paths))
        self._index = {path: index for index, path in enumerate(self._paths)}
        self._number_of = {
            id(path): index for index, path in enumerate(self._paths)
        }  # they live as long as this
        self._qualities = np.asarray(quality.table(self._paths), dtype=np.float64)
        is_quality = (self._qualities >= 0) & (self._qualities <= 1)
        if not is_quality.all():
            worst = self._paths[int(is_quality.argmin())]
            raise ValueError(
                f'quality of path {worst} is {quality.quality(worst)}, expected [0, 1]'
            )
        self._settings = np.array([path.settings for path in self._paths], dtype=np.int64).reshape(
            len(self._paths), -1
        )
        self.follow(forecast)

    def follow(self, forecast: Forecast) -> None:
        """Decides by these times from now on; between two frames."""
        self._remaining_ms = self._forecasts(forecast)
        self._needed_ms = {1.0: self._remaining_ms}  # by share of the bound
        self._frontiers_of: dict[float, list[SegmentFrontiers | None]] = {
            level: [None] * len(self._space.segments) for level in self._levels
        }
        self._frontiers = self._frontiers_of[1.0]

    def prepare(self) -> None:
        """Builds the frontiers of all prefixes now, so that no decision has to."""
        for level in self._levels:
            for segment in range(len(self._space.segments)):
                self._of_all(segment, level)

    @staticmethod
    def _level(remaining_ms: float, factor: float, p90_share: float) -> float:
        """That of a time left, which is refused where nothing can be decided on it."""
        is_known = remaining_ms == remaining_ms and 0.0 < factor <= MAX_FACTOR
        if not is_known or not 0.0 < p90_share <= 1.0:
            check_time_left(remaining_ms, factor, p90_share)
        return LEVELS[bisect_left(LEVELS, p90_share)]

    def _of_all(self, segment: int, level: float) -> SegmentFrontiers:
        return self._frontiers_of[level][segment] or self._build(segment, level)

    def starts(self, p90_share: float = 1.0) -> list[tuple[ExecutionPath, float, float]]:
        """What a frame may start on, whatever time it has: path, needed forecast in ms, and quality, ascending."""
        found = self._of_all(0, self._level(0.0, 1.0, p90_share))
        return [
            (self._paths[member], needed_ms, quality)
            for member, needed_ms, quality in zip(
                found.members, found.remaining_ms, found.qualities
            )
        ]

    def plan(
        self,
        remaining_ms: float,
        factor: float,
        p90_share: float = 1.0,
    ) -> Choice:
        """The path to start a frame on; see `Policy.plan`."""
        level = self._level(remaining_ms, factor, p90_share)
        frontiers = self._frontiers_of[level][0] or self._build(0, level)
        best = self._best(0, frontiers, 0, len(frontiers.members), remaining_ms, factor)
        return best if best.feasible or level == 1.0 else self.plan(remaining_ms, factor)

    def redecide(
        self,
        path: ExecutionPath,
        segment: int,
        remaining_ms: float,
        factor: float,
        elapsed_ms: float = 0.0,
        p90_share: float = 1.0,
    ) -> Choice:
        """The path to go on with as a segment begins; see `Policy.redecide`."""
        level = self._level(remaining_ms, factor, p90_share)
        # The plan is mostly the very object that was given out, which is found without hashing its choices.
        planned = self._number_of.get(id(path))
        if planned is None or not 0 <= segment < len(self._frontiers):
            planned = self._place(path, segment)
        frontiers = self._frontiers_of[level][segment] or self._build(segment, level)
        group = frontiers.group_of[planned]
        begin = frontiers.begins[group]
        end = frontiers.begins[group + 1]
        best = self._best(segment, frontiers, begin, end, remaining_ms, factor)
        if not best.feasible:
            return best if level == 1.0 else self.redecide(path, segment, remaining_ms, factor)
        if best.path is self._paths[planned]:
            return best
        needed_ms = self._needed_ms[level].item(segment, planned)
        quality = self._qualities.item(planned)
        bound_ms = needed_ms * factor
        if bound_ms > remaining_ms or best.quality - quality > self._keep_epsilon:
            return best
        # Kept only where no path is both better and needs no more: else less time could give more quality.
        as_cheap = bisect_right(frontiers.remaining_ms, needed_ms, begin, end) - 1
        if frontiers.qualities[as_cheap] > quality:
            return best
        return Choice(path, self._remaining_ms.item(segment, planned), bound_ms, True, quality)

    def observe(self, latency_ms: float, remaining_ms: float) -> None:
        """Changes nothing: what frames took comes back in the factor; see `Policy.observe`."""

    def _place(self, path: ExecutionPath, segment: int) -> int:
        """Index of a path."""
        planned = self._index.get(path)
        if planned is None or not 0 <= segment < len(self._frontiers):
            check_position(self._space, path, segment)
            raise ValueError(f'path {path} is none of the {len(self._paths)} that are kept ready')
        return planned

    def _best(
        self,
        segment: int,
        frontiers: SegmentFrontiers,
        begin: int,
        end: int,
        remaining_ms: float,
        factor: float,
    ) -> Choice:
        """The best path of one frontier whose bound fits; the cheapest when none does."""
        times = frontiers.remaining_ms
        after = bisect_right(times, remaining_ms / factor, begin, end)
        while after < end and times[after] * factor <= remaining_ms:  # which the quotient may round
            after += 1
        while after > begin and times[after - 1] * factor > remaining_ms:
            after -= 1
        fits = after > begin
        at = max(after - 1, begin)
        chosen = frontiers.members[at]
        return Choice(
            self._paths[chosen],
            self._remaining_ms.item(segment, chosen),
            times[at] * factor,
            fits,
            frontiers.qualities[at],
        )

    def _needed(self, level: float) -> np.ndarray:
        """See `needed_times_ms`."""
        if level not in self._needed_ms:
            self._needed_ms[level] = needed_times_ms(
                self._space, self._settings, self._remaining_ms, self._prefix_numbers, level
            )
        return self._needed_ms[level]

    def _build(self, segment: int, level: float) -> SegmentFrontiers:
        group_of = self._prefix_numbers(segment)
        needed_ms = self._needed(level)[segment]
        members, begins = pareto_frontiers(group_of, needed_ms, self._qualities)
        found = SegmentFrontiers(
            group_of.data,
            begins.tolist(),
            needed_ms[members].tolist(),
            self._qualities[members].tolist(),
            members.tolist(),
        )
        self._frontiers_of[level][segment] = found
        return found

    def _forecasts(self, forecast: Forecast) -> np.ndarray:
        """Remaining forecast of every path from every segment on: float64 `[segments, paths]`, ms, never rising."""
        rows = np.array([forecast.from_each_ms(path)[:-1] for path in self._paths], np.float64).T
        bad = ~((rows >= 0) & (rows < math.inf))
        if bad.any():
            segment, index = np.argwhere(bad)[0]
            raise ValueError(
                f'forecast of path {self._paths[index]} from segment {self._space.segments[segment].name} '
                f'on is {rows[segment, index]} ms, expected a finite time of at least 0'
            )
        return np.maximum.accumulate(rows[::-1])[::-1]

    def _prefix_numbers(self, segment: int) -> np.ndarray:
        """Numbers the prefixes at a segment from 0 on: int32 `[paths]`."""
        numbers = np.zeros(len(self._paths), dtype=np.int64)
        for at in self._space.decided_before[segment]:
            numbers = numbers * self._space.sizes[at] + self._settings[:, at]
        # Some prefixes may have no path that is kept.
        return np.unique(numbers, return_inverse=True)[1].reshape(-1).astype(np.int32)
