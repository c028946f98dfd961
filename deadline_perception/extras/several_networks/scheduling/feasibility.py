"""Whether tasks meet all deadlines under non-preemptive EDF on one processor: exact, and with the slack of each
condition.

A set of sporadic tasks with deadlines at the end of their periods is schedulable exactly when its utilisation is at
most 1 and, for every task i and every length L between the shortest period and the period of i, a job of i that has
just begun and all that the others release right after it fit: `L >= c_i + sum_j floor((L - 1) / p_j) c_j` (Jeffay,
Stanat and Martel 1991, theorem 4.1 of the nested-network thesis). The right side grows only at `L = k p_j + 1`, so
those lengths are all that is looked at. For tasks that are strictly periodic from known first releases the conditions
are sufficient.

Time is discrete, in whole numbers of any unit; `whole_ns` rounds milliseconds to whole nanoseconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from deadline_perception.core.stopwatch import NS_PER_MS

LONGEST_NS = 10**15  # eleven days; sums of products stay far from the limits of 64 bits
MOST_POINTS = 5_000_000  # test points of one set: beyond it, periods and deadlines are no description of a robot
_CLOSE = 1e-9  # a sum of ratios this near to 1 is added up exactly
_BLOCK = 4096  # points looked at together


@dataclass(frozen=True)
class Condition:
    """One condition that a set of tasks has to meet.

    Attributes:
        blocker: index of the task whose job has just begun as the others are released.
        length: of the interval, in the unit of the times.
        demand: work that must be done in it.
    """

    blocker: int
    length: int
    demand: int

    @property
    def slack(self) -> int:
        """Time that is left in the interval; negative when a deadline can be missed."""
        return self.length - self.demand

    @property
    def holds(self) -> bool:
        """The demand fits."""
        return self.demand <= self.length


@dataclass(frozen=True)
class Analysis:
    """All that decides whether a set of tasks is schedulable.

    Attributes:
        utilisation: sum of execution time over period, exact.
        tightest: of each task that can block, the condition with the least slack; empty when the utilisation is above
            1, which already decides.
    """

    utilisation: Fraction
    tightest: tuple[Condition, ...]

    @property
    def schedulable(self) -> bool:
        """No deadline is ever missed, whatever the releases."""
        return self.utilisation <= 1 and all(condition.holds for condition in self.tightest)

    @property
    def failing(self) -> tuple[Condition, ...]:
        """The conditions that do not hold; the utilisation is told apart."""
        return tuple(condition for condition in self.tightest if not condition.holds)


def whole_ns(times_ms: Sequence[float], what: str) -> tuple[int, ...]:
    """Times in ms as whole ns, rounded to the nearest.

    Args:
        times_ms: finite, at least half a nanosecond each.
        what: what they are, for the error.

    Raises:
        ValueError: one is not a finite time above 0, or longer than eleven days.
    """
    found = []
    for time_ms in times_ms:
        ns = round(time_ms * NS_PER_MS) if math.isfinite(time_ms) else 0
        if not 1 <= ns <= LONGEST_NS:
            raise ValueError(
                f'{what} is {time_ms} ms, expected a time in [0.000001, {LONGEST_NS / NS_PER_MS:g}] ms'
            )
        found.append(ns)
    return tuple(found)


def analyse(times: Sequence[int], periods: Sequence[int]) -> Analysis:
    """The conditions of a set of tasks whose deadlines are the ends of their periods.

    Args:
        times: longest time of a job of each task, at least one, whole numbers from 1 to `LONGEST_NS` as `whole_ns`
            gives them.
        periods: least time between two releases of each task, likewise.

    Raises:
        ValueError: the test points are too many.
    """
    utilisation = exact_utilisation(times, periods)
    if utilisation > 1:
        return Analysis(utilisation, ())
    points = release_points(periods)
    tightest: dict[int, Condition] = {}
    for begin in range(0, len(points), _BLOCK):
        _look(points[begin : begin + _BLOCK], times, periods, tightest)
    return Analysis(utilisation, tuple(tightest[blocker] for blocker in sorted(tightest)))


def exact_utilisation(times: Sequence[int], periods: Sequence[int]) -> Fraction:
    """Sum of execution time over period. Far from 1 it is that of the floats, which settles the question as well."""
    near = math.fsum(time / period for time, period in zip(times, periods))
    if abs(near - 1.0) > _CLOSE:
        return Fraction(near)
    return sum((Fraction(time, period) for time, period in zip(times, periods)), Fraction(0))


def release_points(periods: Sequence[int]) -> np.ndarray:
    """Multiples of some periods below the longest: int64, ascending. Demand grows at these lengths plus 1.

    Raises:
        ValueError: they are more than `MOST_POINTS`.
    """
    distinct, longest = sorted(set(periods)), max(periods)
    count = sum(longest // period for period in distinct)
    if count > MOST_POINTS:
        raise ValueError(
            f'{count} test points, expected at most {MOST_POINTS}: periods range from {distinct[0]} to '
            f'{longest} ns'
        )
    return np.unique(
        np.concatenate([np.arange(period, longest, period, dtype=np.int64) for period in distinct])
    )


def _look(
    points: np.ndarray, times: Sequence[int], periods: Sequence[int], tightest: dict[int, Condition]
) -> None:
    """Keeps, for each blocking task, the tightest condition of some points, ascending."""
    lengths, columns = points + 1, np.array([periods, times], dtype=np.int64)[:, :, None]
    demand = (points // columns[0] * columns[1]).sum(axis=0)
    for blocker, (time, period) in enumerate(zip(times, periods)):
        # What blocks has begun one unit before the others are released, so that with it the interval is one longer.
        slack = (lengths - demand - time)[: np.searchsorted(points, period)]
        if not len(slack):
            continue
        worst = int(np.argmin(slack))
        if blocker not in tightest or slack[worst] < tightest[blocker].slack:
            tightest[blocker] = Condition(blocker, int(lengths[worst]), int(demand[worst] + time))
