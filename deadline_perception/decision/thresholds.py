"""The thresholds that the multi-path paper puts at each operator.

Source: multi-path paper, section V-B. With the remaining time D - t_e, each operator decides for itself as it is
reached: skip (tau = blocks + RPN + cheapest head at fewest proposals), number of proposals (tau = cheapest head at
most proposals), head (the longest that fits). Changed: the number of proposals is rounded down to one that the
network offers; the paper's networks have one width, so widths are given and never decided; times are bounds on this
machine (forecast times factor) in place of the analytical WCET.
"""
from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

from deadline_perception.decision.policy import (
    Choice,
    Forecast,
    Quality,
    check_allowance,
    check_outcome,
    check_position,
    check_time_left,
)
from deadline_perception.execution_path import ExecutionPath, PathSpace


def widths_that_fit(path_space: PathSpace, forecast: Forecast, budget_ms: float) -> tuple[float, float]:
    """Widths of backbone and pyramid for a policy that decides none, known before the frames are.

    Args:
        path_space: all paths of the network.
        forecast: expected idle times.
        budget_ms: smallest time that a frame may take, less any margin.

    Returns:
        Among the pairs whose cheapest path fits the budget, those of the longest path; those of the shortest when
        none does.
    """
    pairs = [(width, pyramid_width) for width in path_space.widths for pyramid_width in path_space.pyramid_widths]

    def forecast_ms(path: ExecutionPath, pair: tuple[float, float]) -> float:
        return forecast.forecast_ms(replace(path, width=pair[0], pyramid_width=pair[1]))

    fitting = [pair for pair in pairs if forecast_ms(path_space.smallest, pair) <= budget_ms]
    if not fitting:
        return min(pairs, key=lambda pair: forecast_ms(path_space.smallest, pair))
    return max(fitting, key=lambda pair: forecast_ms(path_space.largest, pair))


class ThresholdPolicy:
    """Decides each operator by its own threshold; never looks at quality, and sees no further than the formulas.

    A plan walks through all operators with the time that the slots before each are expected to take. `feasible`
    says whether the cheapest path at the given widths fits; the chosen path's own bound need not, since the skip
    threshold as published leaves out the blocks that cannot be skipped.

    Args:
        path_space: all paths of the network.
        forecast: expected idle times.
        quality: expected average precision of the paths, reported only.
        width: backbone width of every frame.
        pyramid_width: pyramid width of every frame.
        allowance_ms: constant part of every bound; taken off the remaining time before it meets a threshold.

    Raises:
        ValueError: a width is not one of the space, or the allowance is negative or not finite.
    """

    name = 'thresholds'

    def __init__(self, path_space: PathSpace, forecast: Forecast, quality: Quality, *, width: float = 1.0,
                 pyramid_width: float = 1.0, allowance_ms: float = 0.0) -> None:
        if width not in path_space.widths or pyramid_width not in path_space.pyramid_widths:
            raise ValueError(f'width is {width} and pyramid_width {pyramid_width}, expected one of '
                             f'{path_space.widths} and one of {path_space.pyramid_widths}')
        self._space = path_space
        self._forecast = forecast
        self._start = replace(path_space.largest, width=width, pyramid_width=pyramid_width)
        self._allowance_ms = check_allowance(allowance_ms)
        self._slots = {slot.name: index for index, slot in enumerate(path_space.slots)}
        # None of these depends on the time left, and a path space is finite: each is worked out once.
        self._quality = cache(quality.quality)
        self._rest_ms = cache(self._find_rest_ms)
        self._slot_ms = cache(self._find_slot_ms)
        self._head_times_ms = cache(self._find_head_times_ms)
        self._skip_tau_ms = cache(self._find_skip_tau_ms)
        self._proposals_tau_ms = cache(self._find_proposals_tau_ms)
        self._cheapest = cache(self._find_cheapest)

    def plan(self, remaining_ms: float, factor: float) -> Choice:
        """The path that the thresholds would give if every slot took its bound; see `Policy.plan`."""
        return self._decide(self._start, 0, remaining_ms, factor)

    def redecide(self, path: ExecutionPath, slot: int, remaining_ms: float, factor: float) -> Choice:
        """Decides the operator of `slot` now, and plans the later ones anew; see `Policy.redecide`."""
        check_position(self._space, path, slot)
        return self._decide(path, slot, remaining_ms, factor)

    def observe(self, latency_ms: float, remaining_ms: float) -> None:
        """Changes nothing: what frames took comes back in the factor; see `Policy.observe`."""
        check_outcome(latency_ms, remaining_ms)

    def skips(self, path: ExecutionPath, skip: int, remaining_ms: float, factor: float) -> bool:
        """Whether a skip operator skips its blocks: tau = n t_RS + t_RPN + min_j t_SN_j(n_P min) exceeds the time."""
        return self._skip_tau_ms(path, skip) * factor > remaining_ms

    def proposals(self, path: ExecutionPath, remaining_ms: float, factor: float) -> int:
        """Number of proposals: min(max(floor(n_max (D - t_e) / tau), n_min), n_max), tau = min_j t_SN_j(n_max)."""
        legal = self._space.proposals
        tau_ms = self._proposals_tau_ms(path) * factor
        share = remaining_ms / tau_ms if tau_ms > 0 else math.copysign(math.inf, remaining_ms)
        wanted = min(max(legal[-1] * share, legal[0]), legal[-1])
        return max(count for count in legal if count <= math.floor(wanted))

    def head(self, path: ExecutionPath, remaining_ms: float, factor: float) -> int:
        """The head of the longest execution time that is at most the time left; the shortest when none is."""
        times_ms = self._head_times_ms(path)
        fitting = [(time_ms, head) for head, time_ms in enumerate(times_ms) if time_ms * factor <= remaining_ms]
        return max(fitting)[1] if fitting else times_ms.index(min(times_ms))

    def _decide(self, path: ExecutionPath, slot: int, remaining_ms: float, factor: float) -> Choice:
        check_time_left(remaining_ms, factor)
        left_ms = remaining_ms - self._allowance_ms
        chosen = path
        for at in range(slot, len(self._space.slots)):
            operator = self._space.slots[at].operator
            if operator is not None and operator.startswith('skip'):
                number = int(operator[4:])
                decided = self.skips(chosen, number, left_ms, factor)
                if decided != chosen.skip[number]:
                    chosen = replace(chosen, skip=chosen.skip[:number] + (decided,) + chosen.skip[number + 1:])
            elif operator == 'proposals':
                chosen = replace(chosen, proposals=self.proposals(chosen, left_ms, factor))
            elif operator == 'head':
                chosen = replace(chosen, head=self.head(chosen, left_ms, factor))
            left_ms -= self._slot_ms(chosen, at) * factor
        forecast_ms = self._rest_ms(chosen, slot)
        cheapest_ms = min(forecast_ms, self._rest_ms(self._cheapest(path, slot), slot))
        return Choice(chosen, forecast_ms, forecast_ms * factor + self._allowance_ms,
                      cheapest_ms * factor + self._allowance_ms <= remaining_ms, self._quality(chosen))

    def _find_skip_tau_ms(self, path: ExecutionPath, skip: int) -> float:
        at = self._slots[f'skip{skip}']
        fewest = replace(path, proposals=self._space.proposals[0])
        runs = replace(fewest, skip=tuple(taken and i != skip for i, taken in enumerate(path.skip)))
        rpn_ms = self._slot_ms(fewest, self._slots['rpn']) + self._slot_ms(fewest, self._slots['proposals'])
        return self._slot_ms(runs, at) + rpn_ms + min(self._head_times_ms(fewest))

    def _find_proposals_tau_ms(self, path: ExecutionPath) -> float:
        return min(self._head_times_ms(replace(path, proposals=self._space.proposals[-1])))

    def _find_head_times_ms(self, path: ExecutionPath) -> list[float]:
        # t_SN_j at the path's number of proposals: all from the head on, with its post-processing.
        return [self._rest_ms(replace(path, head=head), self._slots['head']) for head in range(self._space.heads)]

    def _find_slot_ms(self, path: ExecutionPath, slot: int) -> float:
        if self._space.segment(slot, path) is None:
            return 0.0
        return max(0.0, self._rest_ms(path, slot) - self._rest_ms(path, slot + 1))

    def _find_rest_ms(self, path: ExecutionPath, slot: int) -> float:
        return 0.0 if slot == len(self._space.slots) else self._forecast.forecast_ms(path, slot)

    def _find_cheapest(self, path: ExecutionPath, slot: int) -> ExecutionPath:
        free = {passed.operator for passed in self._space.slots[slot:]}
        skip = tuple(True if f'skip{i}' in free else taken for i, taken in enumerate(path.skip))
        proposals = self._space.proposals[0] if 'proposals' in free else path.proposals
        return replace(path, skip=skip, proposals=proposals, head=0 if 'head' in free else path.head)
