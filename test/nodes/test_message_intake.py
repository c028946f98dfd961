"""Which messages pass, each value at its limits and beyond; through real DDS one way in for every node."""

import math
from pathlib import Path

import pytest
from deadline_perception.msg import ContentionState, FrameLatency, TimeBudget
from hand_clock import Clock
from rclpy.serialization import serialize_message
from stamped_messages import odometry, twist
from vision_msgs.msg import Detection2D, Detection2DArray, ObjectHypothesisWithPose

from deadline_perception.nodes import message_intake
from deadline_perception.nodes.message_intake import (
    MOST_DETECTIONS,
    RANGES,
    MessageIntake,
    problem_with,
)
from deadline_perception.nodes.service_quality import RESULTS
from deadline_perception.runtime.status import TOLD_MS


def detections(score=0.5, x=10.0, size=5.0, count=1, hypotheses=1):
    result = ObjectHypothesisWithPose()
    result.hypothesis.class_id, result.hypothesis.score = 'a', score
    one = Detection2D(results=[result] * hypotheses)
    one.bbox.center.position.x, one.bbox.size_x = x, size
    return Detection2DArray(detections=[one] * count)


@pytest.mark.parametrize(
    ('topic', 'message', 'words'),
    [
        *(
            ('contention_monitor/state', ContentionState(slowdown=value), f'is {value:g}, expected')
            for value in (0.0, 100.5, 1e300, -math.inf, math.nan)
        ),
        *(
            ('time_budget/budget', TimeBudget(budget_ms=value), f'is {value:g}, expected [0.001')
            for value in (0.0, 60_001.0, math.nan)
        ),
        ('time_budget/budget', TimeBudget(budget_ms=1.0, reason='\x1b[2J'), 'expected printable'),
        ('time_budget/budget', TimeBudget(budget_ms=1.0, reason='a' * 1001), 'in reason is 1001'),
        ('vehicle_speed/speed', twist(1e9), 'expected [-1000, 1000] m/s'),
        ('odom', odometry(math.nan), 'is nan'),
        ('vehicle/speed', twist(math.nan), 'twist.linear.x is nan'),
        ('detector/late', FrameLatency(network_ms=math.inf), 'network_ms is inf'),
        ('detector/detections', detections(x=math.nan), 'center.position.x is nan'),
        ('detector/detections', detections(size=1e19), 'size_x is 1e+19, expected [0, 100000] px'),
        ('detector/detections', detections(score=math.nan), 'score is nan, expected [0, 1]'),
        ('detector/detections', detections(count=MOST_DETECTIONS + 1), 'in detections is 501'),
        ('detector/detections', detections(hypotheses=51), 'number in detections[].results is 51'),
    ],
)
def test_what_lies_outside_is_told_with_what_was_expected(topic, message, words):
    problem = problem_with(topic, message)
    assert words in problem and problem.isprintable()


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(message_intake, 'now_ms', clock)
    return clock


def test_a_refused_message_is_counted_told_and_not_used(observer, wait_for, namespace, clock):
    intake, heard = MessageIntake(observer.node), []
    intake.listen(ContentionState, 'contention_monitor/state', heard.append, RESULTS)
    speaker = observer.speaker(ContentionState, f'{namespace}/contention_monitor/state')
    for slowdown in (1e15, 2.0):
        speaker.publish(ContentionState(slowdown=slowdown))
    wait_for(lambda: heard, 'the legal message')
    assert [message.slowdown for message in heard] == [2.0] and intake.refused == 1
    assert intake.concern == (
        '1 messages not used, the last: contention_monitor/state: slowdown is 1e+15, expected '
        '[1, 100]'
    )
    clock.ms += TOLD_MS + 1.0
    assert intake.concern == ''


def test_a_flood_is_named_and_what_was_published_last_is_taken(
    observer, wait_for, namespace, clock
):
    intake, heard = MessageIntake(observer.node), []
    intake.listen(TimeBudget, 'time_budget/budget', heard.append, RESULTS)
    ((subscription, turns),) = intake._subscriptions.items()
    for _ in range(100):
        clock.ms += 0.5
        turns.take()
    assert not turns.can_execute(subscription)
    topic = f'{namespace}/time_budget/budget'
    assert intake.concern == f'{topic}: more than 1,000 messages a second'
    clock.ms += 1000.0
    assert turns.can_execute(subscription)
    speaker = observer.speaker(TimeBudget, topic)
    wait_for(lambda: speaker.publish(TimeBudget(budget_ms=7.0)) or heard, 'the last message')
    clock.ms += TOLD_MS + 1.0
    assert intake.concern == ''


def test_long_messages_are_refused_before_they_are_read(observer, monkeypatch):
    monkeypatch.setattr(message_intake, 'deserialize_message', None)
    for topic, message in (
        ('time_budget/budget', TimeBudget(reason='a' * 300_000)),
        ('detector/detections', detections(count=20_000)),
    ):
        raw, intake = serialize_message(message), MessageIntake(observer.node)
        assert intake.message_in(raw, type(message), topic) is None and intake.refused == 1
        assert f'{topic}: it has {len(raw):,} bytes, expected at most ' in intake.concern


def test_no_node_subscribes_past_the_one_way_in(repository):
    """But for those that carry messages on unread, and what asks whether nodes are ready."""
    past = {
        'bag_recorder.py': 'carries bytes',
        'image_input.py': 'to_bgr judges',
        'bag_readiness.py': 'reads no number',
        'camera_doctor.py': 'looks at a topic, and computes nothing from it',
        'message_intake.py': 'is the way in',
        'contention_monitor.py': 'takes messages itself, and asks `message_in`',
    }
    for file in sorted(Path(repository / 'deadline_perception' / 'nodes').glob('*.py')):
        assert ('.create_subscription(' in file.read_text()) == (file.name in past), file.name
    assert len(RANGES) == 9
