"""The thresholds that the multi-path paper puts at each operator.

Source: multi-path paper, section V-B. With the remaining time D - t_e, each operator decides for itself as it is
reached: skip (tau = blocks and the minimum execution time of the rest of the network), number of proposals (tau =
cheapest head at most proposals), head (the longest that fits). The paper's formula for skips counts of the rest only
the region proposals and the cheapest head; its text counts all of it, as here: what the formula leaves out has to run
as well, and would make every tight deadline late. Changed: the number of proposals is rounded down to one that the
network offers; the paper's networks have one width, so what is no skip, proposals or switch is given and never decided;
times are bounds on this machine (forecast times factor) in place of the analytical WCET.
"""

from __future__ import annotations

import itertools
import math
from functools import cache

from deadline_perception.core.execution_path import (
    PROPOSALS,
    SKIP,
    SWITCH,
    ExecutionPath,
    Operator,
    PathSpace,
)
from deadline_perception.decision.policy import Choice, Quality
from deadline_perception.timing.time_model import Forecast

DECIDED = (SKIP, PROPOSALS, SWITCH)


def largest_that_fits(path_space: PathSpace, forecast: Forecast, budget_ms: float) -> ExecutionPath:
    """The path to start `ThresholdPolicy` from, known before the frames are: the largest one with the other operators
    (widths) at those settings which, among all whose cheapest path fits the budget, have the longest one; at those of
    the shortest cheapest path when none does. The budget is the smallest time that a frame may take, less any reserve.
    """
    given = [operator for operator in path_space.operators if operator.kind not in DECIDED]
    choices = [
        dict(zip((operator.name for operator in given), settings))
        for settings in itertools.product(*(operator.settings for operator in given))
    ]

    def least_ms(choice: dict) -> float:
        return forecast.forecast_ms(path_space.smallest.replace(**choice))

    def most_ms(choice: dict) -> float:
        return forecast.forecast_ms(path_space.largest.replace(**choice))

    fitting = [choice for choice in choices if least_ms(choice) <= budget_ms]
    chosen = max(fitting, key=most_ms) if fitting else min(choices, key=least_ms)
    return path_space.largest.replace(**chosen)


class ThresholdPolicy:
    """Decides each operator by its own threshold; never looks at quality, and sees no further than the formulas.

    A plan walks through all operators with the time that the segments before each are expected to take. `feasible`
    says whether the cheapest path with the given settings fits; the chosen path's own bound need not, since the number
    of proposals is chosen as if the time of a head were proportional to it.

    Args:
        path_space: of a network that has one operator of the kind proposals and, after it, one switch.
        quality: reported only.
        start: gives the settings that are not decided, such as widths; by default the largest path.
    """

    name = 'thresholds'
    keeps_bounds = False

    def __init__(
        self,
        path_space: PathSpace,
        forecast: Forecast,
        quality: Quality,
        *,
        start: ExecutionPath | None = None,
    ) -> None:
        self._start = start or path_space.largest
        self._space = path_space
        self._forecast = forecast
        (self._proposals,) = path_space.of_kind(PROPOSALS)
        (self._switch,) = path_space.of_kind(SWITCH)
        self._segments = {
            segment.operator: at
            for at, segment in enumerate(path_space.segments)
            if segment.operator
        }
        self._after_proposals = self._segments[self._proposals.name] + 1
        # None of these depends on the time left, and a path space is finite: each is worked out once.
        self._quality = cache(quality.quality)
        self._rest_ms = cache(self._find_rest_ms)
        self._segment_ms = cache(self._find_segment_ms)
        self._head_times_ms = cache(self._find_head_times_ms)
        self._skip_tau_ms = cache(self._find_skip_tau_ms)
        self._cheapest = cache(self._find_cheapest)

    def plan(self, remaining_ms: float, factor: float) -> Choice:
        """The path that the thresholds would give if every segment took its bound; see `Policy.plan`."""
        return self._decide(self._start, 0, remaining_ms, factor)

    def redecide(
        self,
        path: ExecutionPath,
        segment: int,
        remaining_ms: float,
        factor: float,
        elapsed_ms: float = 0.0,
    ) -> Choice:
        """Decides the operator of `segment` now, and plans the later ones anew; see `Policy.redecide`."""
        return self._decide(path, segment, remaining_ms, factor)

    def observe(self, latency_ms: float, remaining_ms: float) -> None:
        """Changes nothing: what frames took comes back in the factor; see `Policy.observe`."""

    def skips(self, path: ExecutionPath, skip: str, remaining_ms: float, factor: float) -> bool:
        """Whether a skip operator skips its blocks: with them, the shortest rest of the network exceeds the time."""
        return self._skip_tau_ms(path, skip) * factor > remaining_ms

    def proposals(self, path: ExecutionPath, remaining_ms: float, factor: float) -> int:
        """Number of proposals: min(max(floor(n_max (D - t_e) / tau), n_min), n_max), tau = min_j t_SN_j(n_max)."""
        legal = self._proposals.settings
        most = path.replace(**{self._proposals.name: legal[-1]})
        tau_ms = min(self._head_times_ms(most, self._after_proposals)) * factor
        share = remaining_ms / tau_ms if tau_ms > 0 else math.copysign(math.inf, remaining_ms)
        wanted = min(max(legal[-1] * share, legal[0]), legal[-1])
        return max(count for count in legal if count <= math.floor(wanted))

    def head(self, path: ExecutionPath, remaining_ms: float, factor: float) -> str:
        """The head of the longest execution time that is at most the time left; the shortest when none is."""
        times_ms = self._head_times_ms(path, self._segments[self._switch.name])
        fitting = [
            (time_ms, head)
            for head, time_ms in enumerate(times_ms)
            if time_ms * factor <= remaining_ms
        ]
        chosen = max(fitting)[1] if fitting else times_ms.index(min(times_ms))
        return self._switch.settings[chosen]

    def _decide(
        self, path: ExecutionPath, segment: int, remaining_ms: float, factor: float
    ) -> Choice:
        left_ms = remaining_ms
        chosen = path
        for at in range(segment, len(self._space.segments)):
            name = self._space.segments[at].operator
            operator = None if name is None else self._space.operator(name)
            if operator is not None and operator.kind in DECIDED:
                decided = self._decided(chosen, operator, left_ms, factor)
                if decided != chosen[name]:
                    chosen = chosen.replace(**{name: decided})
            left_ms -= self._segment_ms(chosen, at) * factor
        forecast_ms = self._rest_ms(chosen, segment)
        cheapest_ms = min(forecast_ms, self._rest_ms(self._cheapest(path, segment), segment))
        return Choice(
            chosen,
            forecast_ms,
            forecast_ms * factor,
            cheapest_ms * factor <= remaining_ms,
            self._quality(chosen),
        )

    def _decided(
        self, path: ExecutionPath, operator: Operator, left_ms: float, factor: float
    ) -> str | int:
        if operator.kind == SKIP:
            return operator.settings[0 if self.skips(path, operator.name, left_ms, factor) else -1]
        if operator.kind == PROPOSALS:
            return self.proposals(path, left_ms, factor)
        return self.head(path, left_ms, factor)

    def _find_skip_tau_ms(self, path: ExecutionPath, skip: str) -> float:
        segment = self._segments[skip]
        runs = self._cheapest(path, segment).replace(
            **{skip: self._space.operator(skip).settings[-1]}
        )
        return self._rest_ms(runs, segment)

    def _find_head_times_ms(self, path: ExecutionPath, segment: int) -> list[float]:
        # t_SN_j at the path's number of proposals: all from a segment on, such as that of region features, to the end.
        return [
            self._rest_ms(path.replace(**{self._switch.name: head}), segment)
            for head in self._switch.settings
        ]

    def _find_segment_ms(self, path: ExecutionPath, segment: int) -> float:
        if self._space.key(segment, path) is None:
            return 0.0
        return max(0.0, self._rest_ms(path, segment) - self._rest_ms(path, segment + 1))

    def _find_rest_ms(self, path: ExecutionPath, segment: int) -> float:
        if segment == len(self._space.segments):
            return 0.0
        return self._forecast.forecast_ms(path, segment)

    def _find_cheapest(self, path: ExecutionPath, segment: int) -> ExecutionPath:
        names = {passed.operator for passed in self._space.segments[segment:]}
        return path.replace(
            **{
                operator.name: operator.settings[0]
                for operator in self._space.operators
                if operator.name in names and operator.kind in DECIDED
            }
        )
