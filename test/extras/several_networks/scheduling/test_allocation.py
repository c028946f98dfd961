"""Selections against brute force, against simulation, and what is said where none is possible."""

import itertools

import numpy as np
import pytest

from deadline_perception.extras.several_networks.scheduling.allocation import Method, allocate
from deadline_perception.extras.several_networks.scheduling.choices import Infeasible, Option
from deadline_perception.extras.several_networks.scheduling.feasibility import analyse, whole_ns


def made_up_tasks(rng, tasks, options, periods=(4, 6, 9, 14, 20, 40)):
    """Whole-number options, so that conditions are met exactly now and then."""

    def option(period):
        time = float(rng.integers(1, max(2, period // 2)))
        return Option(0, float(period), time, float(rng.integers(0, 100)) / 100.0)

    return [[option(period) for period in rng.choice(periods, options)] for _ in range(tasks)]


def schedulable(options) -> bool:
    return analyse(
        whole_ns([option.execution_time_ms for option in options], 'execution time'),
        whole_ns([option.period_ms for option in options], 'period'),
    ).schedulable


def brute_force(tasks):
    """Highest sum of qualities of any schedulable selection; None without one."""
    selections = filter(schedulable, itertools.product(*tasks))
    return max((sum(one.quality for one in options) for options in selections), default=None)


def test_exact_equals_brute_force_and_no_other_method_exceeds_it():
    rng, infeasible, unlike = np.random.default_rng(0), 0, 0
    for _ in range(30):
        tasks = made_up_tasks(rng, int(rng.integers(1, 4)), int(rng.integers(1, 7)))
        best = brute_force(tasks)
        for method in Method:
            if best is None:
                infeasible += 1
                with pytest.raises(Infeasible, match='no selection of options is schedulable'):
                    allocate(tasks, method)
                continue
            found = allocate(tasks, method)
            assert found.schedulable and schedulable(found.options)
            assert all(option in options for option, options in zip(found.options, tasks))
            if method is Method.EXACT:
                assert found.quality == pytest.approx(best, abs=1e-9) and found.gap == 0.0
            else:
                assert found.quality <= best + 1e-9
                unlike += found.quality < best - 1e-9
    assert infeasible > 4 and unlike > 1


def test_greedy_of_the_thesis_stops_where_the_next_step_does_not_fit():
    # The steeper step of the first task does not fit; the second task's would.
    tasks = [
        [Option(0, 10.0, 2.0, 0.1), Option(1, 10.0, 8.0, 0.9)],
        [Option(0, 10.0, 3.0, 0.1), Option(1, 10.0, 6.0, 0.2)],
    ]
    assert [option.level for option in allocate(tasks, Method.GREEDY).options] == [0, 0]
    assert [option.level for option in allocate(tasks, Method.GREEDY_NEXT).options] == [0, 1]
    assert allocate(tasks, Method.EXACT).quality == pytest.approx(0.3)


@pytest.mark.parametrize(
    'lights, people, words',
    [
        ((10.0, 6.0), (20.0, 10.0), r'1.100 of the processor \(lights 0.600, people 0.500\)'),
        # 10 ms and 6 ms within 10 ms
        ((10.0, 6.0), (20.0, 10.0), 'execution times of 62.5 % of these would fit'),
        ((10.0, 6.0), (20.0, 10.0), 'so would all tasks but lights or but people'),
        ((10.0, 2.0), (100.0, 12.0), 'a segment of people that has just begun makes.*within'),
    ],
)
def test_what_does_not_fit_is_named_with_what_would(lights, people, words):
    tasks = [[Option(0, *values, 1.0)] for values in (lights, people)]
    with pytest.raises(Infeasible, match=words):
        allocate(tasks, names=['lights', 'people'])


@pytest.mark.parametrize('method', Method)
def test_refuses_sets_that_are_none(method):
    with pytest.raises(ValueError, match='set of tasks is empty'):
        allocate([], method)
    with pytest.raises(ValueError, match='task people has no option'):
        allocate([[Option(0, 1.0, 0.5, 1.0)], []], method, names=['lights', 'people'])
    with pytest.raises(Infeasible, match='no option of task 0 fits its own deadline: its.*3.00 ms'):
        allocate([[Option(0, 1.0, 3.0, 1.0), Option(0, 2.0, 4.0, 1.0)]], method)
