"""Which quality of service each kind of topic has, and the hint that is logged when two sides do not fit."""
from __future__ import annotations

from collections.abc import Callable

from rclpy.node import Node
from rclpy.qos import (QoSDurabilityPolicy, QoSHistoryPolicy, QoSProfile, QoSReliabilityPolicy,
                       qos_policy_name_from_kind)

try:
    from rclpy.event_handler import PublisherEventCallbacks, SubscriptionEventCallbacks
except ImportError:  # Humble
    from rclpy.qos_event import PublisherEventCallbacks, SubscriptionEventCallbacks


def _profile(reliability: QoSReliabilityPolicy, depth: int,
             durability: QoSDurabilityPolicy = QoSDurabilityPolicy.VOLATILE) -> QoSProfile:
    return QoSProfile(history=QoSHistoryPolicy.KEEP_LAST, depth=depth, reliability=reliability,
                      durability=durability)


# Results and small values out, and in from this package's own nodes.
RESULTS = _profile(QoSReliabilityPolicy.RELIABLE, 5)
# Results that are taken a few times a second: the depth holds all of a fast camera between two times.
FRAMES = _profile(QoSReliabilityPolicy.RELIABLE, 100)
# Small values from other people's nodes: best effort matches every publisher.
ANY_SOURCE = _profile(QoSReliabilityPolicy.BEST_EFFORT, 10)
# Images out of a player: reliable matches every subscriber, the depth rides out a slow start.
REPLAY = _profile(QoSReliabilityPolicy.RELIABLE, 10)
DIAGNOSTICS = _profile(QoSReliabilityPolicy.RELIABLE, 10)
# What late comers still need to know, such as class names.
LATCHED = _profile(QoSReliabilityPolicy.RELIABLE, 1, QoSDurabilityPolicy.TRANSIENT_LOCAL)

_SUBSCRIPTION_FIX = {
    'RELIABILITY': 'publish it reliably, or let this node subscribe with best effort',
    'DURABILITY': 'publish it transient local, or let this node subscribe volatile'}
_PUBLISHER_FIX = {
    'RELIABILITY': 'let the subscriber ask for best effort, such as the sensor data profile',
    'DURABILITY': 'let the subscriber ask for volatile durability'}


def subscription_events(node: Node, topic: str, *, on_lost: Callable[[int], None] | None = None,
                        ) -> SubscriptionEventCallbacks:
    """Events of a subscription: a publisher that does not fit is logged with the fix.

    Args:
        node: for its logger.
        topic: as the node calls it.
        on_lost: called with the number of messages that the middleware has lost since the last call.
    """
    def on_incompatible(event) -> None:
        name = qos_policy_name_from_kind(event.last_policy_kind)
        node.get_logger().error(
            f'nothing will arrive on {topic} from a publisher whose quality of service does not fit: {name}; '
            f'{_SUBSCRIPTION_FIX.get(name, "make both sides agree")} (ros2 topic info -v {topic})')

    callbacks = SubscriptionEventCallbacks(incompatible_qos=on_incompatible)
    if on_lost is not None:
        callbacks.message_lost = lambda event: on_lost(event.total_count_change)
    return callbacks


def publisher_events(node: Node, topic: str) -> PublisherEventCallbacks:
    """Events of a publisher: a subscriber that does not fit is logged with the fix."""
    def on_incompatible(event) -> None:
        name = qos_policy_name_from_kind(event.last_policy_kind)
        node.get_logger().error(
            f'a subscriber of {topic} will get nothing, its quality of service does not fit: {name}; '
            f'{_PUBLISHER_FIX.get(name, "make both sides agree")} (ros2 topic info -v {topic})')

    return PublisherEventCallbacks(incompatible_qos=on_incompatible)
