"""The vehicle's speed, smoothed, and whether it is still to be believed."""

from __future__ import annotations

import math


class SpeedFilter:
    """First-order low pass over speeds that come at any rhythm; knows when its source has fallen silent.

    Args:
        time_constant_s: time in which 63 % of a step is followed, finite; 0 follows at once.
        timeout_s: age above which the latest speed counts for nothing, finite and > 0.
    """

    def __init__(self, time_constant_s: float, timeout_s: float) -> None:
        self._time_constant_s = time_constant_s
        self._timeout_s = timeout_s
        self._speed_mps = math.nan
        self._heard_s = math.nan

    def observe(self, speed_mps: float, now_s: float) -> None:
        """Takes in a speed, finite and >= 0; after a silence, or when the clock went back, the filter starts anew."""
        elapsed_s = now_s - self._heard_s
        if self._time_constant_s == 0.0 or not 0.0 <= elapsed_s <= self._timeout_s:
            self._speed_mps = speed_mps
        else:
            self._speed_mps += (1.0 - math.exp(-elapsed_s / self._time_constant_s)) * (
                speed_mps - self._speed_mps
            )
        self._heard_s = now_s

    def is_fresh(self, now_s: float) -> bool:
        """A speed has come within the timeout."""
        return self.age_s(now_s) <= self._timeout_s

    def speed_mps(self, now_s: float) -> float:
        """The smoothed speed; NaN when it is not fresh."""
        return self._speed_mps if self.is_fresh(now_s) else math.nan

    def age_s(self, now_s: float) -> float:
        """Time since the latest accepted speed, anew from when the clock has gone back; NaN before the first."""
        if now_s < self._heard_s:
            self._heard_s = now_s
        return now_s - self._heard_s
