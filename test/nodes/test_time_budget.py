import math
import signal

import pytest
import yaml
from deadline_perception.msg import TimeBudget
from geometry_msgs.msg import TwistStamped
from stamped_messages import twist

from deadline_perception.nodes.parameters import validate
from deadline_perception.nodes.time_budget import (
    PARAMETERS,
    ROAD_BUDGETS_MS,
    ROAD_SPEEDS_MPS,
    make_policy,
)

# Lee and Nirjon 2020 (SubFlow), table IV, by speed in m/s.
ROBOT_BUDGETS_MS = {0.02: 220.0, 0.04: 198.0, 0.08: 154.0, 0.12: 110.0, 0.16: 66.0, 0.20: 22.0}


def test_road_table_lets_the_vehicle_travel_at_most_a_metre_and_own_tables_take_its_place(
    repository,
):
    for speed_mps, budget_ms in zip(ROAD_SPEEDS_MPS, ROAD_BUDGETS_MS):
        assert speed_mps * budget_ms / 1000.0 == pytest.approx(1.0, abs=0.002)
    shipped = yaml.safe_load((repository / 'config' / 'subflow_robot.yaml').read_text())
    robot = shipped['/**/time_budget']['ros__parameters']
    own = {'table_speeds_mps': [1.0, 2.0], 'table_budgets_ms': [200.0, 50.0]}
    for given, budgets_ms in (
        ({}, {0.0: 250.0, 9.0: 100.0, 20.0: 50.0}),  # between two entries the faster one's
        (own, {1.5: 50.0}),
        (robot, ROBOT_BUDGETS_MS),
        ({'fixed_budget_ms': 80.0}, {None: 80.0, 0.0: 80.0, 50.0: 80.0}),
    ):
        policy = make_policy(validate(PARAMETERS, given))
        assert {speed: policy.budget_ms(speed).budget_ms for speed in budgets_ms} == budgets_ms


def test_budgets_follow_speeds_and_policies_that_change(start_node, observer, wait_for):
    node = start_node('time_budget', {'speed_timeout_s': 60.0})
    heard = observer.hear(TimeBudget, 'time_budget/budget')
    wait_for(lambda: heard, 'a budget without any speed')
    assert heard[-1].budget_ms == 30.0 and heard[-1].degraded and math.isnan(heard[-1].speed_mps)
    assert 'no speed has come yet on vehicle_speed/speed' in heard[-1].reason
    vehicle = observer.speaker(TwistStamped, 'vehicle_speed/speed')

    def drive(speed_mps, budget_ms):
        """Sends a speed until the budget answers it."""
        wait_for(lambda: vehicle.publish(twist(speed_mps)) or heard[-1].budget_ms == budget_ms)
        return heard[-1]

    for speed_mps, budget_ms in ((0.0, 250.0), (10.0, 100.0), (20.0, 50.0)):
        answer = drive(speed_mps, budget_ms)
        assert (answer.degraded, answer.reason, answer.policy) == (False, '', 'table')
        assert (answer.min_budget_ms, answer.max_budget_ms) == (30.0, 250.0)
    observer.wait_status('time_budget', level=0)
    assert 'vehicle_speed does not know the speed' in drive(math.nan, 30.0).reason
    observer.wait_status('time_budget', level=1)
    drive(20.0, 50.0)
    reason = observer.set_parameters('time_budget', min_budget_ms=300.0)
    assert 'max_budget_ms is 250.0, expected at least min_budget_ms' in reason
    assert observer.set_parameters('time_budget', speed_timeout_s=1.0) == ''
    drive(-5.0, 200.0)  # reversing
    wait_for(lambda: heard[-1].degraded, 'the speed to become stale')
    assert heard[-1].budget_ms == 30.0 and 's old, expected at most 1 s' in heard[-1].reason
    assert observer.set_parameters('time_budget', fixed_budget_ms=80.0) == ''
    wait_for(lambda: heard[-1].policy == 'fixed', 'the fixed budget')
    assert heard[-1].budget_ms == 80.0 and not heard[-1].degraded
    assert node.end(signal.SIGTERM) == 0
