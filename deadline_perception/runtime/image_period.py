"""When the next image is to be expected, learnt from those that came."""
from __future__ import annotations

import math
import statistics
from collections import deque

LONGEST_MS = 1000.0  # images further apart are no stream: a bag that stood still, a camera that was away
_KEPT = 15  # distances


class ImagePeriod:
    """The median distance of recent images; safe as long as one thread calls at a time."""

    def __init__(self) -> None:
        self._distances_ms: deque[float] = deque(maxlen=_KEPT)
        self._last_ms = math.nan

    @property
    def period_ms(self) -> float:
        """Time between two images; inf until two have come that belong together."""
        return statistics.median(self._distances_ms) if self._distances_ms else math.inf

    def observe(self, arrived_ms: float, left_out: int = 0) -> None:
        """Takes in an image.

        Args:
            arrived_ms: time of the monotonic clock.
            left_out: images between the one observed before and this one.
        """
        distance_ms = (arrived_ms - self._last_ms) / (left_out + 1)
        if 0.0 < distance_ms <= LONGEST_MS:
            self._distances_ms.append(distance_ms)
        self._last_ms = arrived_ms

    def next_ms(self, at_ms: float) -> float:
        """When the next image after a time is expected; inf while nothing is known.

        An image that is overdue is expected a whole period after it should have come.
        """
        period_ms = self.period_ms
        if period_ms == math.inf:
            return math.inf
        periods = max(1, math.floor((at_ms - self._last_ms) / period_ms) + 1)
        return self._last_ms + periods * period_ms
