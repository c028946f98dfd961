"""Which quality of service each kind of topic has, and the hint that is logged when two sides do not fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import (
    QoSDurabilityPolicy,
    QoSHistoryPolicy,
    QoSProfile,
    QoSReliabilityPolicy,
    qos_policy_name_from_kind,
)
from rclpy.subscription import Subscription

try:
    from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
except ImportError:  # Humble
    from rclpy.qos_event import PublisherEventCallbacks, SubscriptionEventCallbacks


def newest(depth: int, *, reliable: bool = True, latched: bool = False) -> QoSProfile:
    """Keeps the newest messages; `latched`: also for those who subscribe later."""
    return QoSProfile(
        history=QoSHistoryPolicy.KEEP_LAST,
        depth=depth,
        reliability=QoSReliabilityPolicy.RELIABLE if reliable else QoSReliabilityPolicy.BEST_EFFORT,
        durability=QoSDurabilityPolicy.TRANSIENT_LOCAL if latched else QoSDurabilityPolicy.VOLATILE,
    )


# Results and small values out, and in from this package's own nodes.
RESULTS = newest(5)
# Results that are taken a few times a second: the depth holds all of a fast camera between two times.
FRAMES = newest(100)
# Small values from other people's nodes: best effort matches every publisher.
ANY_SOURCE = newest(10, reliable=False)
# Images out of a player: reliable matches every subscriber, the depth rides out a slow start.
REPLAY = newest(10)
DIAGNOSTICS = newest(10)
# What late comers still need to know, such as class names.
LATCHED = newest(1, latched=True)

_SUBSCRIPTION_FIX = {
    'RELIABILITY': 'publish it reliably, or let this node subscribe with best effort',
    'DURABILITY': 'publish it transient local, or let this node subscribe volatile',
}
_PUBLISHER_FIX = {
    'RELIABILITY': 'let the subscriber ask for best effort, such as the sensor data profile',
    'DURABILITY': 'let the subscriber ask for volatile durability',
}


def subscription_events(
    node: Node,
    topic: str,
    *,
    on_lost: Callable[[int], None] | None = None,
) -> SubscriptionEventCallbacks:
    """Events of a subscription: a publisher that does not fit is logged with the fix.

    `on_lost` is called with the number of messages that the middleware has lost since the last call.
    """
    callbacks = SubscriptionEventCallbacks(
        incompatible_qos=_logs_misfit(
            node,
            topic,
            f'nothing will arrive on {topic} from a publisher whose quality of service',
            _SUBSCRIPTION_FIX,
        )
    )
    if on_lost is not None:
        callbacks.message_lost = lambda event: on_lost(event.total_count_change)
    return callbacks


def publisher_events(node: Node, topic: str) -> PublisherEventCallbacks:
    """Events of a publisher: a subscriber that does not fit is logged with the fix."""
    return PublisherEventCallbacks(
        incompatible_qos=_logs_misfit(
            node,
            topic,
            f'a subscriber of {topic} will get nothing, its quality of service',
            _PUBLISHER_FIX,
        )
    )


def _logs_misfit(
    node: Node,
    topic: str,
    problem: str,
    fixes: Mapping[str, str],
) -> Callable[[Any], None]:
    def on_incompatible(event: Any) -> None:
        name = qos_policy_name_from_kind(event.last_policy_kind)
        node.get_logger().error(
            f'{problem} does not fit: {name}; {fixes.get(name, "make both sides agree")} '
            f'(ros2 topic info -v {topic})'
        )

    return on_incompatible


def numbered(callback: Callable[..., None]) -> Callable[..., None]:
    """A callback of a subscription, which is given a message, and what the middleware tells of it."""
    if hasattr(Subscription, 'CallbackType'):
        return callback
    return lambda message: callback(message, {})  # Humble's rclpy tells nothing


def open_output(
    node: Node,
    kind: type,
    topic: str,
    quality: QoSProfile = RESULTS,
) -> Publisher:
    """A publisher with these events."""
    return node.create_publisher(
        kind, topic, quality, event_callbacks=publisher_events(node, topic)
    )
