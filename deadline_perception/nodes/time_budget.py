"""The node `time_budget`: from the vehicle's speed to the time that perception may take."""

from __future__ import annotations

import math
from collections.abc import Mapping

from geometry_msgs.msg import TwistStamped
from rclpy.node import Node

from deadline_perception.decision.speed_budget import (
    Budget,
    FixedBudget,
    TableBudget,
)
from deadline_perception.msg import TimeBudget
from deadline_perception.nodes.health import Health, Report, report_of
from deadline_perception.nodes.message_intake import MessageIntake
from deadline_perception.nodes.messages import bounded
from deadline_perception.nodes.parameters import Parameter, Value, declare
from deadline_perception.nodes.periodic_clock import periodic_clock
from deadline_perception.nodes.process import run_node
from deadline_perception.nodes.service_quality import ANY_SOURCE, open_output

# One metre: what the vehicle may travel between an image and its detections.
ROAD_SPEEDS_MPS = (4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0, 20.0, 25.0, 30.0, 40.0)
ROAD_BUDGETS_MS = tuple(round(1000.0 / speed, 1) for speed in ROAD_SPEEDS_MPS)

_RATE_HZ = 5.0  # also when no speed comes
PARAMETERS = (
    Parameter(
        'table_speeds_mps',
        ROAD_SPEEDS_MPS,
        "Speeds of the table, ascending; between two of them the faster one's budget holds.",
        'm/s',
        0.0,
        200.0,
    ),
    Parameter(
        'table_budgets_ms',
        ROAD_BUDGETS_MS,
        'Budgets of the table, one per speed, never rising; by default 1 m of travel per frame.',
        'ms',
        0.1,
        60000.0,
    ),
    Parameter(
        'min_budget_ms',
        30.0,
        'Smallest budget; also in force while the speed is unknown.',
        'ms',
        0.1,
        60000.0,
    ),
    Parameter('max_budget_ms', 250.0, 'Largest budget, at standstill.', 'ms', 0.1, 60000.0),
    Parameter(
        'fixed_budget_ms',
        0.0,
        'Budget that is in force whatever the speed; 0: it follows the speed.',
        'ms',
        0.0,
        60000.0,
    ),
    Parameter(
        'speed_timeout_s', 0.5, 'Age above which the speed counts as unknown.', 's', 0.01, 60.0
    ),
)


def make_policy(values: Mapping[str, Value]) -> FixedBudget | TableBudget:
    """The policy that the parameters describe.

    Raises:
        ValueError: values do not fit each other.
    """
    if values['fixed_budget_ms'] > 0.0:
        return FixedBudget(values['fixed_budget_ms'])
    return TableBudget(
        values['table_speeds_mps'],
        values['table_budgets_ms'],
        values['min_budget_ms'],
        values['max_budget_ms'],
    )


class TimeBudgetNode(Node):
    """Publishes `~/budget` on every speed, and by timer when none comes."""

    def __init__(self) -> None:
        super().__init__('time_budget')
        self._speed_mps = math.nan
        self._heard_ns: int | None = None
        self._values = declare(self, PARAMETERS, self._apply)
        self._publisher = open_output(self, TimeBudget, '~/budget')
        self._intake = MessageIntake(self)
        self._intake.listen(TwistStamped, 'vehicle_speed/speed', self._on_speed, ANY_SOURCE)
        self._clock_of_ages = periodic_clock(self)
        self.create_timer(1.0 / _RATE_HZ, self._publish, clock=self._clock_of_ages)
        self._health = Health(self, self._report)

    def _apply(self, values: Mapping[str, Value]) -> None:
        self._policy = make_policy(values)

    def _on_speed(self, message: TwistStamped) -> None:
        self._speed_mps = abs(message.twist.linear.x)
        self._heard_ns = self._clock_of_ages.now().nanoseconds
        self._publish()

    def _publish(self) -> None:
        budget, speed_mps = self._current()
        message = TimeBudget(
            budget_ms=budget.budget_ms,
            min_budget_ms=self._policy.min_budget_ms,
            max_budget_ms=self._policy.max_budget_ms,
            speed_mps=speed_mps,
            policy=bounded(self._policy.name),
            degraded=budget.degraded,
            reason=bounded(budget.reason),
        )
        message.header.stamp = self.get_clock().now().to_msg()
        message.header.frame_id = 'base_link'
        self._publisher.publish(message)

    def _current(self) -> tuple[Budget, float]:
        """The budget now and the speed behind it, NaN when that is unknown."""
        if isinstance(self._policy, FixedBudget):
            return self._policy.budget_ms(self._speed_mps), self._speed_mps
        if self._heard_ns is None:
            return self._unknown('no speed has come yet on vehicle_speed/speed'), math.nan
        now_ns = self._clock_of_ages.now().nanoseconds
        self._heard_ns = min(
            self._heard_ns, now_ns
        )  # a simulated clock that has gone back: the age begins anew
        age_s = (now_ns - self._heard_ns) / 1e9
        if age_s > self._values['speed_timeout_s']:
            return self._unknown(
                f'the latest speed is {age_s:.2f} s old, expected at most '
                f'{self._values["speed_timeout_s"]:g} s'
            ), math.nan
        if math.isnan(self._speed_mps):
            return self._unknown('vehicle_speed does not know the speed, and says why'), math.nan
        return self._policy.budget_ms(self._speed_mps), self._speed_mps

    def _unknown(self, reason: str) -> Budget:
        return Budget(self._policy.min_budget_ms, reason, math.nan)

    def _report(self) -> Report:
        budget, speed_mps = self._current()
        values = {
            'budget_ms': budget.budget_ms,
            'speed_mps': speed_mps,
            'policy': self._policy.name,
            'refused_messages': self._intake.refused,
        }
        concern = ''
        if budget.degraded:
            concern = f'{budget.budget_ms:g} ms is in force: {budget.reason}'
        elif (
            not self._values['fixed_budget_ms'] and budget.unclamped_ms < self._policy.min_budget_ms
        ):
            concern = (
                f'{speed_mps:.1f} m/s is too fast: it asks for {budget.unclamped_ms:.0f} ms, less than the '
                f'smallest budget of {self._policy.min_budget_ms:g} ms'
            )
        return report_of(
            values,
            f'{budget.budget_ms:g} ms, fixed'
            if isinstance(self._policy, FixedBudget)
            else f'{budget.budget_ms:.0f} ms at {speed_mps:.1f} m/s',
            concerns=(concern, self._intake.concern),
        )


def main() -> int:
    return run_node('time_budget', TimeBudgetNode)
