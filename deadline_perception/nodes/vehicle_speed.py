"""The node `vehicle_speed`: how fast the vehicle is, from odometry or a twist, and whether it knows."""

from __future__ import annotations

import math
from collections.abc import Mapping

from geometry_msgs.msg import Twist, TwistStamped
from nav_msgs.msg import Odometry
from rclpy.node import Node

from deadline_perception.nodes.health import Health, Report, report_of
from deadline_perception.nodes.message_intake import MessageIntake
from deadline_perception.nodes.parameters import Parameter, Value, declare
from deadline_perception.nodes.periodic_clock import periodic_clock
from deadline_perception.nodes.process import run_node
from deadline_perception.nodes.service_quality import ANY_SOURCE, open_output
from deadline_perception.runtime.speed_filter import SpeedFilter

_RATE_HZ = 20.0
PARAMETERS = (
    Parameter(
        'time_constant_s',
        0.2,
        'Time constant of the low-pass filter; 0 switches it off.',
        's',
        0.0,
        60.0,
    ),
    Parameter(
        'timeout_s',
        0.5,
        'Age of the latest speed above which the speed is unknown.',
        's',
        0.01,
        60.0,
    ),
)


class VehicleSpeedNode(Node):
    """Publishes `~/speed` by timer: the smoothed speed, or NaN when it is not known."""

    def __init__(self) -> None:
        super().__init__('vehicle_speed')
        self._of_filter: tuple[float, ...] = ()
        self._values = declare(self, PARAMETERS, self._apply)
        self._source = ''  # that spoke last
        self._intake = MessageIntake(self)
        self._clock_of_ages = periodic_clock(self)

        def on_odometry(message: Odometry) -> None:
            self._hear('odometry', message.twist.twist)

        def on_twist(message: TwistStamped) -> None:
            self._hear('twist', message.twist)

        self._intake.listen(Odometry, 'odom', on_odometry, ANY_SOURCE)
        self._intake.listen(TwistStamped, 'vehicle/speed', on_twist, ANY_SOURCE)
        self._publisher = open_output(self, TwistStamped, '~/speed')
        self.create_timer(1.0 / _RATE_HZ, self._publish, clock=self._clock_of_ages)
        self._health = Health(self, self._report)

    def _apply(self, values: Mapping[str, Value]) -> None:
        wanted = values['time_constant_s'], values['timeout_s']
        if wanted != self._of_filter:
            self._of_filter = wanted
            self._filter = SpeedFilter(*wanted)

    def _now_s(self) -> float:
        return self._clock_of_ages.now().nanoseconds / 1e9

    def _hear(self, source: str, twist: Twist) -> None:
        now_s = self._now_s()
        if source != self._source and self._source and self._filter.is_fresh(now_s):
            return
        # A robot may also drive sideways.
        self._filter.observe(math.hypot(twist.linear.x, twist.linear.y), now_s)
        self._source = source

    def _publish(self) -> None:
        message = TwistStamped()
        message.header.stamp = self.get_clock().now().to_msg()
        message.header.frame_id = 'base_link'
        message.twist.linear.x = self._filter.speed_mps(self._now_s())
        self._publisher.publish(message)

    def _report(self) -> Report:
        now_s = self._now_s()
        speed_mps = self._filter.speed_mps(now_s)
        age_s = self._filter.age_s(now_s)
        values = {
            'speed_mps': speed_mps,
            'age_s': age_s,
            'source': self._source or 'none yet',
            'rejected': self._intake.refused,
            'last_rejection': self._intake.last_problem,
        }
        silence = '' if self._filter.is_fresh(now_s) else self._silence(age_s)
        return report_of(
            values, f'{speed_mps:.1f} m/s', concerns=(self._intake.concern or silence,)
        )

    def _silence(self, age_s: float) -> str:
        topics = ' or '.join(map(self.resolve_topic_name, ('odom', 'vehicle/speed')))
        if math.isnan(age_s):
            return f'no speed has come yet on {topics}'
        return (
            f'the latest speed on {topics} is {age_s:.2f} s old, expected at most '
            f'{self._values["timeout_s"]:g} s'
        )


def main() -> int:
    return run_node('vehicle_speed', VehicleSpeedNode)
