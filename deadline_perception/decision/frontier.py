"""The best path whose bound fits: before a frame, and again at every operator while it runs.

For every prefix (the choices already made as a segment begins) the paths that may still follow are reduced to their
Pareto frontier of remaining time and quality. All frontiers of a segment lie behind each other in one flat list, so a
decision is two look-ups and one bisect.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.decision.policy import (
    Choice,
    Quality,
    check_position,
    check_time_left,
)
from deadline_perception.timing.time_model import Forecast


@dataclass(frozen=True)
class SegmentFrontiers:
    """The frontiers of all prefixes that a frame can have when one segment begins.

    Attributes:
        group_of: int32 `[paths]`, the number of each path's prefix; of a memoryview, one item is read fastest.
        begins: `[prefixes + 1]`, where each prefix's frontier begins in the lists below.
        remaining_ms: forecast of what remains; strictly ascending within a frontier.
        qualities: strictly ascending within a frontier.
        members: index of the path.
    """

    group_of: memoryview
    begins: list[int]
    remaining_ms: list[float]
    qualities: list[float]
    members: list[int]


def pareto_frontiers(
    groups: np.ndarray,
    costs: np.ndarray,
    qualities: np.ndarray,
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


class FrontierPolicy:
    """Among all paths that agree with what has run, the one of highest quality whose bound fits the time left.

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
        self._frontiers: list[SegmentFrontiers | None] = [None] * len(self._space.segments)

    def prepare(self) -> None:
        """Builds the frontiers of all prefixes now, so that no decision has to."""
        for segment in range(len(self._space.segments)):
            self._frontier(segment)

    def _frontier(self, segment: int) -> SegmentFrontiers:
        return self._frontiers[segment] or self._build(segment)

    def starts(self) -> list[tuple[ExecutionPath, float, float]]:
        """What a frame may start on, whatever time it has: path, forecast in ms, and quality, ascending."""
        found = self._frontier(0)
        return [
            (self._paths[member], forecast_ms, quality)
            for member, forecast_ms, quality in zip(
                found.members, found.remaining_ms, found.qualities
            )
        ]

    def plan(self, remaining_ms: float, factor: float) -> Choice:
        """The path to start a frame on; see `Policy.plan`."""
        check_time_left(remaining_ms, factor)
        frontiers = self._frontier(0)
        return self._best(0, frontiers, 0, len(frontiers.members), remaining_ms, factor)

    def redecide(
        self,
        path: ExecutionPath,
        segment: int,
        remaining_ms: float,
        factor: float,
        elapsed_ms: float = 0.0,
    ) -> Choice:
        """The path to go on with as a segment begins; see `Policy.redecide`."""
        check_time_left(remaining_ms, factor)
        # The plan is mostly the very object that was given out, which is found without hashing its choices.
        planned = self._number_of.get(id(path))
        if planned is None or not 0 <= segment < len(self._frontiers):
            planned = self._place(path, segment)
        frontiers = self._frontier(segment)
        group = frontiers.group_of[planned]
        begin = frontiers.begins[group]
        end = frontiers.begins[group + 1]
        best = self._best(segment, frontiers, begin, end, remaining_ms, factor)
        if not best.feasible or best.path is self._paths[planned]:
            return best
        forecast_ms = self._remaining_ms.item(segment, planned)
        quality = self._qualities.item(planned)
        bound_ms = forecast_ms * factor
        if bound_ms > remaining_ms or best.quality - quality > self._keep_epsilon:
            return best
        # Kept only where no path is both better and takes no longer: else less time could give more quality.
        as_cheap = bisect_right(frontiers.remaining_ms, forecast_ms, begin, end) - 1
        if frontiers.qualities[as_cheap] > quality:
            return best
        return Choice(path, forecast_ms, bound_ms, True, quality)

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

    def _build(self, segment: int) -> SegmentFrontiers:
        group_of = self._prefix_numbers(segment)
        remaining_ms = self._remaining_ms[segment]
        members, begins = pareto_frontiers(group_of, remaining_ms, self._qualities)
        found = SegmentFrontiers(
            group_of.data,
            begins.tolist(),
            remaining_ms[members].tolist(),
            self._qualities[members].tolist(),
            members.tolist(),
        )
        self._frontiers[segment] = found
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
