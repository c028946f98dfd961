"""Lets as many images through as a robot wants to be answered; the others take no time."""
from __future__ import annotations

_EARLY = 0.1  # of a period: cameras are not that punctual


class RateLimit:
    """Takes images on a grid of its period, at most one for each period in the long run."""

    def __init__(self) -> None:
        self.left_out = 0
        self._due_ms = self._last_ms = float('-inf')

    def takes(self, now_ms: float, most_hz: float) -> bool:
        """Whether an image is to be answered; counts it otherwise.

        Args:
            now_ms: when it came; a clock that was set back begins a new grid.
            most_hz: images a second, 0 for all.
        """
        if now_ms < self._last_ms:
            self._due_ms = float('-inf')
        self._last_ms = now_ms
        if most_hz <= 0.0:
            return True
        period_ms = 1000.0 / most_hz
        self._due_ms = min(self._due_ms, now_ms + (1.0 + _EARLY) * period_ms)  # the rate may have been raised
        if now_ms < self._due_ms - _EARLY * period_ms:
            self.left_out += 1
            return False
        self._due_ms = (self._due_ms if now_ms - self._due_ms < period_ms else now_ms) + period_ms
        return True
