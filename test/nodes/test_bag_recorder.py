from __future__ import annotations

import signal
import time
from types import SimpleNamespace

import pytest
from deadline_perception.msg import FrameLatency
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import CameraInfo
from vision_msgs.msg import LabelInfo

from deadline_perception.extras.data.bag_file import BagFile
from deadline_perception.nodes.bag_recorder import BagRecorderNode
from deadline_perception.nodes.bag_writer import FLUSH_PERIOD_S
from deadline_perception.nodes.health import Level
from deadline_perception.nodes.service_quality import LATCHED

BEST_EFFORT = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)


def recorded(file, topic):
    bag = BagFile(file)
    read = [raw for *_, raw in bag.messages({topic})]
    bag.close()
    return read


def first_recorded(observer, wait_for, topic, say):
    """Says something until the recorder has counted it."""
    wait_for(
        lambda: say() or int(observer.status('bag_recorder')[2].get(f'messages {topic}', 0)) > 0,
        f'a first message of {topic}',
    )


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_every_message_is_in_the_bag_when_a_signal_ends_it(
    start_node, observer, wait_for, tmp_path, namespace, number
):
    recorder = start_node('bag_recorder', {'output': tmp_path / 'run.mcap'})
    topic = f'{namespace}/detector/latency'
    publisher = observer.speaker(FrameLatency, topic, QoSProfile(depth=1000))
    first_recorded(observer, wait_for, topic, lambda: publisher.publish(FrameLatency(path='first')))
    for count in range(500):
        publisher.publish(FrameLatency(path=f'path {count}', total_ms=float(count)))
    assert recorder.end(number) == 0, recorder.output
    paths = [
        deserialize_message(raw, FrameLatency).path
        for raw in recorded(tmp_path / 'run.mcap', topic)
    ]
    assert [path for path in paths if path != 'first'] == [f'path {count}' for count in range(500)]
    assert f'{topic} {len(paths)}' in recorder.output
    assert not list(tmp_path.glob('.*'))


def test_best_effort_publisher_is_heard_all_the_same(
    start_node, observer, wait_for, tmp_path, namespace
):
    topic = f'{namespace}/camera/camera_info'
    recorder = start_node('bag_recorder', {'output': tmp_path / 'run.mcap'})
    publisher = observer.node.create_publisher(CameraInfo, topic, BEST_EFFORT)
    first_recorded(observer, wait_for, topic, lambda: publisher.publish(CameraInfo(width=640)))
    assert recorder.end() == 0, recorder.output
    assert f'{topic} is offered with best effort only' in recorder.output
    raw = recorded(tmp_path / 'run.mcap', topic)[0]
    assert deserialize_message(raw, CameraInfo).width == 640


def test_latched_messages_from_before_are_recorded(
    start_node, observer, wait_for, tmp_path, namespace
):
    topic = f'{namespace}/detector/label_info'
    latched = observer.node.create_publisher(LabelInfo, topic, LATCHED)
    latched.publish(LabelInfo(threshold=0.5))
    recorder = start_node('bag_recorder', {'output': tmp_path / 'run.mcap'})
    first_recorded(observer, wait_for, topic, lambda: None)
    assert recorder.end() == 0, recorder.output
    assert (
        deserialize_message(recorded(tmp_path / 'run.mcap', topic)[0], LabelInfo).threshold == 0.5
    )


def test_a_killed_recorder_leaves_what_it_had_counted_a_second_before(
    start_node, observer, wait_for, tmp_path, namespace
):
    recorder = start_node('bag_recorder', {'output': tmp_path / 'run.mcap'})
    topic = f'{namespace}/detector/latency'
    publisher = observer.speaker(FrameLatency, topic, QoSProfile(depth=1000))
    for number in range(300):
        publisher.publish(FrameLatency(path=f'{number}'))
        time.sleep(0.01)
    first_recorded(observer, wait_for, topic, lambda: None)
    counted = int(observer.status('bag_recorder')[2][f'messages {topic}'])
    time.sleep(2 * FLUSH_PERIOD_S)
    recorder.end(signal.SIGKILL)
    raws = recorded(tmp_path / 'run.mcap', topic)
    assert [deserialize_message(raw, FrameLatency).path for raw in raws] == [
        str(n) for n in range(len(raws))
    ]
    assert len(raws) >= counted > 0
    assert 'run.mcap was cut off' in BagFile(tmp_path / 'run.mcap').ending


@pytest.mark.parametrize(
    ('dropped', 'failure', 'level', 'said'),
    [
        (0, '', Level.OK, 'recording to run.mcap'),
        (3, '', Level.WARN, '3 messages dropped: the disk takes less than comes'),
        (3, 'No space left', Level.ERROR, 'messages are not written: No space left'),
    ],
)
def test_diagnostics_say_what_is_dropped(dropped, failure, level, said):
    writer = SimpleNamespace(waiting=0, dropped=dropped, failure=failure, written={})
    node = SimpleNamespace(
        _writer=writer, _is_closed=False, _taken=9, _values={'output': 'run.mcap'}
    )
    report = BagRecorderNode._report(node)
    assert (report.level, report.message, report.values['dropped']) == (level, said, dropped)
