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


def node_that_logs_to(errors):
    return SimpleNamespace(get_logger=lambda: SimpleNamespace(error=errors.append))


@pytest.mark.parametrize(
    ('offered', 'asked', 'hint'),
    [
        (BEST_EFFORT, RESULTS, 'RELIABILITY; publish it reliably, or let this node subscribe with'),
        (RESULTS, LATCHED, 'DURABILITY; publish it transient local, or let this node subscribe'),
    ],
)
def test_subscriber_learns_why_nothing_arrives_and_what_was_lost(
    observer, wait_for, offered, asked, hint
):
    errors, lost = [], []
    events = subscription_events(node_that_logs_to(errors), 'word', on_lost=lost.append)
    observer.node.create_subscription(String, 'word', lambda _: None, asked, event_callbacks=events)
    observer.node.create_publisher(String, 'word', offered)
    wait_for(lambda: errors, 'the event')
    assert hint in errors[0] and 'ros2 topic info -v word' in errors[0]
    events.message_lost(SimpleNamespace(total_count_change=3))
    assert lost == [3]


def test_publisher_learns_who_gets_nothing(observer, wait_for):
    errors = []
    events = publisher_events(node_that_logs_to(errors), 'word')
    observer.node.create_publisher(String, 'word', BEST_EFFORT, event_callbacks=events)
    observer.node.create_subscription(String, 'word', lambda _: None, RESULTS)
    wait_for(lambda: errors, 'the event')
    assert 'RELIABILITY; let the subscriber ask for best effort' in errors[0]
