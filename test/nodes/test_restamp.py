import pytest
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.serialization import deserialize_message, serialize_message
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import CameraInfo
from stamped_messages import header
from std_msgs.msg import Header

from deadline_perception.core.detections import Detections
from deadline_perception.extras.data.bag_file import BagError
from deadline_perception.extras.data.message_definitions import message_types
from deadline_perception.nodes.messages import DetectionsMessage, ns_to_stamp, stamp_to_ns
from deadline_perception.nodes.restamp import Restamper

INFO, ARRAY = 'sensor_msgs/msg/CameraInfo', 'vision_msgs/msg/Detection2DArray'


@pytest.fixture
def restamper():
    return Restamper(message_types())


def test_headers_within_a_message_move_too(restamper):
    found = Detections([(0, 0, 2, 2), (3, 3, 4, 5)], [0.5, 0.25], [0, 0])
    sent = DetectionsMessage(('vehicle',)).fill(found, header(7_000))
    raw = restamper.restamp(serialize_message(sent), ARRAY, 123)
    moved = deserialize_message(raw, type(sent))
    stamps_ns = [stamp_to_ns(part.header.stamp) for part in (moved, *moved.detections)]
    assert stamps_ns == [123] * 3
    assert [d.bbox for d in moved.detections] == [d.bbox for d in sent.detections]
    assert moved.detections[1].results == sent.detections[1].results


def test_a_zero_stamp_and_a_message_without_header_are_left_alone(restamper):
    none = DetectionsMessage(()).fill(Detections.none(), Header())
    for message, msgtype in ((CameraInfo(), INFO), (none, ARRAY)):
        assert restamper.restamp(serialize_message(message), msgtype, 123)[4:12] == bytes(8)
    raw = serialize_message(Clock(clock=ns_to_stamp(5)))
    assert restamper.restamp(raw, 'rosgraph_msgs/msg/Clock', 9) == raw
    diagnostics = serialize_message(DiagnosticArray(header=header(4)))
    moved = deserialize_message(
        restamper.restamp(diagnostics, 'diagnostic_msgs/msg/DiagnosticArray', 9), DiagnosticArray
    )
    assert stamp_to_ns(moved.header.stamp) == 9


@pytest.mark.parametrize('msgtype', [INFO, ARRAY])
@pytest.mark.parametrize('raw', [b'', b'\0\1\0\0', b'\0\1\0\0\1\0\0\0\2\0'])
def test_a_message_that_ends_within_its_stamp_is_called_damaged(restamper, msgtype, raw):
    with pytest.raises(BagError, match=f'damaged {msgtype} of {len(raw)} bytes'):
        restamper.restamp(raw, msgtype, 9)
