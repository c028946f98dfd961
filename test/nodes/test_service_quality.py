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


RELIABILITY = (
    'RELIABILITY; publish it reliably, or let this node subscribe with',
    'RELIABILITY; let the subscriber ask for best effort',
)
DURABILITY = (
    'DURABILITY; publish it transient local, or let this node subscribe',
    'DURABILITY; let the subscriber ask for volatile durability',
)


@pytest.mark.parametrize(
    ('offered', 'asked', 'hints'),
    [(BEST_EFFORT, RESULTS, RELIABILITY), (RESULTS, LATCHED, DURABILITY)],
)
def test_either_end_learns_why_nothing_arrives_and_a_subscriber_what_was_lost(
    observer, wait_for, offered, asked, hints
):
    errors, others, lost = [], [], []
    events = subscription_events(node_that_logs_to(errors), 'word', on_lost=lost.append)
    of_other = publisher_events(node_that_logs_to(others), 'word')
    observer.node.create_subscription(String, 'word', lambda _: None, asked, event_callbacks=events)
    observer.node.create_publisher(String, 'word', offered, event_callbacks=of_other)
    wait_for(lambda: errors and others, 'the events')
    assert hints[0] in errors[0] and 'ros2 topic info -v word' in errors[0]
    assert hints[1] in others[0]
    events.message_lost(SimpleNamespace(total_count_change=3))
    assert lost == [3]
