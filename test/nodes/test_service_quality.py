from __future__ import annotations

from types import SimpleNamespace

import pytest
from rclpy.qos import QoSProfile, QoSReliabilityPolicy
from std_msgs.msg import String

from deadline_perception.nodes.service_quality import (
    LATCHED,
    RESULTS,
    publisher_events,
    subscription_events,
)

BEST_EFFORT = QoSProfile(depth=1, reliability=QoSReliabilityPolicy.BEST_EFFORT)


class Logged:
    """Stands for a node; keeps what is logged."""

    def __init__(self):
        self.errors = []

    def get_logger(self):
        return self

    def error(self, line):
        self.errors.append(line)


@pytest.mark.parametrize(
    ('offered', 'asked', 'hint'),
    [
        (BEST_EFFORT, RESULTS, 'RELIABILITY; publish it reliably, or let this node subscribe with'),
        (RESULTS, LATCHED, 'DURABILITY; publish it transient local, or let this node subscribe'),
    ],
)
def test_subscriber_learns_why_nothing_arrives(observer, wait_for, namespace, offered, asked, hint):
    logged = Logged()
    observer.node.create_subscription(
        String, 'word', lambda _: None, asked, event_callbacks=subscription_events(logged, 'word')
    )
    observer.node.create_publisher(String, 'word', offered)
    wait_for(lambda: logged.errors, 'the event')
    assert hint in logged.errors[0] and 'ros2 topic info -v word' in logged.errors[0]


def test_publisher_learns_who_gets_nothing(observer, wait_for, namespace):
    logged = Logged()
    observer.node.create_publisher(
        String, 'word', BEST_EFFORT, event_callbacks=publisher_events(logged, 'word')
    )
    observer.node.create_subscription(String, 'word', lambda _: None, RESULTS)
    wait_for(lambda: logged.errors, 'the event')
    assert 'RELIABILITY; let the subscriber ask for best effort' in logged.errors[0]


def test_lost_messages_are_passed_on():
    lost = []
    events = subscription_events(Logged(), 'word', on_lost=lost.append)
    events.message_lost(SimpleNamespace(total_count_change=3))
    assert lost == [3]
