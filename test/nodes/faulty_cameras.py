"""Cameras with one fault each, as a process: `python faulty_cameras.py NAME ...` publishes each under its name."""

import math
import sys
import time

import rclpy
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image
from std_msgs.msg import String

PERIOD_S = 0.05
RELIABLE = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
BEST_EFFORT = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
LATCHED = QoSProfile(
    depth=10, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)


def image(stamp_s, encoding='bgr8', size=(48, 64), step=None):
    height, width = size
    step = 3 * width if step is None else step
    message = Image(height=height, width=width, encoding=encoding, step=step)
    message.header.stamp.sec = int(stamp_s)
    message.header.stamp.nanosec = int(stamp_s % 1.0 * 1e9)
    message.data = bytes(3 * height * width)
    return message


class Camera:
    """Publishes on a topic that has the name of its fault; a good one stamps by an even clock."""

    def __init__(self, node: Node, name: str) -> None:
        self.name, self.count, self.begun_s = name, 0, time.time()
        kind = String if name == 'message_type' else Image
        quality = BEST_EFFORT if name in ('reliability', 'shared_memory') else RELIABLE
        publishers = 2 if name == 'two_publishers' else 1
        self.publishers = [node.create_publisher(kind, name, quality) for _ in range(publishers)]
        if name in ('reliability', 'durability'):  # somebody who asks for more
            asks = RELIABLE if name == 'reliability' else LATCHED
            node.create_subscription(Image, name, lambda message: None, asks)
        if name != 'silent_camera':
            node.create_timer(PERIOD_S, self.publish)

    def publish(self) -> None:
        count, stamp_s = self.count, self.begun_s + self.count * PERIOD_S
        self.count += 1
        if self.name == 'dropped_images' and count % 3 == 2:
            return
        stamp_s = {
            'zero_stamps': 0.0,
            'constant_stamps': self.begun_s,
            'stamps_go_back': stamp_s - 0.4 * (count % 5 == 4),
            'old_stamps': stamp_s - 86_400.0,
            'future_stamps': stamp_s + 3.0,
            # Of requests that are not those of the captures.
            'jittering_stamps': stamp_s + 0.024 * math.sin(2.4 * count),
        }.get(self.name, stamp_s)
        for publisher in self.publishers:
            publisher.publish(self._message(stamp_s))

    def _message(self, stamp_s):
        if self.name == 'message_type':
            return String(data='no image')
        changes = {
            'encoding': {'encoding': 'h264'},
            'image_layout': {'step': 64},
            'shared_memory': {'size': (720, 1280)},
        }
        return image(stamp_s, **changes.get(self.name, {}))


if __name__ == '__main__':
    rclpy.init()
    driver = rclpy.create_node('driver')
    cameras = [Camera(driver, name) for name in sys.argv[1:]]
    print('ready', flush=True)
    rclpy.spin(driver)
