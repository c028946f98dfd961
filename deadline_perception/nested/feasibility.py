"""Whether tasks meet all deadlines under non-preemptive EDF on one processor: exact, and with the slack of each
condition.

A set of sporadic tasks with deadlines at the end of their periods is schedulable exactly when its utilisation is at
most 1 and, for every task i and every length L between the shortest period and the period of i, a job of i that has
just begun and all that the others release right after it fit: `L >= c_i + sum_j floor((L - 1) / p_j) c_j` (Jeffay,
Stanat and Martel 1991, theorem 4.1 of the nested-network thesis). The right side grows only at `L = k p_j + 1`, so
those lengths are all that is looked at. With deadlines before the end of the periods the same holds of demand bound
functions (George, Rivierre and Spuri 1996): `L >= c_i + sum_j (floor((L - 1 - d_j) / p_j) + 1) c_j` for the tasks with
`d_i > L - 1`, and without any blocking task for longer L. For tasks that are strictly periodic from known first
releases the conditions are sufficient.

Time is discrete. Floats are milliseconds and are rounded to whole nanoseconds, integers count any unit.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral

import numpy as np

from deadline_perception.latency.stopwatch import NS_PER_MS

LONGEST_NS = 10**15  # eleven days; sums of products stay far from the limits of 64 bits
MOST_POINTS = 5_000_000  # test points of one set: beyond it, periods and deadlines are no description of a robot
_CLOSE = 1e-9  # a sum of ratios this near to 1 is added up exactly
_BLOCK = 4096  # points looked at together


@dataclass(frozen=True)
class Condition:
    """One condition that a set of tasks has to meet.

    Attributes:
        blocker: index of the task whose job has just begun as the others are released; None where none blocks.
        length: of the interval, in the unit of the times.
        demand: work that must be done in it.
    """

    blocker: int | None
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
        tightest: of each task that can block, and of the case that none does, the condition with the least slack, where
            there is any; empty when the utilisation is above 1, which already decides.
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
            raise ValueError(f'{what} is {time_ms} ms, expected a time in [0.000001, {LONGEST_NS / NS_PER_MS:g}] ms')
        found.append(ns)
    return tuple(found)


def is_schedulable(execution_times: Sequence[float], periods: Sequence[float],
                   deadlines: Sequence[float] | None = None) -> bool:
    """Whether a set of tasks never misses a deadline under non-preemptive EDF on one processor.

    Where all times are ints, they count units of a discrete time, in which jobs are released and begin, as in the
    theorem. Where one is a float they are ms and jobs may be released at any ns, which asks for a little more: a job
    may have begun just before the others are released, not a whole unit before.

    Args:
        execution_times: longest time of a job of each task.
        periods: least time between two releases of each task.
        deadlines: from a release to its deadline, at most the period; by default the periods.

    Raises:
        ValueError: there is no task, lengths differ, a time is not above 0, a deadline is longer than its period, or
            the test points are too many.
    """
    given = [execution_times, periods, periods if deadlines is None else deadlines]
    if all(isinstance(value, Integral) for values in given for value in values):
        whole = [tuple(map(int, values)) for values in given]
    else:
        whole = [whole_ns(values, what) for values, what in zip(given, ('execution time', 'period', 'deadline'))]
    return analyse(*whole).schedulable


def analyse(times: Sequence[int], periods: Sequence[int], deadlines: Sequence[int] | None = None) -> Analysis:
    """The conditions of a set of tasks, in whole numbers of any unit of time.

    Args:
        times: longest time of a job of each task, >= 1.
        periods: least time between two releases of each task, >= 1.
        deadlines: from a release to its deadline, 1 to the period; by default the periods.

    Raises:
        ValueError: see `is_schedulable`.
    """
    deadlines = periods if deadlines is None else deadlines
    _check(times, periods, deadlines)
    utilisation = exact_utilisation(times, periods)
    if utilisation > 1:
        return Analysis(utilisation, ())
    points = _test_points(times, periods, deadlines, utilisation)
    columns = [np.array(values, dtype=np.int64)[:, None] for values in (times, periods, deadlines)]
    tightest: dict[int | None, Condition] = {}
    for begin in range(0, len(points), _BLOCK):
        _look(points[begin:begin + _BLOCK], columns, tightest)
    order = sorted(tightest, key=lambda blocker: (blocker is None, blocker))
    return Analysis(utilisation, tuple(tightest[blocker] for blocker in order))


def exact_utilisation(times: Sequence[int], periods: Sequence[int]) -> Fraction:
    """Sum of execution time over period. Far from 1 it is that of the floats, which settles the question as well."""
    near = math.fsum(time / period for time, period in zip(times, periods))
    if abs(near - 1.0) > _CLOSE:
        return Fraction(near)
    return sum((Fraction(time, period) for time, period in zip(times, periods)), Fraction(0))


def _check(times: Sequence[int], periods: Sequence[int], deadlines: Sequence[int]) -> None:
    if not len(times):
        raise ValueError('set of tasks is empty, expected at least one task')
    if not len(times) == len(periods) == len(deadlines):
        raise ValueError(f'{len(times)} execution times, {len(periods)} periods and {len(deadlines)} deadlines, '
                         f'expected one of each for every task')
    for time, period, deadline in zip(times, periods, deadlines):
        if not (1 <= time <= LONGEST_NS and 1 <= deadline <= period <= LONGEST_NS):
            raise ValueError(f'execution time is {time}, deadline {deadline} and period {period}, expected whole '
                             f'numbers of at least 1 and at most {LONGEST_NS}, and no deadline after its period')


def _test_points(times: Sequence[int], periods: Sequence[int], deadlines: Sequence[int],
                 utilisation: Fraction) -> np.ndarray:
    """Lengths less 1 at which demand grows, below the one from which on no condition can fail: int64, ascending."""
    # Nobody blocks in an interval that reaches the longest deadline, and there deadlines at the end of periods need no
    # more than the utilisation.
    until = max(deadlines)
    if any(deadline < period for deadline, period in zip(deadlines, periods)):
        until = max(until, _busy_period(times, periods, deadlines, utilisation))
    count = sum(max(0, (until - deadline) // period + 1) for period, deadline in zip(periods, deadlines))
    if count > MOST_POINTS:
        raise ValueError(f'{count} test points, expected at most {MOST_POINTS}: the longest deadline is '
                         f'{max(deadlines)}, the shortest period {min(periods)}, the utilisation '
                         f'{float(utilisation):.6f}')
    # A deadline of `until` itself is met: that far, only the utilisation counts.
    return np.unique(np.concatenate([np.arange(deadline, until, period, dtype=np.int64)
                                     for period, deadline in zip(periods, deadlines)]))


def _busy_period(times: Sequence[int], periods: Sequence[int], deadlines: Sequence[int], utilisation: Fraction) -> int:
    """A length from which on deadlines before the end of periods are met if they are met up to there."""
    if utilisation < 1:  # Baruah, Rosier and Howell 1990: what is due by t is at most U t + sum of U_j (p_j - d_j)
        ahead = sum(Fraction(time, period) * (period - deadline)
                    for time, period, deadline in zip(times, periods, deadlines))
        return math.ceil(ahead / (1 - utilisation)) + 1
    return math.lcm(*periods) + max(deadlines)


def _look(points: np.ndarray, columns: Sequence[np.ndarray], tightest: dict[int | None, Condition]) -> None:
    """Keeps, for each blocking task and for none, the tightest condition of some points; of times, periods and
    deadlines, each `[tasks, 1]`."""
    times, periods, deadlines = columns
    demand = (np.maximum((points - deadlines) // periods + 1, 0) * times).sum(axis=0)
    lengths = points + 1
    for blocker in (None, *range(len(times))):
        # What blocks has begun one unit before the others are released, so that with it the interval is one longer.
        if blocker is None:
            among = np.flatnonzero(points >= deadlines.max())
            total, whole = demand[among], points[among]
        else:
            among = np.flatnonzero(points < deadlines[blocker])
            total, whole = demand[among] + times[blocker], lengths[among]
        if not len(among):
            continue
        worst = int(np.argmin(whole - total))
        found = Condition(blocker, int(whole[worst]), int(total[worst]))
        if blocker not in tightest or found.slack < tightest[blocker].slack:
            tightest[blocker] = found
