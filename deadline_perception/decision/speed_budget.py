"""From the vehicle's speed to the time that perception may take."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """Longest allowed time from image stamp to published detections.

    Attributes:
        budget_ms: within the policy's limits.
        reason: why it is degraded, as the speed is unknown or outside what the policy covers, and the smallest budget is
            in force; empty otherwise.
        unclamped_ms: what the policy gave before its limits; NaN when the speed is unknown.
    """

    budget_ms: float
    reason: str
    unclamped_ms: float

    @property
    def degraded(self) -> bool:
        """There is a reason."""
        return bool(self.reason)


class FixedBudget:
    """The same budget at any speed, also while none is known.

    Args:
        budget_ms: longest allowed time, > 0.
    """

    name = 'fixed'

    def __init__(self, budget_ms: float) -> None:
        self.min_budget_ms = self.max_budget_ms = budget_ms

    def budget_ms(self, speed_mps: float) -> Budget:
        """The budget, whatever the speed. Never raises."""
        return Budget(self.max_budget_ms, '', self.max_budget_ms)


class TableBudget:
    """Budgets from a table of speeds: between two entries the smaller budget, that of the faster entry, holds.

    Below the first entry its budget holds. Above the last, which the table does not cover, the smallest budget holds
    and the result is marked as degraded.

    Args:
        speeds_mps: speeds, strictly ascending, at least 0.
        budgets_ms: their budgets, > 0, never rising with speed.
        min_budget_ms: smallest budget, > 0; in force also when the speed is unknown.
        max_budget_ms: largest budget.

    Raises:
        ValueError: the lists are empty, differ in length or are out of order, or the limits contradict each other.
    """

    name = 'table'

    def __init__(
        self,
        speeds_mps: Sequence[float],
        budgets_ms: Sequence[float],
        min_budget_ms: float,
        max_budget_ms: float,
    ) -> None:
        if not min_budget_ms <= max_budget_ms:
            raise ValueError(
                f'max_budget_ms is {max_budget_ms}, expected at least min_budget_ms = {min_budget_ms} ms'
            )
        if not speeds_mps or len(speeds_mps) != len(budgets_ms):
            raise ValueError(
                f'{len(speeds_mps)} speeds with {len(budgets_ms)} budgets, expected one budget for each '
                f'speed and at least one speed'
            )
        if list(speeds_mps) != sorted(set(speeds_mps)):
            raise ValueError(f'speeds_mps is {speeds_mps}, expected speeds in ascending order')
        if list(budgets_ms) != sorted(budgets_ms, reverse=True):
            raise ValueError(
                f'budgets_ms is {budgets_ms}, expected times that never rise with the speed'
            )
        self.min_budget_ms = min_budget_ms
        self.max_budget_ms = max_budget_ms
        self._speeds_mps = speeds_mps
        self._budgets_ms = budgets_ms

    def budget_ms(self, speed_mps: float) -> Budget:
        """The budget at a speed in m/s. Never raises."""
        if not 0.0 <= speed_mps < math.inf:
            wrong = f'speed is {speed_mps} m/s, expected a finite number of at least 0 m/s'
            return Budget(self.min_budget_ms, wrong, math.nan)
        entry = bisect_left(self._speeds_mps, speed_mps)
        if entry == len(self._speeds_mps):
            wrong = (
                f"speed is {speed_mps:g} m/s, above the table's last entry of "
                f'{self._speeds_mps[-1]:g} m/s'
            )
            return Budget(self.min_budget_ms, wrong, self._budgets_ms[-1])
        left_ms = self._budgets_ms[entry]
        within_ms = min(max(left_ms, self.min_budget_ms), self.max_budget_ms)
        return Budget(within_ms, '', left_ms)
