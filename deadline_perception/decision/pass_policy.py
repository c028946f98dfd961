"""The sequence of passes of the greatest expected quality, and the image's own answer in time with the promise.

A network may declare results so far: segments after which an answer to the image exists, though not the best. What runs
until the first of them is mandatory, and its bound has to fit; what follows is optional: whatever of it is not done in
time costs what it would have added and no more, so it is started where that is worth most on average,

    expected quality of a path = sum over its results of P(done in time) x what each adds.

What is less likely than not to be done in time counts nothing: the run would stop before it, as its expected time no
longer fits.

A frame for which the bound of no mandatory part fits is infeasible: it runs what is expected to be best of the paths with
an even chance to be in time, since others would be aborted; without any the cheapest. Once a frame runs, its bound was
kept as it began: a mandatory part may then go on with a chance of 99 %, since to ask for its bound at each of ten
decisions would pay for the promise ten times.
(Imprecise computation; an earlier policy of expected utility, research/policies, priced every late frame at three times
what any path is worth, and so spent its time on being early.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.pass_quality import PassQuality
from deadline_perception.decision.policy import Choice, Quality, check_time_left
from deadline_perception.timing.part_bound import PartBound
from deadline_perception.timing.path_bound import SegmentForecast
from deadline_perception.timing.recent_times import RecentTimes
from deadline_perception.timing.time_model import Forecast, TimeModel

_BOUND_DEVIATIONS = 2.326  # of a normal distribution, of 99 %
_DEVIATION = 0.15  # of the logarithm of a frame's time, where none are known
_NO_TIME_MS = 1e-6
_NEGLIGIBLE = 1e-4  # quality that is not worth a pass
_EVEN_CHANCE = 0.5  # of a path that is run though no bound fits
_LIKELY = 0.99  # chance of a mandatory part that may go on: as the promise has it
_DECIDING_MS = 0.5  # that may pass between a plan and its first decision
_ROUNDING = 1e-9
_SQRT_2 = math.sqrt(2.0)
_LOG_NO_TIME = math.log(_NO_TIME_MS)


class _NormalTimes:
    """Shares of frames, as `RecentTimes` has them, where none are known: the logarithm of a time over its median is
    normal."""

    @staticmethod
    def share_within(log_ratio: float) -> float:
        """Of frames whose log ratio is at most this."""
        return 0.5 * math.erfc(-log_ratio / (_SQRT_2 * _DEVIATION))


class _TimeLeft(NamedTuple):
    """What is left of a frame's time.

    Attributes:
        remaining_ms, factor: as of `Policy.plan`.
        first, later: logarithms of forecasts, which take all of it where their ratio to recent frames' is 1, of the
            first result and of later ones.
        frames: those frames.
        chances: shares of them by log ratio, as far as they were asked for: many paths share their first look.
    """

    remaining_ms: float
    factor: float
    first: float
    later: float
    frames: RecentTimes | _NormalTimes
    chances: dict[float, float]


# A path, its number, its forecast until the end, `mandatory_ms`: until the first result, or where there is one, 0; and
# the logarithm of its forecast until each result that does not exist yet.
_Row = tuple[ExecutionPath, int, float, float, list[float]]


@dataclass(eq=False, slots=True)
class _Candidates:
    """The paths that may follow on given choices, as a segment begins.

    Attributes:
        rows: of each, in the order of the paths: of equally good ones the first is taken.
        least_ms: the shortest mandatory part.
        cheapest: of the path with that, and of those the shortest.
        results: how many exist already.
    """

    rows: list[_Row]
    least_ms: float
    cheapest: _Row
    results: int


class PassPolicy(FrontierPolicy):
    """See the module; for path spaces that declare results so far.

    At a re-decision the planned path is kept unless another gains more than `keep_epsilon`.

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
        self._by_size: np.ndarray | None = None
        super().__init__(path_space, forecast, quality, keep_epsilon=keep_epsilon, paths=paths)
        self._ends = self._result_ends()
        segments = range(len(path_space.segments))
        self._prefixes = [self._prefix_numbers(segment) for segment in segments]
        self._times: TimeModel | None = None
        self._parts: list[PartBound] = []
        self._planned: tuple[Choice, float, float] | None = None
        self._by_size = self._qualities[:, None]
        self._weights = np.ones(1)
        if isinstance(quality, PassQuality):
            self._by_size = quality.by_size(self._paths)
            self._weights = quality.scene.weights
            quality.scene.followers.append(self._weigh)
        self.follow(forecast)

    def follow(self, forecast: Forecast) -> None:
        """See `FrontierPolicy`."""
        super().follow(forecast)
        if self._by_size is None:
            return  # what it goes by is not there yet
        self._after_ms = np.vstack([self._remaining_ms[1:], np.zeros(len(self._paths))])
        self._first = self._quality_sources()
        # What may follow as a segment begins, by that and the identity of a path.
        self._found: dict[tuple[int, int], tuple[_Candidates, _Row]] = {}
        self._weigh(self._weights)

    def learn_from(self, times: TimeModel) -> None:
        """Chances follow the frames that a time model of the same forecast has seen, and times its corrections of that."""
        self._times = times
        if isinstance(times.forecast, SegmentForecast):
            times.follow(times.forecast, self.follow)
        self._parts = [times.part(segment) for segment in range(len(self._space.segments))]

    def prepare(self) -> None:
        """Gathers what may follow on all choices now, so that no decision has to."""
        for segment, of_space in enumerate(self._space.segments):
            if of_space.operator is not None:
                for planned in range(len(self._paths)):
                    self._gather(segment, planned)

    def plan(self, remaining_ms: float, factor: float) -> Choice:
        """See `Policy.plan`."""
        check_time_left(remaining_ms, factor)
        candidates, _ = self._gather(0, 0)
        left = self._time_left(0, remaining_ms, factor)
        choice = self._choice(candidates, self._best_row(candidates, left), remaining_ms, factor)
        self._planned = choice, remaining_ms, factor
        return choice

    def redecide(
        self,
        path: ExecutionPath,
        segment: int,
        remaining_ms: float,
        factor: float,
        elapsed_ms: float = 0.0,
    ) -> Choice:
        """See `Policy.redecide`."""
        check_time_left(remaining_ms, factor)
        # The plan is mostly the very object that was given out, which is found without hashing its choices.
        found = self._found.get((segment, id(path)))
        candidates, row = found or self._gather(segment, self._place(path, segment))
        if self._planned is not None:
            plan, plan_ms, planned_with = self._planned
            has_not_run = (
                0.0 <= plan_ms - remaining_ms <= _DECIDING_MS
                and plan.path is path
                and planned_with == factor
                and plan.forecast_ms == row[2]
            )
            if has_not_run:  # the best among all paths, and so among those that are left
                return plan
        if len(candidates.rows) > 1:  # there is something to decide
            left = self._time_left(segment, remaining_ms, factor)
            row = self._best_row(candidates, left, row)
        return self._choice(candidates, row, remaining_ms, factor)

    def _time_left(self, segment: int, remaining_ms: float, factor: float) -> _TimeLeft:
        """Times go as those of recent frames, or rests; where none are known, the factor is the 99th percentile.
        A later result is to be there when the frame would be answered beside its network."""
        times = self._times
        later_ms = max(remaining_ms - (times.lead_ms if times else 0.0), _NO_TIME_MS)
        if times and _NO_TIME_MS < remaining_ms < math.inf:
            part = self._parts[segment]
            if part.recent.has_limit:
                expected = factor / part.factor  # a forecast's
                first, later = math.log(remaining_ms / expected), math.log(later_ms / expected)
                return _TimeLeft(remaining_ms, factor, first, later, part.recent, {})
        median = math.log(factor) - _BOUND_DEVIATIONS * _DEVIATION
        first, later = (
            -math.inf if left_ms <= _NO_TIME_MS else math.log(left_ms) - median
            for left_ms in (remaining_ms, later_ms)
        )
        return _TimeLeft(remaining_ms, factor, first, later, _NormalTimes(), {})

    def _best_row(
        self,
        candidates: _Candidates,
        left: _TimeLeft,
        planned: _Row | None = None,
    ) -> _Row:
        """The path of the greatest expected quality; the planned one unless another gains more than `keep_epsilon`."""
        results, tops = candidates.results, self._tops
        so_far = self._reached[results - 1][planned[1]] if planned and results else 0.0
        for least in (_LIKELY if planned else math.inf, None):
            found, best = candidates.cheapest, -1.0
            if planned is not None:
                kept = self._expected(planned, results, so_far, left, least)
                if kept > -1.0 and not (results and kept - so_far <= _NEGLIGIBLE):
                    found, best = planned, kept + self._keep_epsilon
            for row in candidates.rows:
                if tops[row[1]] > best:
                    value = self._expected(row, results, so_far, left, least)
                    if value > best:
                        found, best = row, value
            if best > -1.0:
                break
        return found

    def _expected(
        self,
        row: _Row,
        results: int,
        so_far: float,
        left: _TimeLeft,
        least: float | None,
    ) -> float:
        """Expected quality of a path; -1 where its mandatory part is not to be run, as its bound does not fit and its
        chance is below `least`; with None, as the chance of the whole is not even."""
        _, member, _, mandatory_ms, logs = row
        remaining_ms, factor, first, later, frames, chances = left
        value, chance = so_far, 1.0
        for number, log in enumerate(logs, results):
            ratio = (later if number else first) - log
            known = 1.0 if log <= _LOG_NO_TIME else chances.get(ratio)
            if known is None:
                known = chances[ratio] = frames.share_within(ratio)
            chance = known
            if number:
                if chance < _EVEN_CHANCE:
                    chance = -_ROUNDING  # nothing is gained by its plan
            elif least is not None and chance < least and mandatory_ms * factor > remaining_ms:
                return -1.0
            value += chance * self._adds[number][member]
        return value if least is not None or chance >= _EVEN_CHANCE else -1.0

    def _choice(
        self,
        candidates: _Candidates,
        row: _Row,
        remaining_ms: float,
        factor: float,
    ) -> Choice:
        path, chosen, forecast_ms, mandatory_ms, _ = row
        if candidates.results:  # promised already; the rest is worth a try while it can be in time
            bound_ms = forecast_ms * factor
            feasible = bound_ms <= remaining_ms
        else:
            bound_ms = mandatory_ms * factor
            feasible = candidates.least_ms * factor <= remaining_ms
        return Choice(path, forecast_ms, bound_ms, feasible, self._reached[-1][chosen])

    def _weigh(self, weights: np.ndarray) -> None:
        """Makes ready what each path has reached at each of its results in a scene, what that result adds, both
        `[results][paths]`, and the most that it reaches: after an answer, so that no decision has to."""
        self._weights = weights
        at_end = (self._by_size @ weights).clip(0.0, 1.0)[self._first]
        self._reached = at_end.tolist()
        self._adds = np.diff(at_end, axis=0, prepend=0.0).tolist()
        self._tops = (at_end.max(axis=0) + _ROUNDING).tolist()
        self._planned = None

    def _result_ends(self) -> np.ndarray:
        """Segment after which each result of each path exists, int `[results, paths]`, in their order; the last one of
        a path with fewer is repeated."""
        ends = []
        for path in self._paths:
            keys = path.keys_by_segment
            own = [at for at in self._space.result_segments if keys[at] is not None]
            if not own or any(key is not None for key in keys[own[-1] + 1 :]):
                own.append(len(keys) - 1)
            ends.append(own)
        most = max(map(len, ends))
        return np.array([one + one[-1:] * (most - len(one)) for one in ends], np.intp).T

    def _quality_sources(self) -> np.ndarray:
        """Path that ends with each result of each path, int `[results, paths]`: of those that agree with it until then
        the one with the least left to run."""
        sources = np.empty_like(self._ends)
        sources[-1] = np.arange(len(self._paths))
        for row, ends in enumerate(self._ends[:-1]):
            for end in np.unique(ends).tolist():
                numbers = self._prefix_numbers(end + 1)
                order = np.lexsort((self._after_ms[end], numbers))
                least = order[np.unique(numbers[order], return_index=True)[1]]
                sources[row, ends == end] = least[numbers[ends == end]]
        return sources

    def _gather(self, segment: int, planned: int) -> tuple[_Candidates, _Row]:
        """What may follow on the choices of a path as a segment begins, and its row."""
        known = self._found.get((segment, id(self._paths[planned])))
        if known is not None:
            return known
        prefixes = self._prefixes[segment]
        members = np.flatnonzero(prefixes == prefixes[planned])
        here_ms = self._remaining_ms[segment, members]
        ends = self._ends[:, members]
        if (ends == ends[-1]).all():
            ends = ends[:1]
        until_ms = np.where(ends < segment, 0.0, here_ms - self._after_ms[ends, members])
        results = int((ends < segment).sum(axis=0).min())
        mandatory_ms = until_ms[0]
        logs = np.log(np.maximum(until_ms[results:], _NO_TIME_MS / 2.0)).T
        numbers = members.tolist()
        paths = [self._paths[member] for member in numbers]
        of_each = numbers, here_ms.tolist(), mandatory_ms.tolist(), logs.tolist()
        rows = list(zip(paths, *of_each))
        cheapest = rows[np.lexsort(until_ms.round(6)[::-1])[0]]
        found = _Candidates(rows, float(mandatory_ms.min()), cheapest, results)
        for row in rows:
            self._found[segment, id(row[0])] = found, row
        return found, rows[numbers.index(planned)]
