"""Whether tasks meet all deadlines under EDF that preempts between segments: exact, and with the slack of each condition.

A job takes at most c, is due D <= p after its release, and is made of segments of at most b each, at whose ends, and
nowhere else, the released job of the earliest deadline takes the processor. With `h(L) = sum_j max(0, floor((L - D_j) /
p_j) + 1) c_j`, the work that is released and due within L (processor demand; Baruah, Rosier and Howell 1990), a set of
sporadic tasks is schedulable exactly when its utilisation is at most 1 and for every length L

    h(L) + max(b_i - 1 over the tasks with D_i > L) <= L,

the condition of limited-preemption EDF (Baruah 2005, "The limited-preemption uniprocessor scheduling of sporadic task
systems"; Bertogna and Baruah 2010) in whole units of time: blocking is the longest segment of a later deadline, not
the longest job. With b = c and D = p it is theorem 4.1 of the nested-network thesis (Jeffay, Stanat and Martel 1991).

Sufficient: let a deadline d be the first one that is missed, and t the last time before it at which no released job
that is due by d was unfinished. From t to d the processor does nothing but jobs that are released from t on and due by
d, at most h(d - t), after what is left of one segment of a job due later, which began at t - 1 or before and whose
task has D_i > d - t. Since d is missed, the two exceed d - t. Necessary: let that segment begin one unit before all
tasks that have a job due within L release one, and go on as early as they may. Earlier segments of a job may take no
time, so any segment may be the first.

h grows only at deadlines, so those lengths are all that is looked at. Beyond the longest deadline nothing blocks: with
D = p the utilisation alone decides there; else h is looked at down from where the utilisation bounds it, in the steps
of quick processor-demand analysis (Zhang and Burns 2009). For tasks that are strictly periodic from known first
releases the conditions are sufficient.

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
_MOST_STEPS = (
    100_000  # beyond the longest deadline; some tens are taken unless the utilisation is nearly 1
)
_ROUNDING = (
    1.0 + 1e-4
)  # of a quotient by 1 - utilisation, which is known to 1e-5 where it is not exact


@dataclass(frozen=True)
class Condition:
    """One condition that a set of tasks has to meet.

    Attributes:
        blocker: index of the task of which a segment has just started as the others are released; None beyond the longest
            deadline, where nothing blocks.
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
        tightest: of each task that can block, the condition with the least slack, and one that fails beyond the longest
            deadline where one does; empty when the utilisation is above 1, which already decides.
    """

    utilisation: Fraction
    tightest: tuple[Condition, ...]

    @property
    def schedulable(self) -> bool:
        """No deadline is ever missed, whatever the releases."""
        return self.utilisation <= 1 and all(condition.holds for condition in self.tightest)

    @property
    def failing(self) -> tuple[Condition, ...]:
        """The conditions that do not hold; the utilisation is reported apart."""
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


def analyse(
    times: Sequence[int],
    periods: Sequence[int],
    segments: Sequence[int] | None = None,
    deadlines: Sequence[int] | None = None,
) -> Analysis:
    """The conditions of a set of tasks.

    Args:
        times: longest time of a job of each task, at least one, whole numbers from 1 to `LONGEST_NS` as `whole_ns`
            gives them.
        periods: least time between two releases of each task, likewise.
        segments: longest time of each task without preemption, at most that of a job; by default jobs run whole.
        deadlines: from a release to its deadline, at most the period; by default the period.

    Raises:
        ValueError: a segment is longer than its job or a deadline than its period, or the test points are too many.
    """
    segments = times if segments is None else segments
    deadlines = periods if deadlines is None else deadlines
    for what, mine, of, most in (
        ('segment', segments, 'job', times),
        ('deadline', deadlines, 'period', periods),
    ):
        for value, limit in zip(mine, most, strict=True):
            if not 1 <= value <= limit:
                raise ValueError(f'{what} is {value}, expected 1 to its {of}, {limit}')
    utilisation = exact_utilisation(times, periods)
    if utilisation > 1:
        return Analysis(utilisation, ())
    points = deadline_points(periods, deadlines)
    tightest: dict[int, Condition] = {}
    for begin in range(0, len(points), _BLOCK):
        _look(
            points[begin : begin + _BLOCK],
            np.array([times, periods, segments, deadlines], dtype=np.int64),
            tightest,
        )
    conditions = [tightest[blocker] for blocker in sorted(tightest)]
    overload = overloaded_length(times, periods, deadlines)
    if overload is not None:
        demand = _demand(overload, times, periods, deadlines)
        conditions.append(Condition(None, overload, demand))
    return Analysis(utilisation, tuple(conditions))


def exact_utilisation(times: Sequence[int], periods: Sequence[int]) -> Fraction:
    """Sum of execution time over period. Far from 1 it is that of the floats, which settles the question as well."""
    near = math.fsum(time / period for time, period in zip(times, periods))
    if abs(near - 1.0) > _CLOSE:
        return Fraction(near)
    return sum((Fraction(time, period) for time, period in zip(times, periods)), Fraction(0))


def deadline_points(periods: Sequence[int], deadlines: Sequence[int]) -> np.ndarray:
    """Deadlines below the longest one when all tasks are released at once: int64, ascending. Demand grows there.

    Raises:
        ValueError: they are more than `MOST_POINTS`.
    """
    distinct, longest = sorted(set(zip(periods, deadlines))), max(deadlines)
    count = sum(1 + (longest - due) // period for period, due in distinct)
    if count > MOST_POINTS:
        raise ValueError(
            f'{count} test points, expected at most {MOST_POINTS}: periods range from {distinct[0][0]} to '
            f'{distinct[-1][0]} ns'
        )
    return np.unique(
        np.concatenate(
            [np.arange(due, longest, period, dtype=np.int64) for period, due in distinct]
        )
    )


def overloaded_length(
    times: Sequence[int], periods: Sequence[int], deadlines: Sequence[int]
) -> int | None:
    """A length of at least the longest deadline within which more is due than fits; None where there is none.

    Args:
        times, periods, deadlines: as of `analyse`, of a utilisation of at most 1.

    Raises:
        ValueError: it would take too long to know, as the utilisation is nearly 1.
    """
    tasks = list(zip(times, periods, deadlines))
    if all(due == period for _, period, due in tasks):
        return None
    left = 1 - exact_utilisation(times, periods)
    if left:
        # h(L) <= U L + sum of (p - D) c / p, which is at most L from here on.
        early = math.fsum(time * (period - due) / period for time, period, due in tasks)
        last = math.ceil(early / float(left) * _ROUNDING)
    else:  # h grows by p in every p, the least common multiple of all periods
        last = max(deadlines) + math.lcm(*periods)
    length = _deadline_before(last + 1, tasks)
    for _ in range(_MOST_STEPS):
        if length < max(deadlines):
            return None
        demand = _demand(length, times, periods, deadlines)
        if demand > length:
            return length
        length = demand if demand < length else _deadline_before(length, tasks)
    raise ValueError(
        f'utilisation is 1 less {float(left):.3g} with deadlines before the ends of periods, expected a lower one: '
        f'too many lengths would have to be looked at'
    )


def _deadline_before(length: int, tasks: Sequence[tuple[int, int, int]]) -> int:
    """The last deadline below a length when all tasks are released at once; 0 where there is none."""
    return max(
        due + (length - 1 - due) // period * period if length > due else 0
        for _, period, due in tasks
    )


def _demand(
    length: int, times: Sequence[int], periods: Sequence[int], deadlines: Sequence[int]
) -> int:
    """Work that is released and due within a length."""
    return sum(
        max(0, (length - due) // period + 1) * time
        for time, period, due in zip(times, periods, deadlines)
    )


def _look(points: np.ndarray, tasks: np.ndarray, tightest: dict[int, Condition]) -> None:
    """Keeps, for each blocking task, the tightest condition of some points, ascending.

    Args:
        points: int64 `[k]`.
        tasks: int64 `[4, n]`: times, periods, segments, deadlines.
    """
    lengths = points + 1
    times, periods, segments, deadlines = tasks[:, :, None]
    demand = (np.maximum((points - deadlines) // periods + 1, 0) * times).sum(axis=0)
    for blocker, (segment, due) in enumerate(
        zip(segments[:, 0].tolist(), deadlines[:, 0].tolist())
    ):
        # What blocks has started one unit before the others are released, so that with it the interval is one longer.
        slack = (lengths - demand - segment)[: np.searchsorted(points, due)]
        if not len(slack):
            continue
        worst = int(np.argmin(slack))
        if blocker not in tightest or slack[worst] < tightest[blocker].slack:
            tightest[blocker] = Condition(
                blocker, int(lengths[worst]), int(demand[worst] + segment)
            )
