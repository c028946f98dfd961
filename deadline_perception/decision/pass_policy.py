"""The sequence of passes of the greatest expected quality, and the image's own answer in time with the promise.

A network may declare results so far: segments after which an answer to the image exists, though not the best. What runs
until the first of them is mandatory, and its bound has to fit; what follows is optional: whatever of it is not done in
time costs what it would have added and no more, so it is started where that is worth most on average,

    expected quality of a path = sum over its results of P(done in time) x what each adds.

A frame for which the bound of no mandatory part fits is infeasible: it runs what is expected to be best of the paths with
an even chance to be in time, since others would be aborted; without any the cheapest.
(Imprecise computation; an earlier policy of expected utility, research/policies, priced every late frame at three times
what any path is worth, and so spent its time on being early.)
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.pass_quality import PassQuality
from deadline_perception.decision.policy import Choice, Quality, check_time_left
from deadline_perception.timing.time_model import Forecast

_BOUND_DEVIATIONS, _P90_DEVIATIONS = 2.326, 1.282  # of a normal distribution, of 99 and 90 %
_LEAST_DEVIATION = 0.01  # of the logarithm of a frame's time
_NO_TIME_MS = 1e-6
_NEGLIGIBLE = 1e-4  # quality that is not worth a pass
_EVEN_CHANCE = 0.5  # of a path that is run though no bound fits
_HOPELESS = 0.02  # chance of a path below which longer ones are not looked at
_ALIKE = 0.03  # of quality at some size, by which a path that is better over all may be worse
_DECIDING_MS = 0.5  # that may pass between a plan and its first decision
_MANY = 64  # paths that are planned among as they are
_LEAST_GAIN = 0.003  # of quality at some size, for a path to be planned
_SQRT_2 = math.sqrt(2.0)


@dataclass(frozen=True, eq=False)
class _Candidates:
    """The paths that may follow on given choices, as a segment begins.

    Attributes:
        members: numbers of the paths, int `[N]`.
        logs: logarithm of the forecast until each result of each path, float64 `[results, N]`; of one that exists
            already, that of no time. One row where no path has more than one result.
        mandatory_ms: forecast until the first result, or where there is one, 0: `[N]`.
        least_ms: the shortest mandatory part.
        cheapest: place of the path with that among the members, and of those the shortest.
        results: how many exist already.
        are_alike: a better one over all objects is not worse at any size, so that the scene decides nothing among them.
    """

    members: np.ndarray
    logs: np.ndarray
    mandatory_ms: np.ndarray
    least_ms: float
    cheapest: int
    results: int
    are_alike: bool


class PassPolicy(FrontierPolicy):
    """See the module; for path spaces that declare results so far.

    At a re-decision the planned path is kept unless another gains more than `keep_epsilon`. Paths without a result so
    far are started as by `FrontierPolicy`: also where only `p90_share` a bound fits, and later operators can turn to a path
    that does.

    Args:
        path_space: all paths of the network.
        forecast: expected idle times.
        quality: expected average precision of the paths. One of passes weighs them by what the scene holds.
        keep_epsilon: gain in expected quality that is worth a change of plan.
        paths: those that may be chosen; None: all.

    Raises:
        ValueError: as `FrontierPolicy`, or the space declares no result so far.
    """

    def __init__(
        self,
        path_space: PathSpace,
        forecast: Forecast,
        quality: Quality,
        *,
        keep_epsilon: float = 0.005,
        paths: Sequence[ExecutionPath] | None = None,
    ) -> None:
        if not path_space.result_segments:
            raise ValueError('the path space declares no result, expected one at least')
        super().__init__(path_space, forecast, quality, keep_epsilon=keep_epsilon, paths=paths)
        self._by_size = self._qualities[:, None]
        self._ends = self._result_ends()
        self._first = self._quality_sources()
        self._candidates: dict[tuple[int, float, int], _Candidates] = {}
        self._weigh(np.ones(1))
        if isinstance(quality, PassQuality):
            self._by_size = quality.by_size(self._paths)
            quality.scene.follow(self._weigh)

    def prepare(self) -> None:
        """See `FrontierPolicy`; what may follow on every choice is gathered now as well."""
        super().prepare()
        for level in self._levels:
            for segment, one in enumerate(self._space.segments):
                if one.operator is not None:
                    for group in np.unique(self._of_all(segment, level).group_of).tolist():
                        self._of_group(segment, level, group)

    def plan(self, remaining_ms: float, factor: float, p90_share: float = 1.0) -> Choice:
        """See `Policy.plan`."""
        check_time_left(remaining_ms, factor, p90_share)
        candidates = self._of_group(0, self._level(p90_share), 0)
        choice = self._best_expected(candidates, 0, remaining_ms, factor, p90_share, planned=None)
        self._planned = remaining_ms, (factor, p90_share), choice
        return choice

    def redecide(
        self,
        path: ExecutionPath,
        segment: int,
        remaining_ms: float,
        factor: float,
        elapsed_ms: float = 0.0,
        p90_share: float = 1.0,
    ) -> Choice:
        """See `Policy.redecide`."""
        check_time_left(remaining_ms, factor, p90_share)
        level = self._level(p90_share)
        place = self._of_prefix(path, segment, level)
        frontiers, planned, begin, end = place
        kept = self._just_planned(path, segment, planned, remaining_ms, factor, p90_share)
        if kept is not None:
            return kept
        candidates = self._of_group(segment, level, frontiers.group_of[planned])
        if candidates.are_alike and not candidates.results:
            return self._of_frontier(place, path, segment, remaining_ms, factor, level)
        if candidates.are_alike:
            return self._best_optional(path, segment, remaining_ms, factor, p90_share)
        return self._best_expected(candidates, segment, remaining_ms, factor, p90_share, planned)

    def _just_planned(
        self,
        path: ExecutionPath,
        segment: int,
        planned: int,
        remaining_ms: float,
        factor: float,
        p90_share: float,
    ) -> Choice | None:
        """The plan if nothing has run since: it is the best among all paths, and so among those that are left."""
        if self._planned is None:
            return None
        at_plan_ms, terms, choice = self._planned
        is_kept = (
            choice.path is path
            and terms == (factor, p90_share)
            and 0.0 <= at_plan_ms - remaining_ms <= _DECIDING_MS
            and self._remaining_ms.item(segment, planned) == self._remaining_ms.item(0, planned)
        )
        return choice if is_kept else None

    def _best_optional(
        self,
        path: ExecutionPath,
        segment: int,
        remaining_ms: float,
        factor: float,
        p90_share: float,
    ) -> Choice:
        """Of the frontier after a result so far: the greatest chance to be in time x what is added. The longest path
        whose bound fits has nearly every chance; one that takes more is looked at as long as it gains."""
        frontiers, planned, begin, end = self._of_prefix(path, segment, 1.0)
        times_ms, qualities = frontiers.remaining_ms, frontiers.qualities
        so_far = self._qualities.item(int(self._first[0, planned]))
        at = max(bisect_right(times_ms, remaining_ms / factor, begin, end) - 1, begin)
        best, most = at, -1.0
        for place in range(at, end):
            chance = self._chance(times_ms[place], remaining_ms, factor, p90_share)
            expected = chance * (qualities[place] - so_far)
            if expected > most + _NEGLIGIBLE:
                best, most = place, expected
            if chance < _HOPELESS:
                break
        here_ms = self._remaining_ms.item(segment, planned)
        here = self._chance(here_ms, remaining_ms, factor, p90_share) * (
            self._qualities.item(planned) - so_far
        )
        if most - here <= self._keep_epsilon and here > _NEGLIGIBLE:
            bound_ms, quality = here_ms * factor, self._qualities.item(planned)
            return Choice(path, here_ms, bound_ms, bound_ms <= remaining_ms, quality)
        bound_ms = times_ms[best] * factor
        chosen = self._paths[frontiers.members[best]]
        return Choice(chosen, times_ms[best], bound_ms, bound_ms <= remaining_ms, qualities[best])

    @staticmethod
    def _chance(forecast_ms: float, remaining_ms: float, factor: float, p90_share: float) -> float:
        """See `_chances`, of one time."""
        if forecast_ms <= _NO_TIME_MS or remaining_ms == math.inf:
            return 1.0
        if remaining_ms <= _NO_TIME_MS:
            return 0.0
        deviation = max(
            -math.log(p90_share) / (_BOUND_DEVIATIONS - _P90_DEVIATIONS), _LEAST_DEVIATION
        )
        ratio = math.log(remaining_ms / forecast_ms / factor) / deviation + _BOUND_DEVIATIONS
        return 0.5 * math.erfc(-ratio / _SQRT_2)

    def _best_expected(
        self,
        candidates: _Candidates,
        segment: int,
        remaining_ms: float,
        factor: float,
        p90_share: float,
        planned: int | None,
    ) -> Choice:
        members, results = candidates.members, candidates.results
        any_fits = candidates.least_ms * factor <= remaining_ms
        if len(members) == 1:
            return self._choice(segment, candidates, 0, factor, any_fits, remaining_ms)
        chances = self._chances(candidates.logs, remaining_ms, factor, p90_share)
        expected = sum(chances * self._added[: len(chances)].take(members, axis=1))
        if not results:
            fits = candidates.mandatory_ms * factor <= remaining_ms
            if not any_fits:
                fits = chances[-1] >= _EVEN_CHANCE
                fits[candidates.cheapest] = True
            expected = np.where(fits, expected, -1.0)
        at = int(expected.argmax())
        here = len(members) if planned is None else int(members.searchsorted(planned))
        if here < len(members) and members.item(here) == planned:  # else it was not worth planning
            most, kept = expected.item(at), expected.item(here)
            is_worth_it = not results or kept - self._at_end.item(results - 1, planned) > _NEGLIGIBLE
            if is_worth_it and most - kept <= self._keep_epsilon:
                at = here
        return self._choice(segment, candidates, at, factor, any_fits, remaining_ms)

    def _choice(
        self,
        segment: int,
        candidates: _Candidates,
        at: int,
        factor: float,
        feasible: bool,
        remaining_ms: float,
    ) -> Choice:
        chosen = candidates.members.item(at)
        forecast_ms = self._remaining_ms.item(segment, chosen)
        bound_ms = candidates.mandatory_ms.item(at) * factor
        if candidates.results:  # promised already; the rest is worth a try while it can be in time
            bound_ms = forecast_ms * factor
            feasible = bound_ms <= remaining_ms
        quality = self._at_end.item(-1, chosen)
        return Choice(self._paths[chosen], forecast_ms, bound_ms, feasible, quality)

    @staticmethod
    def _chances(
        logs: np.ndarray, remaining_ms: float, factor: float, p90_share: float
    ) -> np.ndarray:
        """Chance of each result to be there in time. The logarithm of a frame's time over its forecast is normal; its
        99th and 90th percentiles are the factor and `p90_share` of it."""
        if remaining_ms <= _NO_TIME_MS:
            return (logs <= math.log(_NO_TIME_MS)).astype(np.float64)
        if remaining_ms == math.inf:
            return np.ones_like(logs)
        deviation = max(
            -math.log(p90_share) / (_BOUND_DEVIATIONS - _P90_DEVIATIONS), _LEAST_DEVIATION
        )
        median = math.log(factor) - _BOUND_DEVIATIONS * deviation
        return ndtr((math.log(remaining_ms) - median - logs) / deviation)

    def _weigh(self, weights: np.ndarray) -> None:
        """Makes ready what each path has reached at each of its results in a scene, and what that result adds, float64
        `[results, paths]`: after an answer, so that no decision has to."""
        self._at_end = (self._by_size @ weights).clip(0.0, 1.0)[self._first]
        self._added = self._at_end.copy()
        self._added[1:] -= self._at_end[:-1]
        self._planned: tuple[float, tuple[float, float], Choice] | None = None

    def _result_ends(self) -> np.ndarray:
        """Segment after which each result of each path exists, int `[results, paths]`, in their order; the last one of
        a path with fewer is repeated."""
        results, most = self._space.result_segments, 0
        ends = []
        for path in self._paths:
            keys = self._space.keys_by_segment(path)
            own = [at for at in results if keys[at] is not None]
            if not own or any(key is not None for key in keys[own[-1] + 1 :]):
                own.append(len(keys) - 1)
            ends.append(own)
            most = max(most, len(own))
        return np.array([one + one[-1:] * (most - len(one)) for one in ends], np.intp).T

    def _quality_sources(self) -> np.ndarray:
        """Path that ends with each result of each path, int `[results, paths]`: of those that agree with it until then
        the one with the least left to run."""
        sources = np.empty_like(self._ends)
        sources[-1] = np.arange(len(self._paths))
        last = len(self._space.segments) - 1
        for row, ends in enumerate(self._ends[:-1]):
            for end in np.unique(ends):
                here = np.flatnonzero(ends == end)
                if end == last:
                    sources[row, here] = here
                    continue
                numbers = self._prefix_numbers(int(end) + 1)
                for number in np.unique(numbers[here]):
                    group = np.flatnonzero(numbers == number)
                    least = group[np.argmin(self._remaining_ms[int(end) + 1, group])]
                    sources[row, here[numbers[here] == number]] = least
        return sources

    def _of_group(self, segment: int, level: float, group: int) -> _Candidates:
        found = self._candidates.get((segment, level, group))
        if found is not None:
            return found
        frontiers = self._of_all(segment, level)
        members = np.flatnonzero(np.asarray(frontiers.group_of) == group)
        if segment == 0 and len(members) > _MANY:
            members = self._worth_planning(members, level)
        ends, here_ms = self._ends[:, members], self._remaining_ms[segment, members]
        if (ends == ends[-1]).all():
            ends = ends[:1]
        after = np.vstack([self._remaining_ms, np.zeros(len(self._paths))])
        until_ms = np.where(ends < segment, 0.0, here_ms - after[ends + 1, members])
        results = int((ends < segment).sum(axis=0).min())
        mandatory_ms = until_ms[0]
        is_whole = ends[0] == len(self._space.segments) - 1
        if not results:
            needed_ms = self._needed_ms[level][segment, members]
            mandatory_ms = np.where(is_whole, needed_ms, mandatory_ms)
        candidates = _Candidates(
            members,
            np.log(np.maximum(until_ms, _NO_TIME_MS / 2.0)),
            mandatory_ms,
            float(mandatory_ms.min()),
            int(np.lexsort(until_ms.round(6)[::-1])[0]),
            results,
            self._are_alike(members),
        )
        self._candidates[segment, level, group] = candidates
        return candidates

    def _worth_planning(self, members: np.ndarray, level: float) -> np.ndarray:
        """Those of some paths that are better at some size of object than all that need less time, and have as many
        results. The others are there to turn to on the way."""
        kept: list[int] = []
        for is_single in (True, False):
            group = members[(self._ends[0, members] == self._ends[-1, members]) == is_single]
            if is_single:
                best = np.zeros(self._by_size.shape[1])
                for path in group[np.argsort(self._needed_ms[level][0, group], kind='stable')]:
                    if not kept or (self._by_size[path] - best).max() > _LEAST_GAIN:
                        kept.append(int(path))
                        best = np.maximum(best, self._by_size[path])
            else:
                kept += group.tolist()
        return np.array(sorted(kept))

    def _are_alike(self, members: np.ndarray) -> bool:
        rows = self._by_size[members[np.argsort(self._qualities[members], kind='stable')]]
        return bool((np.maximum.accumulate(rows, axis=0) - rows).max() <= _ALIKE)
