"""Bounds of the times of sub-networks, learnt while they run: what inference and training choose a utilisation by."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from deadline_perception.timing.calibration import BoundCalibrator

_SCORE_WIDTH = math.log(8.0)
_STEP = 0.05  # of the calibrator
_NEWEST = 0.2  # weight of the newest time in the slowdown
_LEAST_MS = 1e-6


@dataclass(frozen=True)
class Fit:
    """The utilisation for a budget: the largest whose bound fits, or the smallest where none does."""

    utilisation: float
    bound_ms: float
    fits_budget: bool


class TimeBounds:
    """A bound is a setting's median time, times the slowdown of late, times a factor that is calibrated online.

    In the long run a share `target_miss_probability` of runs exceeds its bound, see `BoundCalibrator`.

    Args:
        expected_ms: median time by utilisation, at least one; a larger utilisation is never expected to be faster.
        target_miss_probability: in (0, 1).
        initial_factor: of the first bounds, such as the longest time seen over the median; at least 1 and at most 8
            count.
    """

    def __init__(
        self,
        expected_ms: Mapping[float, float],
        target_miss_probability: float,
        initial_factor: float = 1.25,
    ) -> None:
        self._calibrator = BoundCalibrator(
            target_miss_probability,
            _STEP,
            _SCORE_WIDTH,
            min(math.log(max(1.0, initial_factor)), _SCORE_WIDTH),
        )
        self._log_slowdown = 0.0
        longest = _LEAST_MS
        self._expected_ms = {}
        for utilisation in sorted(expected_ms):
            longest = self._expected_ms[utilisation] = max(longest, expected_ms[utilisation])

    @property
    def bounds_ms(self) -> dict[float, float]:
        """Bound in ms by utilisation, ascending."""
        factor = self._calibrator.factor * math.exp(self._log_slowdown)
        return {utilisation: time * factor for utilisation, time in self._expected_ms.items()}

    def fit(self, budget_ms: float) -> Fit:
        """The largest sub-network whose bound fits a budget (SubFlow, equation 2, with bounds instead of expected
        times); of a negative one nothing fits.
        """
        bounds_ms = self.bounds_ms
        fitting = [utilisation for utilisation, bound in bounds_ms.items() if bound <= budget_ms]
        chosen = max(fitting) if fitting else min(bounds_ms)
        return Fit(chosen, bounds_ms[chosen], bool(fitting))

    def observe(self, utilisation: float, took_ms: float) -> None:
        """Learns from one run of a sub-network."""
        took_ms = max(took_ms, _LEAST_MS)
        expected_ms = self._expected_ms[utilisation]
        self._calibrator.observe(expected_ms * math.exp(self._log_slowdown), took_ms)
        self._log_slowdown += _NEWEST * (math.log(took_ms / expected_ms) - self._log_slowdown)
