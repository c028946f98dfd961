import math
from types import SimpleNamespace

import pytest
from hand_clock import Clock

from deadline_perception.runtime.conditions import ConditionTracker
from deadline_perception.runtime.job import Outcome

DEFAULTS = {'default_budget_ms': 80.0, 'budget_timeout_ms': 500.0}


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def tracker(clock):
    return ConditionTracker(**DEFAULTS, clock_ms=clock)


def test_before_anything_is_heard_the_defaults_are_in_force_and_said(tracker):
    conditions = tracker.now()
    found = conditions.budget_ms, conditions.slowdown, conditions.contention_source
    assert found == (80.0, 1.0, '')
    assert 'no budget heard yet' in conditions.reasons[0]
    assert 'no contention state' in conditions.reasons[1]


def test_a_stale_budget_falls_back_to_its_minimum_and_a_stale_slowdown_stays(tracker, clock):
    tracker.on_budget(120.0, 30.0, '')
    tracker.on_contention(1.5, 'probe')
    clock.ms += 501.0
    assert tracker.now().budget_ms == 30.0
    assert tracker.now().slowdown == 1.5
    clock.ms += 2500.0
    assert (tracker.now().slowdown, tracker.now().contention_source) == (1.5, 'probe')
    stale_budget, stale_slowdown = tracker.now().reasons
    assert 'budget is 3.0 s old' in stale_budget
    assert 'state is 3.0 s old, its slowdown of 1.50 stays in force' in stale_slowdown
    tracker.on_contention(1.0, 'probe')
    assert tracker.now().slowdown == 1.0
    assert len(tracker.now().reasons) == 1
    for min_budget_ms in (math.nan, 0.0, 200.0):  # above the budget, it is not believed
        tracker.on_budget(120.0, min_budget_ms, '')
        clock.ms += 501.0
        assert tracker.now().budget_ms == 120.0


def frame(ratio, outcome=Outcome.DETECTED, bound_ms=math.nan):
    times = {'forecast_ms': 40.0, 'network_ms': 40.0 * ratio, 'bound_ms': bound_ms}
    return SimpleNamespace(outcome=outcome, result='found', **times)


def feed(tracker, count, *of, **more):
    for _ in range(count):
        tracker.on_frame(frame(*of, **more))


def test_a_monitor_comes_first_while_it_speaks_then_the_frames_own_times(tracker, clock):
    tracker.on_contention(1.2, 'probe')
    feed(tracker, 5, 3.0)
    tracker.on_contention(1.2, 'probe')
    assert (tracker.now().slowdown, tracker.now().contention_source) == (1.2, 'probe')
    clock.ms += 3001.0
    now = tracker.now()
    assert now.slowdown == pytest.approx(3.0, rel=0.1)
    assert now.contention_source == 'own frames'
    said = f'contention state is 3.0 s old, slowdown of {now.slowdown:.2f} by its own frames'
    assert said in now.reasons
    tracker.on_contention(1.1, 'probe')
    assert tracker.now().slowdown == 1.1


def test_a_frame_that_was_answered_before_its_end_counts_only_where_it_says_more(tracker):
    tracker.on_frame(frame(0.5, Outcome.COASTED))
    assert tracker.now().contention_source == ''
    feed(tracker, 5, 2.0, Outcome.COASTED)
    assert tracker.now().slowdown == pytest.approx(2.0, rel=0.1)


def test_the_frame_after_one_beyond_its_bound_is_planned_with_what_that_one_took(tracker):
    feed(tracker, 30, 1.0, bound_ms=50.0)
    tracker.on_contention(1.0, 'probe+frames')
    tracker.on_frame(frame(2.5, bound_ms=50.0))
    assert tracker.now().slowdown == pytest.approx(2.5)
    tracker.on_frame(frame(1.0, bound_ms=120.0))
    assert tracker.now().slowdown == pytest.approx(1.0, abs=0.05)
