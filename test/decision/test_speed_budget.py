import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadline_perception.decision.speed_budget import TableBudget

SPEEDS = st.one_of(st.floats(0.0, 60.0), st.sampled_from([0.0, 5e-324, 1e-9, 1e200]))
WRONG_SPEEDS = [math.nan, math.inf, -math.inf, -0.1]
ROBOT = TableBudget([0.02, 0.08, 0.12, 0.20], [220.0, 154.0, 110.0, 22.0], 22.0, 220.0)
POLICIES = [ROBOT, TableBudget([1.0, 5.0], [200.0, 90.0], 80.0, 150.0)]


@pytest.mark.parametrize('policy', POLICIES)
@pytest.mark.parametrize('speed_mps', WRONG_SPEEDS)
def test_wrong_speed_gives_the_smallest_budget_and_says_why(policy, speed_mps):
    budget = policy.budget_ms(speed_mps)
    assert budget.budget_ms == policy.min_budget_ms
    assert budget.degraded and math.isnan(budget.unclamped_ms)
    assert f'speed is {speed_mps} m/s' in budget.reason
    budget = ROBOT.budget_ms(0.5)  # above the table: names both
    assert (budget.budget_ms, budget.degraded) == (22.0, True)
    assert '0.5 m/s' in budget.reason and '0.2 m/s' in budget.reason


@settings(max_examples=200, deadline=None)
@given(which=st.integers(0, len(POLICIES) - 1), speeds=st.tuples(SPEEDS, SPEEDS))
def test_faster_never_gives_a_longer_budget_and_limits_hold(which, speeds):
    policy = POLICIES[which]
    slow, fast = (policy.budget_ms(speed).budget_ms for speed in sorted(speeds))
    assert policy.min_budget_ms <= fast <= slow <= policy.max_budget_ms


@pytest.mark.parametrize(
    'speeds, budgets, limits_ms, message',
    [
        ([], [], (1.0, 10.0), '0 speeds'),
        ([1.0], [1.0, 2.0], (1.0, 10.0), '1 speeds with 2 budgets'),
        ([1.0, 1.0], [9.0, 8.0], (1.0, 10.0), 'speeds_mps is'),
        ([0.0, 1.0], [8.0, 9.0], (1.0, 10.0), 'never rise'),
        ([1.0], [9.0], (30.0, 29.0), 'max_budget_ms is 29.0, expected .* = 30.0 ms'),
    ],
)
def test_table_refuses_impossible_entries_and_limits(speeds, budgets, limits_ms, message):
    with pytest.raises(ValueError, match=message):
        TableBudget(speeds, budgets, *limits_ms)
