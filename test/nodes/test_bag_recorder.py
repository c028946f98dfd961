from __future__ import annotations

import signal

import pytest
from geometry_msgs.msg import TwistStamped
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import CameraInfo
from std_msgs.msg import String

from deadline_perception.msg import FrameLatency
from deadline_perception.nodes.bag_source import BagSource

BEST_EFFORT = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)


def recorded(file, topic):
    source = BagSource(file)
    read = [raw for _, _, _, raw in source.messages({topic})]
    source.close()
    return read


def twist(number):
    message = TwistStamped()
    message.twist.linear.x = float(number)
    return message


def first_recorded(observer, wait_for, topic, say):
    """Says something until the recorder has counted it."""
    def is_counted():
        say()
        return int(observer.status('bag_recorder')[2].get(f'messages {topic}', 0)) > 0

    wait_for(is_counted, f'a first message of {topic}')


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_every_message_is_in_the_bag_when_a_signal_ends_it(start_node, observer, wait_for, tmp_path, namespace, number):
    recorder = start_node('bag_recorder', {'output': tmp_path / 'run.mcap'})
    topic = f'{namespace}/detector/latency'
    publisher = observer.speaker(FrameLatency, topic, QoSProfile(depth=1000))
    first_recorded(observer, wait_for, topic, lambda: publisher.publish(FrameLatency(path='first')))
    for count in range(500):
        publisher.publish(FrameLatency(path=f'path {count}', total_ms=float(count)))
    assert recorder.end(number) == 0, recorder.output
    paths = [deserialize_message(raw, FrameLatency).path for raw in recorded(tmp_path / 'run.mcap', topic)]
    assert [path for path in paths if path != 'first'] == [f'path {count}' for count in range(500)]
    assert f'{topic} {len(paths)}' in recorder.output
    assert not list(tmp_path.glob('.*'))


def test_best_effort_publisher_is_heard_all_the_same(start_node, observer, wait_for, tmp_path):
    recorder = start_node('bag_recorder', {'output': tmp_path / 'run.mcap'})
    publisher = observer.node.create_publisher(CameraInfo, '/camera/camera_info', BEST_EFFORT)
    first_recorded(observer, wait_for, '/camera/camera_info', lambda: publisher.publish(CameraInfo(width=640)))
    assert recorder.end() == 0, recorder.output
    assert '/camera/camera_info is offered with best effort only' in recorder.output
    raw = recorded(tmp_path / 'run.mcap', '/camera/camera_info')[0]
    assert deserialize_message(raw, CameraInfo).width == 640


def test_named_topics_are_recorded_as_soon_as_their_type_is_known(start_node, observer, wait_for, tmp_path):
    topics = "['/word', '/speed:geometry_msgs/msg/TwistStamped', '/x:none_msgs/msg/None']"
    recorder = start_node('bag_recorder', {'output': tmp_path / 'run', 'topics': topics})
    speeds = observer.speaker(TwistStamped, '/speed')
    words = observer.node.create_publisher(String, '/word', 10)
    first_recorded(observer, wait_for, '/word', lambda: words.publish(String(data='hello')))
    first_recorded(observer, wait_for, '/speed', lambda: speeds.publish(twist(3)))
    wait_for(lambda: observer.status('bag_recorder')[0] == 1, 'a warning')
    assert 'none_msgs/msg/None is not installed' in observer.status('bag_recorder')[1]
    assert recorder.end() == 0, recorder.output
    assert deserialize_message(recorded(tmp_path / 'run', '/word')[0], String).data == 'hello'
    assert deserialize_message(recorded(tmp_path / 'run', '/speed')[0], TwistStamped) == twist(3)


def test_existing_file_is_not_overwritten(start_node, tmp_path):
    (tmp_path / 'run.mcap').write_text('precious')
    recorder = start_node('bag_recorder', {'output': tmp_path / 'run.mcap'})
    assert recorder.wait_ended() == 1
    assert 'run.mcap exists already, expected a new name' in recorder.output and 'Traceback' not in recorder.output
    assert (tmp_path / 'run.mcap').read_text() == 'precious'
