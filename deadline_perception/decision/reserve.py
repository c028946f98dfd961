"""Time kept back from every deadline for what the node itself has to do around the network."""
from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque


class Reserve:
    """A high quantile of the node's own recent overheads, within limits.

    Args:
        floor_ms: smallest reserve, also in force before anything was observed.
        ceiling_ms: largest reserve; one long pause shall not take the time of the next hundred frames.
        quantile: of the overheads kept, in (0, 1].
        window: number of overheads kept.

    Raises:
        ValueError: a value lies outside its range.
    """

    def __init__(self, floor_ms: float, ceiling_ms: float = math.inf, *, quantile: float = 0.99,
                 window: int = 200) -> None:
        if not (0.0 <= floor_ms < math.inf and floor_ms <= ceiling_ms):
            raise ValueError(f'floor_ms is {floor_ms} and ceiling_ms {ceiling_ms}, expected 0 <= floor <= ceiling')
        if not (0.0 < quantile <= 1.0 and window >= 1):
            raise ValueError(f'quantile is {quantile} and window {window}, expected a quantile in (0, 1] and at '
                             f'least 1 observation')
        self._floor_ms = floor_ms
        self._ceiling_ms = ceiling_ms
        self._quantile = quantile
        self._window = window
        self._recent: deque[float] = deque()
        self._ordered: list[float] = []

    @property
    def reserve_ms(self) -> float:
        """Time to keep back now."""
        if not self._ordered:
            return self._floor_ms
        rank = min(len(self._ordered) - 1, math.ceil(self._quantile * len(self._ordered)) - 1)
        return min(self._ceiling_ms, max(self._floor_ms, self._ordered[rank]))

    def observe(self, overhead_ms: float) -> None:
        """Takes in the overhead of one frame.

        Raises:
            ValueError: the overhead is negative or not finite.
        """
        if not 0.0 <= overhead_ms < math.inf:
            raise ValueError(f'overhead is {overhead_ms} ms, expected a finite time of at least 0')
        self._recent.append(overhead_ms)
        insort(self._ordered, overhead_ms)
        if len(self._recent) > self._window:
            del self._ordered[bisect_left(self._ordered, self._recent.popleft())]
