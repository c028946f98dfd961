"""Images of one camera: the newest one is taken off the middleware while one is wanted, and those left out are counted.

Taking an image costs time of Python that a frame at work needs, so it is not taken for nothing.
"""
from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.subscription import Subscription
from sensor_msgs.msg import CompressedImage, Image

from deadline_perception.nodes.service_quality import subscription_events

LONGEST_TRANSPORT_NS = 10_000_000_000  # an image that seems to have waited longer was received by another clock
# Humble's rclpy does not tell a callback which number a message has.
_TELLS_NUMBERS = hasattr(Subscription, 'CallbackType')


class _WhileWanted(MutuallyExclusiveCallbackGroup):
    """Subscriptions that are served only while their messages are wanted.

    So are their events: Fast DDS wakes whoever waits for an event also for messages that nobody takes, again and again.
    """

    def __init__(self, is_wanted: Callable[[], bool]) -> None:
        super().__init__()
        self._is_wanted = is_wanted

    def can_execute(self, entity) -> bool:
        return self._is_wanted() and super().can_execute(entity)


class ImageInput:
    """A subscription to images, served while one is wanted; `wake` the executor when that begins.

    Args:
        node: subscribes.
        kind: `Image` or `CompressedImage`.
        topic: resolved.
        reliability: `reliable`, `best_effort`, or `auto`: reliable where that is offered.
        is_wanted: whether an image is to be taken, from any thread.
        on_image: is given an image, how many ns ago it was received, and how many images a newer one replaced in the
            middleware since the one before.
        on_lost: is told how many images the middleware has lost since the last call.
    """

    def __init__(self, node: Node, kind: type, topic: str, reliability: str, *, is_wanted: Callable[[], bool],
                 on_image: Callable[[Image | CompressedImage, int, int], None], on_lost: Callable[[int], None]) -> None:
        self._node, self._group, self._on_image, self._tell_lost = node, _WhileWanted(is_wanted), on_image, on_lost
        self._last_number: int | None = None
        self._missing = self._lost = self._left_out = 0
        self._subscription: Subscription | None = None
        self._subscribe(kind, topic, reliability)

    def close(self) -> None:
        """Ends the subscription."""
        self._node.destroy_subscription(self._subscription)
        self._subscription = None

    def wake(self) -> None:
        """Lets the executor look anew whether an image is wanted; from any thread."""
        executor = self._node.executor
        if executor is not None:
            executor.wake()

    def _subscribe(self, kind: type, topic: str, reliability: str) -> None:
        def weaken(_event: object) -> None:
            """Events of one publisher each; the second of them finds the weaker subscription in place."""
            if self._subscription is subscription:
                self._node.get_logger().info(f'{topic} is offered with best effort only: lost images stay lost')
                self._node.destroy_subscription(subscription)
                self._subscribe(kind, topic, 'best_effort')

        events = subscription_events(self._node, topic, on_lost=self._on_lost)
        if reliability == 'auto':
            events.incompatible_qos = weaken
        quality = QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=1, reliability=(
            ReliabilityPolicy.BEST_EFFORT if reliability == 'best_effort' else ReliabilityPolicy.RELIABLE))
        callback = self._on_message if _TELLS_NUMBERS else lambda message: self._on_message(message, {})
        self._last_number = None
        try:
            subscription = self._node.create_subscription(kind, topic, callback, quality, event_callbacks=events,
                                                          callback_group=self._group)
        except RuntimeError:  # Humble's Fast DDS cannot tell what it lost: rclpy's UnsupportedEventTypeError
            events.message_lost = None
            subscription = self._node.create_subscription(kind, topic, callback, quality, event_callbacks=events,
                                                          callback_group=self._group)
        self._subscription = subscription

    def _on_message(self, message: Image | CompressedImage, info: Mapping[str, object]) -> None:
        waited_ns = time.time_ns() - (info.get('received_timestamp') or sys.maxsize)
        self._on_image(message, waited_ns if 0 < waited_ns < LONGEST_TRANSPORT_NS else 0,
                       self._count_left_out(info.get('publication_sequence_number')))

    def _on_lost(self, count: int) -> None:
        self._lost += max(0, count)
        self._tell_lost(max(0, count))

    def _count_left_out(self, number: int | None) -> int:
        """Images that a newer one replaced in the middleware since the last: missing in its numbers, and not lost."""
        last, self._last_number = self._last_number, number
        missing = 0 if last is None or number is None else number - last - 1
        if missing > 0 and self._cameras() == 1:  # each has numbers of its own
            self._missing += missing
        left_out = max(0, self._missing - self._lost - self._left_out)
        self._left_out += left_out
        return left_out

    def _cameras(self) -> int:
        """Publishers that are heard; those of another type under the same name are not."""
        name, topic = f'sensor_msgs/msg/{self._subscription.msg_type.__name__}', self._subscription.topic_name
        return sum(info.topic_type == name for info in self._node.get_publishers_info_by_topic(topic))
