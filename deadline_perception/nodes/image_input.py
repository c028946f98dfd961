"""The one input of images: taken off the middleware only while one is wanted; what is lost or does not come is reported.

Taking an image costs time of Python that a frame at work needs, so it is not taken for nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.node import Node
from rclpy.qos import ReliabilityPolicy
from rclpy.subscription import Subscription
from rclpy.timer import Timer
from rclpy.topic_endpoint_info import TopicEndpointInfo
from sensor_msgs.msg import CompressedImage, Image

from deadline_perception.nodes.parameters import Parameter
from deadline_perception.nodes.periodic_clock import steady_timer
from deadline_perception.nodes.service_quality import (
    newest,
    numbered,
    subscription_events,
)
from deadline_perception.runtime.image_flow import ImageFlow

LONGEST_TRANSPORT_NS = (
    10_000_000_000  # an image that seems to have waited longer was received by another clock
)
_STRENGTHEN_PERIOD_S = 1.0

# Of every node that listens to a camera.
TRANSPORT = Parameter(
    'image_transport',
    'raw',
    'Form of the camera images: sensor_msgs/Image, or compressed, '
    'sensor_msgs/CompressedImage on IMAGE/compressed.',
    choices=('raw', 'compressed'),
)
RELIABILITY = Parameter(
    'reliability',
    'auto',
    'Whether lost images are sent again. auto: while no camera offers best effort only. Large '
    'images lose parts even within one machine when it is busy.',
    choices=('auto', 'reliable', 'best_effort'),
)


class WhileWanted(MutuallyExclusiveCallbackGroup):
    """Subscriptions that are served only while their messages are wanted.

    So are their events: Fast DDS wakes whoever waits for an event also for messages that nobody takes, again and again.
    """

    def __init__(self, is_wanted: Callable[[], bool]) -> None:
        super().__init__()
        self._is_wanted = is_wanted

    def can_execute(self, entity: Any) -> bool:
        return self._is_wanted() and super().can_execute(entity)


class ImageInput:
    """A subscription to images, served while one is wanted; `wake` the executor when that begins.

    Args:
        node: subscribes.
        topic: of the raw images.
        transport: `raw`, or `compressed` for `CompressedImage` on TOPIC/compressed.
        reliability: `reliable`, `best_effort`, or `auto`: reliable while that is offered by all.
        on_image: is given an image, how many ns ago it was received, and how many images a newer one replaced in the
            middleware since the one before.
        is_wanted: whether an image is to be taken, from any thread.
        depth: images that wait in the middleware.

    Attributes:
        flow: whether images come.
    """

    def __init__(
        self,
        node: Node,
        topic: str,
        transport: str,
        reliability: str,
        *,
        on_image: Callable[[Image | CompressedImage, int, int], None],
        is_wanted: Callable[[], bool] = lambda: True,
        depth: int = 1,
    ) -> None:
        self._node = node
        self._group = WhileWanted(is_wanted)
        self._on_image = on_image
        self._is_wanted = is_wanted
        self._reliability = reliability
        self._depth = depth
        self._kind, ending = (
            (CompressedImage, '/compressed') if transport == 'compressed' else (Image, '')
        )
        self.flow = ImageFlow(node.resolve_topic_name(topic) + ending)
        self._last_number: int | None = None
        self._missing = 0
        self._left_out = 0
        self._subscription: Subscription | None = None
        self._strengthener: Timer | None = None
        self._subscribe(reliability)

    def close(self) -> None:
        """Ends the subscription."""
        self._end_strengthener()
        if self._subscription is not None:
            self._node.destroy_subscription(self._subscription)
        self._subscription = None

    def wake(self) -> None:
        """Lets the executor look anew whether an image is wanted; from any thread."""
        self.flow.await_next()
        executor = self._node.executor
        if executor is not None:
            executor.wake()

    @property
    def fault(self) -> str:
        """That the camera has stopped; not while an image is at work, and none is taken."""
        return self.flow.fault if self._is_wanted() else ''

    @property
    def concerns(self) -> tuple[str, ...]:
        """What is degraded, for a person."""
        silence = self.flow.concern if self._is_wanted() else ''
        return tuple(filter(None, (silence, self.flow.loss)))

    def _subscribe(self, reliability: str) -> None:
        topic = self.flow.topic
        old = self._subscription

        def weaken(_event: object) -> None:
            """Events of one publisher each; the second of them finds the weaker subscription in place."""
            if self._subscription is subscription:
                self._node.get_logger().info(
                    f'{topic} is offered with best effort only: lost images stay lost'
                )
                self._subscribe('best_effort')
                self._strengthener = steady_timer(
                    self._node, _STRENGTHEN_PERIOD_S, self._strengthen
                )

        events = subscription_events(self._node, topic, on_lost=self.flow.lose)
        if reliability == 'auto':
            events.incompatible_qos = weaken
        quality = newest(self._depth, reliable=reliability != 'best_effort')

        def subscribe() -> Subscription:
            return self._node.create_subscription(
                self._kind,
                topic,
                numbered(self._on_message),
                quality,
                event_callbacks=events,
                callback_group=self._group,
            )

        try:
            subscription = subscribe()
        except (
            RuntimeError
        ):  # Humble's Fast DDS cannot tell what it lost: rclpy's UnsupportedEventTypeError
            events.message_lost = None
            subscription = subscribe()
        self._subscription = subscription
        if old is not None:
            self._node.destroy_subscription(old)

    def _strengthen(self) -> None:
        """Subscribes reliably again once nobody is left who offers best effort only."""
        best_effort = ReliabilityPolicy.BEST_EFFORT
        if self._subscription is None or any(
            end.qos_profile.reliability == best_effort for end in self._cameras()
        ):
            return
        self._end_strengthener()
        self._node.get_logger().info(
            f'{self.flow.topic} is offered reliably: lost images are sent again'
        )
        self._subscribe(self._reliability)

    def _end_strengthener(self) -> None:
        if self._strengthener is not None:
            self._node.destroy_timer(self._strengthener)
            self._strengthener = None

    def _on_message(self, message: Image | CompressedImage, info: Mapping[str, int]) -> None:
        left_out = self._count_left_out(info.get('publication_sequence_number'))
        waited_ns = time.time_ns() - (info.get('received_timestamp') or sys.maxsize)
        self._on_image(
            message,
            waited_ns if 0 < waited_ns < LONGEST_TRANSPORT_NS else 0,
            left_out,
        )

    def _count_left_out(self, number: int | None) -> int:
        """Images that a newer one replaced in the middleware since the last: missing in its numbers, and not lost."""
        last = self._last_number
        self._last_number = number
        missing = 0 if last is None or number is None else max(0, number - last - 1)
        if missing and len(self._cameras()) > 1:  # each has numbers of its own
            missing = 0
        self._missing += missing
        self.flow.come()
        left_out = max(0, self._missing - self.flow.lost - self._left_out)
        self._left_out += left_out
        return left_out

    def _cameras(self) -> list[TopicEndpointInfo]:
        """Publishers that are heard; those of another type under the same name are not."""
        if self._subscription is None:
            return []
        name = f'sensor_msgs/msg/{self._kind.__name__}'
        ends = self._node.get_publishers_info_by_topic(self._subscription.topic_name)
        return [info for info in ends if info.topic_type == name]
