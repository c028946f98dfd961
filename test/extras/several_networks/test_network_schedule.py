"""Schedules of tasks whose times are given: what is selected, how long it holds, and what is said where nothing
fits."""

import math

import pytest
from fresh_bounds import fresh_bound
from invented_networks import CLASSIFIER, make_classifier

from deadline_perception.extras.several_networks.nested_task import OVERHEAD_FLOOR_MS, NestedTask
from deadline_perception.extras.several_networks.network_schedule import (
    make_schedule,
    tolerated_segments_ms,
)
from deadline_perception.extras.several_networks.scheduling.allocation import Allocation
from deadline_perception.extras.several_networks.scheduling.choices import Option
from deadline_perception.extras.several_networks.scheduling.quality import DetectedInTime
from deadline_perception.extras.several_networks.task_file import TaskRequest
from deadline_perception.timing.path_bound import SegmentForecast

LEVELS_MS = (10.0, 20.0, 30.0, 40.0)


def task(name, weight=1.0, periods_ms=(100.0, 200.0)):
    """Of four levels that take `LEVELS_MS` beside the least overhead, with no margin on top."""
    paths = tuple(sorted(CLASSIFIER))
    keys = [CLASSIFIER.key(1, path) for path in paths]
    costs = dict(zip(keys, (taken_ms - OVERHEAD_FLOOR_MS for taken_ms in LEVELS_MS)))
    costs[CLASSIFIER.key(0, paths[0])] = 0.0
    return NestedTask(
        TaskRequest(name, 'made up', periods_ms, weight=weight),
        make_classifier(),
        paths,
        SegmentForecast(CLASSIFIER, costs),
        DetectedInTime((0.2, 0.4, 0.6, 0.8)),
        fresh_bound(width=math.log(2.0)),
    )


def test_what_is_selected_is_schedulable_and_the_heavier_task_gets_no_less():
    weights = {'front': 3.0, 'left': 1.0, 'right': 1.0}
    tasks = [task(name, weight, (100.0,)) for name, weight in weights.items()]
    schedule = make_schedule(tasks, 10.0)
    levels = [plan.level for plan in schedule.plans.values()]
    assert list(schedule.plans) == list(weights) and schedule.allocation.schedulable
    assert levels[0] >= max(levels[1:])
    # All at 100 ms: their times must add up to at most 100 ms, which leaves no room for the best of all three.
    assert sum(LEVELS_MS[level] for level in levels) <= 100.0 and levels != [3, 3, 3]
    with pytest.raises(ValueError):
        make_schedule([], 10.0)
    with pytest.raises(ValueError, match='-1'):
        make_schedule([task('front')], -1.0)


def test_where_nothing_fits_each_task_gets_its_cheapest_level_as_seldom_as_it_may_and_it_is_said():
    tasks = [task('front'), task('rear')]
    for each in tasks:
        each.slowdown = 12.0
    schedule = make_schedule(tasks, 10.0)
    assert {(plan.level, plan.period_ms) for plan in schedule.plans.values()} == {(0, 200.0)}
    assert not schedule.allocation.schedulable
    assert 'front' in schedule.refusal
    assert 'rear' in schedule.refusal


@pytest.mark.parametrize(
    'then, now, holds',
    [
        # Bounds grow by little or shrink by somewhat more, by the slowdown.
        ((1.0, 10.0), (1.02, 10.0), True),
        ((1.0, 10.0), (1.05, 10.0), False),
        ((2.0, 10.0), (1.85, 10.0), True),
        ((2.0, 10.0), (1.7, 10.0), False),
        # The speed changes by a metre per second.
        ((1.0, 0.0), (1.0, 1.0), True),
        ((1.0, 0.0), (1.0, 1.1), False),
        ((1.0, 40.0), (1.0, 36.5), True),
        ((1.0, 40.0), (1.0, 44.0), True),
        ((1.0, 40.0), (1.0, 44.5), False),
    ],
)
def test_it_holds_while_bounds_and_speed_change_by_little(then, now, holds):
    tasks = [task('front', periods_ms=(500.0,)), task('rear', periods_ms=(500.0,))]
    tasks[1].slowdown, speed_mps = then
    schedule = make_schedule(tasks, speed_mps)
    assert not schedule.holds(tasks[:1], speed_mps) and not schedule.holds(tasks[::-1], speed_mps)
    tasks[1].slowdown, speed_mps = now
    assert schedule.holds(tasks, speed_mps) is holds


def test_levels_are_raised_only_while_their_segments_block_nobody_for_too_long():
    tasks = [task('quick', periods_ms=(100.0,)), task('slow', 0.01, (1000.0,))]
    schedule = make_schedule(tasks, 10.0)
    quick, slow = schedule.plans.values()
    assert quick.highest == 3
    assert schedule.blocking_ms == max(option.segment_ms for option in schedule.allocation.options)
    _, tolerated_ms = tolerated_segments_ms(schedule.allocation)
    assert tolerated_ms == pytest.approx(100.0 - quick.time_ms, abs=1e-5)
    longest = Allocation((Option(0, 10.0, 7.0, 1.0), Option(0, 40.0, 10.0, 1.0, 2.0)), True)
    assert tolerated_segments_ms(longest) == pytest.approx([math.inf, 3.0], abs=1e-5)
