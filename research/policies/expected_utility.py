"""The path of the greatest expected utility: the quality that comes in time, less what a late frame costs.

The policy `frontier` holds a miss probability and takes the best path under it, whatever a little more time would have
been worth. Where late frames have a price rather than a limit, this one comes to fewer of them at the same quality.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from slowdown_belief import SlowdownBelief

from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.decision.frontier import FrontierPolicy, SegmentFrontiers
from deadline_perception.decision.policy import Choice, Quality
from deadline_perception.timing.time_model import Forecast


class ExpectedUtilityPolicy(FrontierPolicy):
    """Of the paths that agree with what has run, the greatest quality * P(in time) - miss_cost * P(late).

    P(late) is of the slowdowns that this policy's frames have met; at a re-decision also of what this frame has taken
    so far, which tells whether it shares its core. The factor decides nothing: it states the bound of the path, which
    alone holds the target miss probability, and which may exceed the time left. Of equal paths, such as all without
    time left whose late results are worth nothing, the cheapest. At a re-decision the planned path is kept unless
    another gains more than `FrontierPolicy` asks for, of utility.

    Args:
        miss_cost: quality that one late frame costs besides its own, at least 0; at 0 as much quality as
            possible comes in time.
        late_worth: share of its quality that a result has when it is late, 0 to 1; 0 where something else stands in.
    """

    name = 'expected_utility'
    keeps_bounds = False

    def __init__(
        self,
        path_space: PathSpace,
        forecast: Forecast,
        quality: Quality,
        *,
        miss_cost: float,
        late_worth: float = 0.0,
        paths: Sequence[ExecutionPath] | None = None,
    ) -> None:
        super().__init__(path_space, forecast, quality, paths=paths)
        self._miss_cost = miss_cost
        self._late_worth = late_worth
        self._belief = SlowdownBelief()
        self._tables = [None] * len(self._frontiers)
        self._whole_ms = 0.0  # of the path that was chosen last

    def plan(self, remaining_ms: float, factor: float) -> Choice:
        """See `Policy.plan`."""
        frontiers = self._frontier(0)
        end = len(frontiers.members)
        best = int(np.argmax(self._utilities(0, 0, end, remaining_ms)))
        return self._chosen(0, frontiers, 0, best, remaining_ms, factor)

    def redecide(
        self,
        path: ExecutionPath,
        segment: int,
        remaining_ms: float,
        factor: float,
        elapsed_ms: float = 0.0,
    ) -> Choice:
        """See `Policy.redecide`."""
        planned = self._place(path, segment)
        frontiers = self._frontier(segment)
        group = frontiers.group_of[planned]
        begin = frontiers.begins[group]
        end = frontiers.begins[group + 1]
        whole_ms = self._remaining_ms.item(0, planned)
        planned_ms = self._remaining_ms.item(segment, planned)
        run_ms = whole_ms - planned_ms
        is_known = run_ms > 0.0 and elapsed_ms > 0.0
        begun = (elapsed_ms / run_ms, run_ms / whole_ms) if is_known else None
        utilities = self._utilities(segment, begin, end, remaining_ms, begun)
        best = int(np.argmax(utilities))
        # Where no path is as cheap as the planned one, noise has made it cheaper than the frontier's begin.
        kept = bisect_right(frontiers.remaining_ms, planned_ms, begin, end) - 1 - begin
        is_there = kept >= 0 and frontiers.members[begin + kept] == planned
        if is_there and utilities[best] - utilities[kept] <= self._keep_epsilon:
            best = kept
        return self._chosen(segment, frontiers, begin, begin + best, remaining_ms, factor)

    def observe(self, latency_ms: float, remaining_ms: float) -> None:
        """Learns what the frame took; of one that was late before its end, that it takes longer than it had. See
        `Policy.observe`."""
        if not self._whole_ms > 0.0:
            return
        if 0.0 < latency_ms < math.inf:
            self._belief.observe(latency_ms / self._whole_ms)
        elif latency_ms == math.inf and 0.0 < remaining_ms < math.inf:
            self._belief.observe_at_least(remaining_ms / self._whole_ms)

    def _utilities(
        self,
        segment: int,
        begin: int,
        end: int,
        remaining_ms: float,
        begun: tuple[float, float] | None = None,
    ) -> np.ndarray:
        """Of the paths of one frontier; `begun` as for `SlowdownBelief.probability_above`."""
        table = self._tables[segment]
        if table is None:
            frontiers = self._frontiers[segment]
            table = self._tables[segment] = (
                np.log(np.maximum(frontiers.remaining_ms, 1e-9)),
                np.array(frontiers.qualities),
            )
        logs = table[0][begin:end]
        qualities = table[1][begin:end]
        if remaining_ms == math.inf:
            return qualities
        if remaining_ms <= 0.0:
            late = np.ones_like(logs)  # of equal ones the first, the cheapest, is late by the least
        else:
            late = self._belief.probability_above(math.log(remaining_ms) - logs, begun)
        # So written, paths that are late for certain are exactly equal.
        return qualities * (1.0 - late) + (self._late_worth * qualities - self._miss_cost) * late

    def _chosen(
        self,
        segment: int,
        frontiers: SegmentFrontiers,
        begin: int,
        at: int,
        remaining_ms: float,
        factor: float,
    ) -> Choice:
        chosen = frontiers.members[at]
        times_ms = frontiers.remaining_ms
        self._whole_ms = self._remaining_ms.item(0, chosen)
        return Choice(
            self._paths[chosen],
            self._remaining_ms.item(segment, chosen),
            times_ms[at] * factor,
            times_ms[begin] * factor <= remaining_ms,
            frontiers.qualities[at],
        )
