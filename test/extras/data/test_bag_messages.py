import numpy as np
import pytest
from plain_images import grey

from deadline_perception.extras.data.bag_messages import BagMessages, speed_of
from deadline_perception.extras.data.message_definitions import message_types
from deadline_perception.extras.data.records import GroundTruth


@pytest.fixture(scope='module')
def messages():
    return BagMessages(message_types())


def test_headers_carry_stamp_and_frame(messages):
    """The vehicle's motion in its own frame, what a camera sees in an optical one (REP 103 and 105)."""
    nothing = GroundTruth(np.zeros((0, 4)), np.zeros(0), np.zeros(0))
    camera = (
        messages.image(12_000_000_034, grey(2, 2)),
        messages.ground_truth(12_000_000_034, nothing, ()),
        messages.compressed_image(12_000_000_034, np.zeros(2, np.uint8)),
        messages.camera_info(12_000_000_034, 2, 2, None),
    )
    for message, frame in (
        (messages.speed(12_000_000_034, 2.0), 'base_link'),
        *((message, 'camera_optical_frame') for message in camera),
    ):
        stamp = message.header.stamp
        assert (stamp.sec, stamp.nanosec, message.header.frame_id) == (12, 34, frame)
    for stamp_ns in (-1, 2**31 * 10**9):
        with pytest.raises(ValueError, match=f'stamp is {stamp_ns} ns'):
            messages.speed(stamp_ns, 2.0)


def test_speed_is_horizontal_and_taken_from_either_message(messages):
    twist = messages.speed(0, -3.0)
    twist.twist.linear.y = 4.0
    assert speed_of(twist) == 5.0
    types = message_types().types
    covariant = types['geometry_msgs/msg/TwistWithCovariance'](
        twist=twist.twist, covariance=np.zeros(36)
    )
    odometry = types['nav_msgs/msg/Odometry'](
        header=twist.header, child_frame_id='', twist=covariant, pose=messages._no_pose()
    )
    assert speed_of(odometry) == 5.0
