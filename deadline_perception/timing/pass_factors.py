"""How wrong a profile is about the passes of a network beside its first one.

Profiles of a first and a last pass are measured one after the other, and a machine's speed changes between. Then bounds of
frames that end with the one are too long, and of those with the other too short, which no limit for all frames mends.
A factor for each pass but the first does, learnt from pairs of passes that ran in one frame or near each other, whatever
the load was. The first pass keeps its forecast, so that no change shakes the bounds that are promised. Needs no torch.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.timing.path_bound import SegmentForecast
from deadline_perception.timing.recent_times import LEAST_RATIOS

_NEAR = 16  # frames, between which a machine's speed mostly stays
_PAIRS = 64  # newest ones, whose median makes a factor
_LEAST_CHANGE = 0.04  # of a factor's logarithm, looked at every `LEAST_RATIOS` frames


class PassFactors:
    """See the module. Belongs to the thread that runs the network.

    Args:
        profiled: what the profile expects, of paths with results so far.
    """

    def __init__(self, profiled: SegmentForecast) -> None:
        self._profiled = profiled
        space = profiled.path_space
        ends = [at + 1 for at in space.result_segments]
        limits = dict.fromkeys([0, *ends, len(space.segments)])
        self._passes = [slice(*pair) for pair in pairwise(limits)]
        self._logs = [0.0] * len(self._passes)
        self._newest = [(-_NEAR, 0.0)] * len(self._passes)
        self._pairs: list[deque[float]] = [deque(maxlen=_PAIRS) for _ in self._passes]
        self._count = 0

    def observe(self, path: ExecutionPath, done: Sequence[tuple[str, float]]) -> bool:
        """Takes in a frame that has ended; True where a factor has changed.

        Args:
            path: that ran.
            done: phase and time in ms of each of its segments.
        """
        self._count += 1
        each_ms = self._profiled.from_each_ms(path)
        for number, one in enumerate(self._passes):
            expected_ms = each_ms[one.start] - each_ms[one.stop]
            took_ms = sum(ms for _, ms in done[one])
            if expected_ms > 0.0 and took_ms > 0.0:
                self._newest[number] = self._count, math.log(took_ms / expected_ms)
        changed = False
        (first_at, first), *others = self._newest
        for number, (at, log) in enumerate(others, 1):
            pairs = self._pairs[number]
            if max(at, first_at) == self._count and min(at, first_at) > self._count - _NEAR:
                pairs.append(log - first)
            if len(pairs) >= LEAST_RATIOS and self._count % LEAST_RATIOS == 0:
                log = median(pairs)
                if abs(log - self._logs[number]) > _LEAST_CHANGE:
                    self._logs[number] = log
                    changed = True
        return changed

    def forecast(self) -> SegmentForecast:
        """What the profile expects, times the factors."""
        profiled = self._profiled
        costs_ms = dict(profiled.costs_ms)
        for one, log in zip(self._passes, self._logs):
            for *_, keys in profiled.path_space.key_tables[one]:
                for key in filter(None, keys.values()):
                    costs_ms[key] = profiled.costs_ms[key] * math.exp(log)
        return SegmentForecast(profiled.path_space, costs_ms)
