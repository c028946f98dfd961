"""The conditions against every release pattern of small sets, against witnesses, and against hand-computed cases."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from simulation import simulate

from deadline_perception.extras.several_networks.scheduling.demand_table import DemandTable
from deadline_perception.extras.several_networks.scheduling.feasibility import analyse, whole_ns


def can_miss(times, periods) -> bool:
    """Walks through all states that sporadic releases can bring about, one unit of time after the other."""
    count = len(times)
    start = (
        tuple(periods),
        (0,) * count,
        None,
    )  # time since the release, time to the deadline, who runs and how long
    seen, open_states = {start}, [start]
    while open_states:
        ages, due, running = open_states.pop()
        free = [at for at in range(count) if ages[at] >= periods[at]]
        for chosen in itertools.chain.from_iterable(
            itertools.combinations(free, size) for size in range(len(free) + 1)
        ):
            new_ages, new_due, new_running = list(ages), list(due), running
            for at in chosen:
                new_ages[at], new_due[at] = 0, periods[at]
            waiting = [
                at
                for at in range(count)
                if new_due[at] and (new_running is None or new_running[0] != at)
            ]
            if new_running is None and waiting:
                first = min(waiting, key=lambda at: (new_due[at], at))
                new_running = (first, times[first])
            if new_running is not None:
                at, left = new_running
                new_running = (at, left - 1)
                if left == 1:
                    new_running, new_due[at] = None, 0
            for at in range(count):
                new_ages[at] = min(new_ages[at] + 1, periods[at])
                if new_due[at]:
                    new_due[at] -= 1
                    if new_due[at] == 0:
                        return True
            state = (tuple(new_ages), tuple(new_due), new_running)
            if state not in seen:
                seen.add(state)
                open_states.append(state)
    return False


def smallest_sets():
    for periods in itertools.combinations_with_replacement(range(1, 7), 2):
        for times in itertools.product(*(range(1, period + 1) for period in periods)):
            yield times, periods


def sets_of_three():
    rng = np.random.default_rng(1)
    for _ in range(120):
        periods = sorted(rng.integers(2, 6, 3).tolist())
        yield [int(rng.integers(1, max(2, period // 2 + 1))) for period in periods], periods


@pytest.mark.parametrize('sets', [smallest_sets, sets_of_three])
def test_agrees_with_every_release_pattern(sets):
    verdicts = []
    for times, periods in sets():
        verdicts.append(analyse(times, periods).schedulable)
        assert verdicts[-1] == (not can_miss(times, periods)), (times, periods)
    assert 15 < sum(verdicts) < len(verdicts) - 15


def made_up(rng, largest=30):
    count = int(rng.integers(2, 6))
    periods = rng.integers(2, largest, count).tolist()
    return [max(1, int(period * rng.uniform(0.05, 1.6 / count))) for period in periods], periods


def naive(times, periods) -> bool:
    """Theorem 4.1 word by word, for every whole L."""
    order = sorted(range(len(times)), key=lambda at: periods[at])
    times, periods = [times[at] for at in order], [periods[at] for at in order]
    if sum(Fraction(time, period) for time, period in zip(times, periods)) > 1:
        return False
    return all(
        length >= times[at] + sum((length - 1) // periods[j] * times[j] for j in range(at))
        for at in range(1, len(times))
        for length in range(periods[0] + 1, periods[at])
    )


def test_few_points_say_what_every_length_says_and_witnesses_miss():
    rng, broken = np.random.default_rng(3), 0
    for number in range(3000):
        times, periods = made_up(rng)
        analysis = analyse(times, periods)
        assert analysis.schedulable == naive(times, periods), (times, periods)
        if number % 10:
            continue
        if analysis.utilisation > 1:
            jobs = simulate([np.arange(0, 4000, period) for period in periods], times, periods)
            assert jobs.missed.any()
            continue
        for condition in analysis.failing:
            # That task begins one unit before all that are due within the length are released again and again.
            broken += 1
            releases = [
                np.array([0])
                if at == condition.blocker
                else np.arange(1, 400, period)
                if period < condition.length
                else np.array([], int)
                for at, period in enumerate(periods)
            ]
            assert simulate(releases, times, periods).missed.any(), (times, periods, condition)
    assert broken > 50


def test_schedulable_sets_never_miss_in_simulation():
    rng, jobs_run = np.random.default_rng(4), 0
    while jobs_run < 100_000:
        times, periods = made_up(rng, 60)
        if not analyse(times, periods).schedulable:
            continue
        for offsets in ([0] * len(periods), [int(rng.integers(0, period)) for period in periods]):
            jobs = simulate(
                [np.arange(first, 20_000, period) for period, first in zip(periods, offsets)],
                times,
                periods,
            )
            assert not jobs.missed.any()
            jobs_run += len(jobs)


def test_hand_computed_slack():
    # A job of 4 that has just begun, then one of 2 every 5: 4 + 2 within 6, and 4 + 4 within 11.
    analysis = analyse((2, 4), (5, 20))
    tight = next(condition for condition in analysis.tightest if condition.blocker == 1)
    assert (tight.length, tight.demand, tight.slack, tight.holds) == (6, 6, 0, True)
    assert analysis.utilisation == Fraction(2 / 5 + 4 / 20) and analysis.schedulable
    worse = analyse((2, 5), (5, 20))
    assert [
        (condition.blocker, condition.length, condition.slack) for condition in worse.failing
    ] == [(1, 6, -1)]


def is_schedulable(times_ms, periods_ms) -> bool:
    return analyse(whole_ns(times_ms, 'execution time'), whole_ns(periods_ms, 'period')).schedulable


def test_equality_is_exact_in_milliseconds():
    assert is_schedulable([0.1, 0.2, 0.3], [0.6, 0.6, 0.6])  # 0.1 + 0.2 + 0.3 > 0.6 in floats
    assert not is_schedulable([0.1, 0.2, 0.300001], [0.6, 0.6, 0.6])
    assert is_schedulable([33.3, 66.7], [100.0, 100.0])
    assert is_schedulable([100.0 / 3] * 3, [100.0] * 3)  # rounded down to whole nanoseconds
    assert is_schedulable([2.0, 3.000001], [5.0, 40.0]) and not is_schedulable(
        [2.0, 3.000002], [5.0, 40.0]
    )


def test_one_task_may_take_all_its_period_and_no_more():
    assert is_schedulable([10.0], [10.0]) and not is_schedulable([10.000001], [10.0])


@pytest.mark.parametrize(
    ('times_ms', 'periods_ms', 'words'),
    [
        ([0.0], [1.0], 'execution time is 0.0 ms'),
        ([-1.0], [1.0], 'execution time is -1.0 ms'),
        ([float('nan')], [1.0], 'execution time is nan ms'),
        ([1.0], [float('inf')], 'period is inf ms'),
        ([1e-7], [5.0], 'execution time is 1e-07 ms'),
        ([1.0], [2e9], 'period is 2000000000.0 ms'),
        ([0.001, 1.0], [0.002, 1e7], 'test points, expected at most'),
    ],
)
def test_refuses_what_is_no_set_of_tasks(times_ms, periods_ms, words):
    with pytest.raises(ValueError, match=words):
        is_schedulable(times_ms, periods_ms)


def test_table_of_many_selections_says_the_same_as_the_analysis_of_each():
    rng = np.random.default_rng(5)
    verdicts = []
    for _ in range(300):
        times, periods = made_up(rng, 40)
        table = DemandTable([*periods, *rng.integers(2, 60, 3).tolist()])
        places = table.places(np.array(periods))
        demand = table.demand(np.array(times), places)
        analysis = analyse(times, periods)
        if analysis.utilisation <= 1:
            verdicts.append(bool(table.holds(np.array([times]), places[None], demand[None])[0]))
            assert verdicts[-1] == analysis.schedulable, (times, periods)
            assert verdicts[-1] == (not len(table.failing(np.array(times), places)))
    assert 20 < sum(verdicts) < len(verdicts) - 20
