"""Messages that tests of several nodes send."""

from geometry_msgs.msg import TwistStamped
from nav_msgs.msg import Odometry
from std_msgs.msg import Header

from deadline_perception.nodes.messages import ns_to_stamp


def header(stamp_ns=1_700_000_000_123_456_789):
    return Header(stamp=ns_to_stamp(stamp_ns), frame_id='camera')


def twist(speed_mps):
    message = TwistStamped()
    message.twist.linear.x = float(speed_mps)
    return message


def odometry(speed_mps):
    message = Odometry()
    message.twist.twist.linear.x = float(speed_mps)
    return message
