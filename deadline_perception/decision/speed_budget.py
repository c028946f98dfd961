"""From the vehicle's speed to the time that perception may take."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

# Lee and Nirjon 2020 (SubFlow), table IV: the speeds of the robot and its execution time budgets, ascending in speed.
SUBFLOW_ROBOT_SPEEDS_MPS = (0.02, 0.04, 0.08, 0.12, 0.16, 0.20)
SUBFLOW_ROBOT_BUDGETS_MS = (220.0, 198.0, 154.0, 110.0, 66.0, 22.0)


@dataclass(frozen=True)
class Budget:
    """Longest allowed time from image stamp to published detections.

    Attributes:
        budget_ms: within the policy's limits.
        degraded: the speed is unknown or outside what the policy covers, and the smallest budget is in force.
        reason: why degraded, empty otherwise.
        unclamped_ms: what the policy gave before its limits; below the smallest budget, and even negative, when the
            vehicle is too fast to stop within its sight; NaN when the speed is unknown.

    Raises:
        ValueError: the budget is not a positive finite time, or `degraded` and `reason` disagree.
    """

    budget_ms: float
    degraded: bool
    reason: str
    unclamped_ms: float

    def __post_init__(self) -> None:
        if not 0.0 < self.budget_ms < math.inf:
            raise ValueError(f'budget is {self.budget_ms} ms, expected a finite time above 0')
        if self.degraded != bool(self.reason):
            raise ValueError(
                f'degraded is {self.degraded} with reason {self.reason!r}, expected one with the other'
            )


class FixedBudget:
    """The same budget at any speed, also while none is known.

    Args:
        budget_ms: longest allowed time.

    Raises:
        ValueError: it is not above 0.
    """

    name = 'fixed'

    def __init__(self, budget_ms: float) -> None:
        _check('budget_ms', budget_ms, 0.0 < budget_ms < math.inf, 'above 0 ms')
        self.min_budget_ms = self.max_budget_ms = budget_ms

    def budget_ms(self, speed_mps: float | None) -> Budget:
        """The budget, whatever the speed. Never raises."""
        return Budget(self.max_budget_ms, False, '', self.max_budget_ms)


class _BySpeed(ABC):
    """A budget that depends on the speed, within limits."""

    min_budget_ms: float
    max_budget_ms: float

    def budget_ms(self, speed_mps: float | None) -> Budget:
        """The budget at a speed in m/s; None means that it is not known. Never raises."""
        left_ms = math.nan
        if speed_mps is None:
            wrong = 'speed is unknown, expected a number of m/s'
        elif not 0.0 <= speed_mps < math.inf:
            wrong = f'speed is {speed_mps} m/s, expected a finite number of at least 0 m/s'
        else:
            left_ms, wrong = self._at(speed_mps)
        if wrong:
            return Budget(self.min_budget_ms, True, wrong, left_ms)
        within_ms = min(max(left_ms, self.min_budget_ms), self.max_budget_ms)
        return Budget(within_ms, False, '', left_ms)

    @abstractmethod
    def _at(self, speed_mps: float) -> tuple[float, str]:
        """The budget at a speed, finite and of at least 0 m/s, before its limits, and why it does not hold."""


class StoppingDistanceBudget(_BySpeed):
    """The time left for perception when the vehicle must be able to stop within what it sees.

    budget = (sight_distance - clearance - v^2 / (2 deceleration)) / v - actuation_latency, then clamped. At
    standstill it is the largest.

    Args:
        sight_distance_m: how far ahead an obstacle is seen.
        deceleration_mps2: braking deceleration.
        actuation_latency_s: from published detections to braking.
        clearance_m: distance to keep from the obstacle when stopped.
        min_budget_ms: smallest budget, in force also when the speed is unknown.
        max_budget_ms: largest budget.

    Raises:
        ValueError: a value lies outside its range.
    """

    name = 'stopping_distance'

    def __init__(
        self,
        sight_distance_m: float,
        deceleration_mps2: float,
        actuation_latency_s: float,
        clearance_m: float,
        min_budget_ms: float,
        max_budget_ms: float,
    ) -> None:
        _check('sight_distance_m', sight_distance_m, sight_distance_m > 0, 'above 0 m')
        _check('deceleration_mps2', deceleration_mps2, deceleration_mps2 > 0, 'above 0 m/s^2')
        _check(
            'actuation_latency_s', actuation_latency_s, actuation_latency_s >= 0, 'of at least 0 s'
        )
        _check(
            'clearance_m',
            clearance_m,
            0 <= clearance_m < sight_distance_m,
            f'in [0, {sight_distance_m}) m, less than the sight distance',
        )
        _check_limits(min_budget_ms, max_budget_ms)
        self._free_distance_m = sight_distance_m - clearance_m
        self._deceleration_mps2 = deceleration_mps2
        self._actuation_latency_s = actuation_latency_s
        self.min_budget_ms = min_budget_ms
        self.max_budget_ms = max_budget_ms

    def _at(self, speed_mps: float) -> tuple[float, str]:
        if speed_mps == 0:
            return math.inf, ''
        reaction_distance_m = self._free_distance_m - speed_mps * speed_mps / (
            2.0 * self._deceleration_mps2
        )
        return (reaction_distance_m / speed_mps - self._actuation_latency_s) * 1000.0, ''


class TableBudget(_BySpeed):
    """Budgets from a table of speeds: between two entries the smaller budget, that of the faster entry, holds.

    Below the first entry its budget holds. Above the last, which the table does not cover, the smallest budget holds
    and the result is marked as degraded.

    Args:
        speeds_mps: speeds, strictly ascending, at least 0.
        budgets_ms: their budgets, never rising with speed.
        min_budget_ms: smallest budget, in force also when the speed is unknown; default: the table's smallest.
        max_budget_ms: largest budget; default: the table's largest.

    Raises:
        ValueError: the lists are empty, differ in length, are out of order, or a value lies outside its range.
    """

    name = 'table'

    def __init__(
        self,
        speeds_mps: Sequence[float] = SUBFLOW_ROBOT_SPEEDS_MPS,
        budgets_ms: Sequence[float] = SUBFLOW_ROBOT_BUDGETS_MS,
        min_budget_ms: float | None = None,
        max_budget_ms: float | None = None,
    ) -> None:
        speeds_mps, budgets_ms = list(speeds_mps), list(budgets_ms)
        if not speeds_mps or len(speeds_mps) != len(budgets_ms):
            raise ValueError(
                f'{len(speeds_mps)} speeds with {len(budgets_ms)} budgets, expected one budget for each '
                f'speed and at least one speed'
            )
        if not all(0 <= speed < math.inf for speed in speeds_mps) or speeds_mps != sorted(
            set(speeds_mps)
        ):
            raise ValueError(
                f'speeds_mps is {speeds_mps}, expected speeds of at least 0 m/s in ascending order'
            )
        if not all(0 < budget < math.inf for budget in budgets_ms) or budgets_ms != sorted(
            budgets_ms, reverse=True
        ):
            raise ValueError(
                f'budgets_ms is {budgets_ms}, expected times above 0 ms that never rise with the speed'
            )
        self.min_budget_ms = budgets_ms[-1] if min_budget_ms is None else min_budget_ms
        self.max_budget_ms = budgets_ms[0] if max_budget_ms is None else max_budget_ms
        _check_limits(self.min_budget_ms, self.max_budget_ms)
        self._speeds_mps = speeds_mps
        self._budgets_ms = budgets_ms

    def _at(self, speed_mps: float) -> tuple[float, str]:
        entry = bisect_left(self._speeds_mps, speed_mps)
        if entry == len(self._speeds_mps):
            return self._budgets_ms[-1], (
                f"speed is {speed_mps:g} m/s, above the table's last entry of "
                f'{self._speeds_mps[-1]:g} m/s'
            )
        return self._budgets_ms[entry], ''


def _check(name: str, value: float, is_legal: bool, expected: str) -> None:
    if not is_legal or not math.isfinite(value):
        raise ValueError(f'{name} is {value}, expected a finite number {expected}')


def _check_limits(min_budget_ms: float, max_budget_ms: float) -> None:
    _check('min_budget_ms', min_budget_ms, min_budget_ms > 0, 'above 0 ms')
    _check(
        'max_budget_ms',
        max_budget_ms,
        max_budget_ms >= min_budget_ms,
        f'of at least min_budget_ms = {min_budget_ms} ms',
    )
