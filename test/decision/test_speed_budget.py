from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadline_perception.decision.speed_budget import (
    SUBFLOW_ROBOT_BUDGETS_MS,
    SUBFLOW_ROBOT_SPEEDS_MPS,
    Budget,
    StoppingDistanceBudget,
    TableBudget,
)

CAR = {
    'sight_distance_m': 40.0,
    'deceleration_mps2': 6.0,
    'actuation_latency_s': 0.2,
    'clearance_m': 2.0,
    'min_budget_ms': 30.0,
    'max_budget_ms': 500.0,
}
SPEEDS = st.one_of(st.floats(0.0, 60.0), st.sampled_from([0.0, 5e-324, 1e-9, 1e200]))
WRONG_SPEEDS = [None, math.nan, math.inf, -math.inf, -0.1]
POLICIES = [
    StoppingDistanceBudget(**CAR),
    TableBudget(),
    TableBudget([1.0, 5.0], [200.0, 90.0], 80.0, 150.0),
]


def test_stopping_distance_computed_by_hand():
    # 20 m/s: brakes in 400 / 12 = 33.33 m, of 38 m leaves 4.67 m = 233.3 ms, less 200 ms of actuation.
    budget = StoppingDistanceBudget(**CAR).budget_ms(20.0)
    assert budget.budget_ms == pytest.approx(33.333333, rel=1e-6)
    assert (budget.degraded, budget.reason) == (False, '')


def test_budget_is_clamped_and_tells_what_it_was_before():
    policy = StoppingDistanceBudget(**CAR)
    slow, fast = policy.budget_ms(10.0), policy.budget_ms(21.0)
    assert slow.budget_ms == 500.0
    assert slow.unclamped_ms == pytest.approx(((38.0 - 100.0 / 12.0) / 10.0 - 0.2) * 1000.0)
    assert fast.budget_ms == 30.0
    assert fast.unclamped_ms < 0 and not fast.degraded


def test_standstill_gives_the_largest_budget():
    assert StoppingDistanceBudget(**CAR).budget_ms(0.0) == Budget(500.0, False, '', math.inf)
    assert TableBudget().budget_ms(0.0).budget_ms == 220.0


@pytest.mark.parametrize('policy', POLICIES)
@pytest.mark.parametrize('speed_mps', WRONG_SPEEDS)
def test_wrong_or_unknown_speed_gives_the_smallest_budget_and_says_why(policy, speed_mps):
    budget = policy.budget_ms(speed_mps)
    assert budget.budget_ms == policy.min_budget_ms
    assert budget.degraded and math.isnan(budget.unclamped_ms)
    assert ('unknown' if speed_mps is None else f'speed is {speed_mps} m/s') in budget.reason


@settings(max_examples=200, deadline=None)
@given(which=st.integers(0, len(POLICIES) - 1), speeds=st.tuples(SPEEDS, SPEEDS))
def test_faster_never_gives_a_longer_budget_and_limits_hold(which, speeds):
    policy = POLICIES[which]
    slow, fast = (policy.budget_ms(speed).budget_ms for speed in sorted(speeds))
    assert policy.min_budget_ms <= fast <= slow <= policy.max_budget_ms


def test_subflow_table_gives_its_entries_and_the_smaller_neighbour_between():
    policy = TableBudget()
    for speed_mps, budget_ms in zip(SUBFLOW_ROBOT_SPEEDS_MPS, SUBFLOW_ROBOT_BUDGETS_MS):
        assert policy.budget_ms(speed_mps).budget_ms == budget_ms
    assert policy.budget_ms(0.10).budget_ms == 110.0
    assert policy.budget_ms(0.01).budget_ms == 220.0


def test_speed_above_the_table_is_degraded_and_names_both():
    budget = TableBudget().budget_ms(0.5)
    assert (budget.budget_ms, budget.degraded) == (22.0, True)
    assert '0.5 m/s' in budget.reason and '0.2 m/s' in budget.reason


def test_table_is_clamped():
    policy = TableBudget([1.0, 5.0], [200.0, 50.0], min_budget_ms=80.0, max_budget_ms=150.0)
    assert [policy.budget_ms(speed).budget_ms for speed in (0.5, 3.0)] == [150.0, 80.0]


@pytest.mark.parametrize(
    'name, value, unit',
    [
        ('sight_distance_m', 0.0, '0 m'),
        ('sight_distance_m', math.inf, '0 m'),
        ('deceleration_mps2', -1.0, 'm/s'),
        ('actuation_latency_s', -0.1, '0 s'),
        ('clearance_m', 40.0, 'sight distance'),
        ('clearance_m', math.nan, 'm'),
        ('min_budget_ms', 0.0, '0 ms'),
        ('max_budget_ms', 29.0, 'min_budget_ms = 30.0 ms'),
    ],
)
def test_stopping_distance_refuses_impossible_parameters(name, value, unit):
    with pytest.raises(ValueError, match=f'{name} is {value}.*{unit}'):
        StoppingDistanceBudget(**{**CAR, name: value})


@pytest.mark.parametrize(
    'speeds, budgets, message',
    [
        ([], [], '0 speeds'),
        ([1.0], [1.0, 2.0], '1 speeds with 2 budgets'),
        ([2.0, 1.0], [9.0, 8.0], 'speeds_mps is'),
        ([1.0, 1.0], [9.0, 8.0], 'speeds_mps is'),
        ([-1.0, 1.0], [9.0, 8.0], 'at least 0 m/s'),
        ([0.0, 1.0], [8.0, 9.0], 'never rise'),
        ([0.0, 1.0], [8.0, 0.0], 'above 0 ms'),
        ([0.0, math.nan], [9.0, 8.0], 'speeds_mps is'),
    ],
)
def test_table_refuses_impossible_entries(speeds, budgets, message):
    with pytest.raises(ValueError, match=message):
        TableBudget(speeds, budgets)


def test_budget_refuses_contradictions():
    with pytest.raises(ValueError, match='budget is 0.0 ms'):
        Budget(0.0, False, '', 1.0)
    with pytest.raises(ValueError, match='degraded is True'):
        Budget(1.0, True, '', 1.0)
