import signal
from contextlib import suppress
from types import SimpleNamespace

from deadline_perception.msg import FrameLatency
from rclpy.duration import Duration
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import CameraInfo
from vision_msgs.msg import LabelInfo

from deadline_perception.extras.data.bag_file import BagError, BagFile
from deadline_perception.nodes.bag_recorder import BagRecorderNode
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
    counted = f'messages {topic}'
    wait_for(lambda: say() or int(observer.status('bag_recorder')[2].get(counted, 0)) > 0)


def test_a_bag_holds_reliable_best_effort_and_latched_messages_when_a_signal_ends_it(
    start_node, observer, wait_for, tmp_path, namespace
):
    latched = observer.node.create_publisher(LabelInfo, f'{namespace}/detector/label_info', LATCHED)
    latched.publish(LabelInfo(threshold=0.5))
    recorder = start_node('bag_recorder', {'output': tmp_path / 'run.mcap'})
    topics = [f'{namespace}/{name}' for name in ('detector/latency', 'camera/camera_info')]
    publisher = observer.speaker(FrameLatency, topics[0], QoSProfile(depth=1000))
    loose = observer.node.create_publisher(CameraInfo, topics[1], BEST_EFFORT)
    first = FrameLatency(path='first')
    for topic, say in (
        (topics[1], lambda: loose.publish(CameraInfo(width=640))),
        (f'{namespace}/detector/label_info', lambda: None),
        (topics[0], lambda: publisher.publish(first)),
    ):
        first_recorded(observer, wait_for, topic, say)
    for count in range(500):
        publisher.publish(FrameLatency(path=f'path {count}', total_ms=float(count)))
    assert publisher.wait_for_all_acked(Duration(seconds=60))  # all lie in its reader
    assert recorder.end(signal.SIGTERM) == 0, recorder.output
    assert f'{topics[1]} is offered with best effort only' in recorder.output

    def kept(topic, kind):
        return [deserialize_message(raw, kind) for raw in recorded(tmp_path / 'run.mcap', topic)]

    paths = [message.path for message in kept(topics[0], FrameLatency)]
    assert [path for path in paths if path != 'first'] == [f'path {count}' for count in range(500)]
    assert f'{topics[0]} {len(paths)}' in recorder.output
    assert kept(topics[1], CameraInfo)[0].width == 640
    assert [info.threshold for info in kept(f'{namespace}/detector/label_info', LabelInfo)] == [0.5]
    assert not list(tmp_path.glob('.*'))


def flushed(file, topic):
    """Number of messages that lie in a file which is being written."""
    with suppress(BagError):  # nothing yet
        return len(recorded(file, topic))
    return 0


def test_a_killed_recorder_leaves_all_flushed(start_node, observer, wait_for, tmp_path, namespace):
    recorder = start_node('bag_recorder', {'output': tmp_path / 'run.mcap'})
    topic = f'{namespace}/detector/latency'
    publisher = observer.speaker(FrameLatency, topic, QoSProfile(depth=1000))
    for number in range(300):
        publisher.publish(FrameLatency(path=f'{number}'))
    first_recorded(observer, wait_for, topic, lambda: None)
    counted = int(observer.status('bag_recorder')[2][f'messages {topic}'])
    wait_for(lambda: flushed(tmp_path / 'run.mcap', topic) >= counted, 'the flush')
    recorder.end(signal.SIGKILL)
    raws = recorded(tmp_path / 'run.mcap', topic)
    assert [deserialize_message(raw, FrameLatency).path for raw in raws] == [
        str(n) for n in range(len(raws))
    ]
    assert len(raws) >= counted > 0
    assert 'run.mcap was cut off' in BagFile(tmp_path / 'run.mcap').ending


def test_diagnostics_say_what_is_dropped():
    for dropped, failure, level, said in (
        (0, '', Level.OK, 'recording to run.mcap'),
        (3, '', Level.WARN, '3 messages dropped: the disk takes less than comes'),
        (3, 'No space left', Level.ERROR, 'messages are not written: No space left'),
    ):
        writer = SimpleNamespace(waiting=0, dropped=dropped, failure=failure, written={})
        node = SimpleNamespace(_writer=writer, _is_closed=False, _taken=9)
        node._values = {'output': 'run.mcap'}
        report = BagRecorderNode._report(node)
        assert (report.level, report.message, report.values['dropped']) == (level, said, dropped)
