"""The conditions against every release pattern of small sets, against witnesses, and against hand-computed cases."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from deadline_perception.extras.several_networks.scheduling.feasibility import analyse, whole_ns


def can_miss(times, periods, segments, deadlines) -> bool:
    """Walks through all states that sporadic releases can bring about, one unit of time after the other; a segment may
    take any time up to its longest, as long as its job has that much left."""
    count = len(times)
    # Time since the release, time to the deadline and work left of each task; who runs, and how long its segment is.
    start = (tuple(periods), (0,) * count, (0,) * count, None)
    seen, open_states = {start}, [start]
    while open_states:
        ages, due, left, running = open_states.pop()
        free = [at for at in range(count) if ages[at] >= periods[at]]
        for chosen in itertools.chain.from_iterable(
            itertools.combinations(free, size) for size in range(len(free) + 1)
        ):
            released = (
                tuple(0 if at in chosen else ages[at] for at in range(count)),
                tuple(deadlines[at] if at in chosen else due[at] for at in range(count)),
                tuple(times[at] if at in chosen else left[at] for at in range(count)),
            )
            for turn in turns(released, running, segments):
                state = step(released, turn, periods)
                if state is None:
                    return True
                if state not in seen:
                    seen.add(state)
                    open_states.append(state)
    return False


def turns(released, running, segments):
    """Who may run now, and for how long at least: whoever does, else the earliest deadline with every segment."""
    _, due, left = released
    waiting = [at for at in range(len(left)) if left[at]]
    if running is not None or not waiting:
        return [running]
    first = min(waiting, key=lambda at: (due[at], at))
    if segments[first] >= left[first]:  # whole, whatever it was cut into before
        return [(first, length) for length in {left[first], 1}]
    return [(first, length) for length in range(1, segments[first] + 1)]


def step(released, turn, periods):
    """The state one unit of time later; None where a deadline has passed."""
    ages, due, left = map(list, released)
    if turn is not None:
        at, length = turn
        left[at] -= 1
        turn = (at, length - 1) if length > 1 else None
    for at in range(len(ages)):
        ages[at] = min(ages[at] + 1, periods[at])
        due[at] = due[at] - 1 if left[at] else 0
        if left[at] and not due[at]:
            return None
    return tuple(ages), tuple(due), tuple(left), turn


def random_periods(seed, sets, most):
    """Three periods and execution times of at most half of them, with what drew them."""
    rng = np.random.default_rng(seed)
    for _ in range(sets):
        periods = rng.integers(2, most, 3).tolist()
        times = [int(rng.integers(1, max(2, period // 2 + 1))) for period in periods]
        yield rng, times, periods


def preempted_pairs():
    """Pairs of every period up to 6, with every execution time, segment and deadline of the longer one."""
    for periods in itertools.product((2, 5), (3, 6)):
        for time in range(1, periods[0]):
            for other in range(1, periods[1] + 1):
                for segment, due in itertools.product(
                    range(1, other + 1), range(other, periods[1] + 1)
                ):
                    yield (time, other), periods, (time, segment), (periods[0], due)


def preempted_sets_of_three():
    for rng, times, periods in random_periods(2, 80, 7):
        segments = [int(rng.integers(1, time + 1)) for time in times]
        deadlines = [int(rng.integers(time, period + 1)) for time, period in zip(times, periods)]
        yield times, periods, segments, deadlines


@pytest.mark.parametrize('sets', [preempted_pairs, preempted_sets_of_three])
def test_agrees_with_every_release_pattern(sets):
    verdicts = []
    for given in sets():
        verdicts.append(analyse(*given).schedulable)
        assert verdicts[-1] == (not can_miss(*given)), given
    assert 8 < sum(verdicts) < len(verdicts) - 8


def test_hand_computed_slack():
    # A job of 4 that has just begun, then one of 2 every 5: 4 + 2 within 6, and 4 + 4 within 11.
    analysis = analyse((2, 4), (5, 20))
    tight = next(condition for condition in analysis.tightest if condition.blocker == 1)
    assert (tight.length, tight.demand, tight.slack, tight.holds) == (6, 6, 0, True)
    assert analysis.utilisation == Fraction(2 / 5 + 4 / 20) and analysis.schedulable
    worse = analyse((2, 5), (5, 20))
    (failing,) = worse.failing
    assert (failing.blocker, failing.length, failing.slack) == (1, 6, -1)


def is_schedulable(times_ms, periods_ms) -> bool:
    return analyse(whole_ns(times_ms, 'execution time'), whole_ns(periods_ms, 'period')).schedulable


@pytest.mark.parametrize(
    'times_ms, periods_ms, fits',
    [
        ([0.1, 0.2, 0.3], [0.6, 0.6, 0.6], True),  # 0.1 + 0.2 + 0.3 > 0.6 in floats
        ([0.1, 0.2, 0.300001], [0.6, 0.6, 0.6], False),
        ([33.3, 66.7], [100.0, 100.0], True),
        ([100.0 / 3] * 3, [100.0] * 3, True),  # rounded down to whole nanoseconds
        ([2.0, 3.000001], [5.0, 40.0], True),
        ([2.0, 3.000002], [5.0, 40.0], False),
        ([10.0], [10.0], True),
        ([10.000001], [10.0], False),
    ],
)
def test_equality_is_exact_in_milliseconds(times_ms, periods_ms, fits):
    assert is_schedulable(times_ms, periods_ms) is fits


def test_sets_of_too_many_test_points_are_refused():
    with pytest.raises(ValueError, match='test points, expected at most'):
        is_schedulable([0.001, 1.0], [0.002, 1e7])
