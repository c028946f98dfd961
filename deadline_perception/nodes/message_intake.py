"""The one way in for messages: every number that a node takes from a topic passes one table of ranges.

What lies outside is counted, reported, and not used; so is what comes more often than it can be of use. Images are the
exception: `image_message.to_bgr` judges them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message
from rclpy.subscription import Subscription

from deadline_perception.core.stopwatch import now_ms
from deadline_perception.core.untrusted_file import MIB
from deadline_perception.msg import ContentionState, TimeBudget
from deadline_perception.nodes.service_quality import RESULTS, subscription_events
from deadline_perception.runtime.conditions import ConditionTracker
from deadline_perception.runtime.image_flow import TOLD_MS
from deadline_perception.runtime.job import MAX_BUDGET_MS
from deadline_perception.timing.contention.slowdown import MAX_SLOWDOWN

THROTTLE_S = 10.0
LONGEST_TEXT = 1000  # characters: a reason is a line
MOST_OPERATORS = 1000  # of a path
MOST_DETECTIONS = 500  # of a message
MOST_HYPOTHESES = 50  # of one of its detections
LARGEST_PX = 100_000.0
LARGEST_MS = 1e9
FASTEST_MPS = 1000.0
MOST_BYTES = {
    'detector/detections': 4 * MIB
}  # of a serialised message, by topic; and of all others
MOST_OTHER_BYTES = MIB // 4
MOST_HZ = 1000.0  # messages a second of one topic; the fastest odometry has some hundreds
_WINDOW_MS = 100.0
_MOST_AT_ONCE = round(MOST_HZ * _WINDOW_MS / 1000.0)


@dataclass(frozen=True)
class Range:
    """What one field of a message may hold.

    Attributes:
        field: dotted path; `[]` after a part stands for every element of that list. Of a text or of a list without
            `[]` the length counts.
        minimum: smallest legal value.
        maximum: largest.
        unit: of the value.
        may_be_nan: NaN says that it is not known.
    """

    field: str
    minimum: float
    maximum: float
    unit: str = ''
    may_be_nan: bool = False

    def problem_with(self, message: Any) -> str:
        """What is wrong with a message, in one line; empty when the field is legal."""
        for value in _values(message, self.field.split('.')):
            if isinstance(value, str) and not value.isprintable():
                return f'{self.field} is {value[:40]!a}, expected printable characters'
            number = len(value) if hasattr(value, '__len__') else value
            if not self.minimum <= number <= self.maximum and not (
                self.may_be_nan and math.isnan(number)
            ):
                what = f'number in {self.field}' if hasattr(value, '__len__') else self.field
                legal = f'[{self.minimum:.10g}, {self.maximum:.10g}] {self.unit}'.rstrip()
                return f'{what} is {number:g}, expected {legal}'
        return ''


def _values(value: Any, parts: list[str]) -> Iterator[Any]:
    if not parts:
        yield value
        return
    inner = getattr(value, parts[0].removesuffix('[]'))
    for element in inner if parts[0].endswith('[]') else (inner,):
        yield from _values(element, parts[1:])


_CONTENTION = (
    Range('slowdown', 1.0, MAX_SLOWDOWN),
    Range('sources', 0, 16),
    Range('sources[]', 0, 100),
)
_BUDGET = (
    Range('budget_ms', 0.001, MAX_BUDGET_MS, 'ms'),
    Range('min_budget_ms', 0.0, MAX_BUDGET_MS, 'ms'),
    Range('reason', 0, LONGEST_TEXT),
)
_DETECTIONS = (
    Range('detections', 0, MOST_DETECTIONS),
    Range('detections[].results', 0, MOST_HYPOTHESES),
    Range('detections[].bbox.center.position.x', -LARGEST_PX, LARGEST_PX, 'px'),
    Range('detections[].bbox.center.position.y', -LARGEST_PX, LARGEST_PX, 'px'),
    Range('detections[].bbox.size_x', 0.0, LARGEST_PX, 'px'),
    Range('detections[].bbox.size_y', 0.0, LARGEST_PX, 'px'),
    Range('detections[].results[].hypothesis.score', 0.0, 1.0),
    Range('detections[].results[].hypothesis.class_id', 0, LONGEST_TEXT),
)
_LATENCY = (
    *(
        Range(name, 0.0, LARGEST_MS, 'ms', may_be_nan=True)
        for name in ('budget_ms', 'total_ms', 'network_ms', 'idle_forecast_ms', 'bound_ms')
    ),
    Range('path', 0, LONGEST_TEXT),
)
_PATH = (
    Range('path', 0, LONGEST_TEXT),
    Range('reason', 0, LONGEST_TEXT),
    Range('operators', 0, MOST_OPERATORS),
    Range('operators[].name', 0, LONGEST_TEXT),
    Range('operators[].kind', 0, LONGEST_TEXT),
    Range('operators[].setting', 0, LONGEST_TEXT),
)
# By topic, as the nodes of this package call it: what a type may hold depends on what it says there.
RANGES = {
    'time_budget/budget': _BUDGET,
    'contention_monitor/state': _CONTENTION,
    'detector/detections': _DETECTIONS,
    'detector/latency': _LATENCY,
    'detector/late': _LATENCY,
    'detector/path': _PATH,
    'vehicle_speed/speed': (
        Range('twist.linear.x', -FASTEST_MPS, FASTEST_MPS, 'm/s', may_be_nan=True),
    ),
    'vehicle/speed': (
        Range('twist.linear.x', -FASTEST_MPS, FASTEST_MPS, 'm/s'),
        Range('twist.linear.y', -FASTEST_MPS, FASTEST_MPS, 'm/s'),
    ),
    'odom': (
        Range('twist.twist.linear.x', -FASTEST_MPS, FASTEST_MPS, 'm/s'),
        Range('twist.twist.linear.y', -FASTEST_MPS, FASTEST_MPS, 'm/s'),
    ),
}


def problem_with(topic: str, message: Any) -> str:
    """What is wrong with a message of a topic of `RANGES`, in one line; empty when all of it is legal."""
    return next(filter(None, (row.problem_with(message) for row in RANGES[topic])), '')


class InTurn(MutuallyExclusiveCallbackGroup):
    """One topic, served at most `MOST_HZ` times a second: whoever floods it leaves the executor time for images.

    What is not taken is replaced by newer messages in the middleware. Executors look at it as often as they wake.
    """

    def __init__(self) -> None:
        super().__init__()
        self._begin_ms = -math.inf
        self._flooded_ms = -math.inf
        self._taken = 0

    def can_execute(self, entity: Any) -> bool:
        has_turn = self._taken < _MOST_AT_ONCE or now_ms() - self._begin_ms >= _WINDOW_MS
        return has_turn and super().can_execute(entity)

    def take(self) -> None:
        """Takes note of a message."""
        time_ms = now_ms()
        if time_ms - self._begin_ms >= _WINDOW_MS:
            self._begin_ms = time_ms
            self._taken = 0
        self._taken += 1
        if self._taken >= _MOST_AT_ONCE:
            self._flooded_ms = time_ms

    @property
    def is_flooded(self) -> bool:
        """Whether more came in the last seconds than was taken."""
        return now_ms() - self._flooded_ms <= TOLD_MS


class MessageIntake:
    """Subscribes for a node, and lets through what the table allows.

    Attributes:
        refused: messages so far that it did not.
        last_problem: what was wrong with the last of them.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self.refused = 0
        self.last_problem = ''
        self._refused_ms = -math.inf
        self._subscriptions: dict[Subscription, InTurn] = {}

    def listen(
        self,
        kind: type,
        topic: str,
        callback: Callable[[Any], None],
        quality: QoSProfile,
    ) -> None:
        """Subscribes to a topic of `RANGES`, as the node calls it; `callback` is given each legal message."""
        in_turn = InTurn()

        def on_message(raw: bytes) -> None:
            in_turn.take()
            message = self.message_in(raw, kind, topic)
            if message is not None:
                callback(message)

        subscription = self._node.create_subscription(
            kind,
            topic,
            on_message,
            quality,
            raw=True,
            event_callbacks=subscription_events(self._node, topic),
            callback_group=in_turn,
        )
        self._subscriptions[subscription] = in_turn

    def listen_to_conditions(self, conditions: ConditionTracker) -> None:
        """Subscribes to budget and contention."""

        def on_budget(message: TimeBudget) -> None:
            reason = (message.reason or 'degraded') if message.degraded else ''
            conditions.on_budget(message.budget_ms, message.min_budget_ms, reason)

        def on_contention(message: ContentionState) -> None:
            conditions.on_contention(message.slowdown, '+'.join(message.sources))

        self.listen(TimeBudget, 'time_budget/budget', on_budget, RESULTS)
        self.listen(ContentionState, 'contention_monitor/state', on_contention, RESULTS)

    def close(self) -> None:
        """Ends all subscriptions; what was refused is still known."""
        for subscription in self._subscriptions:
            self._node.destroy_subscription(subscription)
        self._subscriptions.clear()

    def message_in(
        self,
        raw: bytes,
        kind: type,
        topic: str,
    ) -> Any | None:
        """The message in serialised data; None of one that is not legal, which is counted and logged.

        Long ones are refused as they are: to make objects of millions of texts takes seconds and hundreds of megabytes.
        """
        most = MOST_BYTES.get(topic, MOST_OTHER_BYTES)
        if len(raw) > most:
            self._refuse(topic, f'it has {len(raw):,} bytes, expected at most {most:,}')
            return None
        message = deserialize_message(raw, kind)
        problem = problem_with(topic, message)
        if problem:
            self._refuse(topic, problem)
            return None
        return message

    def _refuse(self, topic: str, problem: str) -> None:
        self.refused += 1
        self.last_problem = f'{topic}: {problem}'
        self._refused_ms = now_ms()
        self._node.get_logger().warning(
            f'message not used: {self.last_problem}', throttle_duration_sec=THROTTLE_S
        )

    @property
    def concern(self) -> str:
        """What a person should know of the last seconds; empty where nothing was refused, and no topic flooded."""
        concerns = [
            f'{subscription.topic_name}: more than {MOST_HZ:,.0f} messages a second'
            for subscription, in_turn in self._subscriptions.items()
            if in_turn.is_flooded
        ]
        if now_ms() - self._refused_ms <= TOLD_MS:
            concerns.append(f'{self.refused} messages not used, the last: {self.last_problem}')
        return '; '.join(concerns)
