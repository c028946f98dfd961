import math
import time
from functools import partial

import pytest
from deadline_perception.msg import TimeBudget
from geometry_msgs.msg import TwistStamped
from nav_msgs.msg import Odometry
from rosgraph_msgs.msg import Clock
from stamped_messages import odometry, twist

from deadline_perception.nodes.messages import ns_to_stamp


def known(heard):
    return [message.twist.linear.x for message in heard if not math.isnan(message.twist.linear.x)]


def test_speed_is_the_magnitude_its_source_says(start_node, observer, wait_for, repeat, namespace):
    start_node('vehicle_speed', {'time_constant_s': 0.0, 'timeout_s': 2.0})
    heard = observer.hear(TwistStamped, 'vehicle_speed/speed')
    wait_for(lambda: heard and math.isnan(heard[-1].twist.linear.x), 'an unknown speed')
    said = f'no speed has come yet on {namespace}/odom or {namespace}/vehicle/speed'
    observer.wait_status('vehicle_speed', said, level=1)
    publisher = observer.speaker(TwistStamped, 'vehicle/speed')
    for forward, sideways, expected in ((-0.001, 0.0, 0.001), (-2.0, 0.0, 2.0), (3.0, -4.0, 5.0)):
        message = twist(forward)
        message.twist.linear.y = sideways
        vehicle = repeat(partial(publisher.publish, message))
        wait_for(lambda: heard[-1].twist.linear.x == pytest.approx(expected), f'{expected} m/s')
        vehicle.stop()
    assert min(known(heard)) > 0.0
    assert heard[-1].header.frame_id == 'base_link' and heard[-1].header.stamp.sec > 0
    wait_for(lambda: math.isnan(heard[-1].twist.linear.x), 'the speed to become unknown')
    observer.wait_status('vehicle_speed', 's old, expected at most 2 s')
    assert observer.set_parameters('vehicle_speed', timeout_s=30.0) == ''
    odometer = observer.speaker(Odometry, 'odom')
    wait_for(lambda: odometer.publish(odometry(7.0)) or heard[-1].twist.linear.x == 7.0)
    observer.wait_status('vehicle_speed', level=0)
    del heard[:]
    for count, wrong in enumerate((math.nan, math.inf), 1):
        odometer.publish(odometry(wrong))
        problem = f'odom: twist.twist.linear.x is {wrong}, expected [-1000, 1000] m/s'
        observer.wait_status('vehicle_speed', rejected=str(count))
        level, message, values = observer.status('vehicle_speed')
        assert values['last_rejection'] == problem
        assert (level, message) == (1, f'{count} messages not used, the last: {problem}')
    assert set(known(heard)) == {7.0}


@pytest.mark.slow
def test_speeds_go_on_when_the_clock_steps(start_node, observer, wait_for, repeat, system_clock):
    """As NTP does it on a board without a battery clock."""
    environment, step = system_clock
    # Timeouts well below the step, well above the pauses of a busy machine.
    start_node('vehicle_speed', {'timeout_s': 20.0}, environment=environment)
    start_node('time_budget', {'speed_timeout_s': 20.0}, environment=environment)
    speeds = observer.hear(TwistStamped, 'vehicle_speed/speed')
    budgets = observer.hear(TimeBudget, 'time_budget/budget')
    repeat(partial(observer.speaker(Odometry, 'odom').publish, odometry(10.0)))
    # A topic may be found long after another one, on a busy machine.
    wait_for(lambda: speeds and budgets and budgets[-1].speed_mps == 10.0, 'the budget at 10 m/s')
    for step_s in (-3600.0, 3600.0):
        stepped_to_s = time.time() + step_s
        step(step_s)
        for heard in (speeds, budgets):
            wait_for(lambda: abs(heard[-1].header.stamp.sec - stepped_to_s) < 600)
        seen = len(speeds), len(budgets)
        wait_for(lambda: len(speeds) > seen[0] + 10 and len(budgets) > seen[1] + 10)
        assert {message.twist.linear.x for message in speeds[seen[0] :]} == {10.0}
        answers = {(message.budget_ms, message.degraded) for message in budgets[seen[1] :]}
        assert answers == {(100.0, False)}


def test_speed_is_published_on_a_simulated_clock(start_node, observer, wait_for):
    start_node('vehicle_speed', {'use_sim_time': True, 'timeout_s': 60.0})
    heard = observer.hear(TwistStamped, 'vehicle_speed/speed')
    odometer = observer.speaker(Odometry, 'odom')
    clock = observer.speaker(Clock, '/clock')
    now_ns = [1_000_000_000]

    def passed():
        now_ns[0] += 20_000_000
        clock.publish(Clock(clock=ns_to_stamp(now_ns[0])))
        odometer.publish(odometry(10.0))
        return known(heard)

    wait_for(passed, 'the speed')
    assert known(heard)[0] == 10.0
    assert heard[-1].header.stamp.sec < 1_000_000
