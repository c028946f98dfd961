"""Time reserved before every deadline for what the node itself has to do around the network.

The reserve has two parts. `publishing`, a high quantile of the time from the network's end to published detections, is
all that a watchdog or an abort has to leave over. `deciding`, the median time of a frame's decisions, shrinks as they
are made, because what they took is then in the time that has passed.

One miss probability covers all of it. A quantile of the node's own time on top of a bound of the network's would pay
for two misfortunes that hardly ever meet. So the bound is calibrated on the network's time plus what the rest took
beyond its reserve (`FrameReserve.overrun_ms`): a frame that was planned to fit and keeps such a bound has its
network done before the watchdog's time, and is published before its deadline. Frames whose publication outlasts its
quantile need no further reserve: most ended before their bound, and those that did not are calibrated on.
"""
from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True)
class FrameReserve:
    """What one frame reserves of its time.

    Attributes:
        deciding_ms: for its decisions, finite and >= 0.
        publishing_ms: from the network's end to published detections, finite and >= 0.
    """

    deciding_ms: float
    publishing_ms: float

    def overrun_ms(self, deciding_ms: float, publishing_ms: float = 0.0) -> float:
        """What a frame took beyond it; time saved by deciding may be spent on publishing, but not the reverse, which
        would come after the watchdog's time."""
        return max(0.0, deciding_ms - self.deciding_ms + max(0.0, publishing_ms - self.publishing_ms))


class Reserve:
    """A quantile of recent times of one kind, within limits.

    Args:
        floor_ms: smallest reserve, >= 0, also in force before anything was observed.
        ceiling_ms: largest reserve, >= `floor_ms`; one long pause shall not take the time of the next hundred frames.
        quantile: of the times kept, in (0, 1].
        window: number of times kept, >= 1.
    """

    def __init__(self, floor_ms: float, ceiling_ms: float = math.inf, *, quantile: float = 0.99,
                 window: int = 200) -> None:
        self._floor_ms = floor_ms
        self._ceiling_ms = ceiling_ms
        self._quantile = quantile
        self._window = window
        self._recent: deque[float] = deque()
        self._ordered: list[float] = []

    @property
    def reserve_ms(self) -> float:
        """The reserve now."""
        if not self._ordered:
            return self._floor_ms
        rank = math.ceil(self._quantile * len(self._ordered)) - 1
        return min(self._ceiling_ms, max(self._floor_ms, self._ordered[rank]))

    def observe(self, took_ms: float) -> None:
        """Takes in the time of one frame.

        Raises:
            ValueError: the time is negative or not finite.
        """
        if not 0.0 <= took_ms < math.inf:
            raise ValueError(f'time of a frame is {took_ms} ms, expected a finite time of at least 0')
        self._recent.append(took_ms)
        insort(self._ordered, took_ms)
        if len(self._recent) > self._window:
            del self._ordered[bisect_left(self._ordered, self._recent.popleft())]
