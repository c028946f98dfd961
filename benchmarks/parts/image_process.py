"""A camera's driver: `python image_process.py NAMESPACE RATE_HZ`, until its input ends.

Images are due at absolute times, and bear the time just before they are published.
"""

from __future__ import annotations

import itertools
import select
import sys
import time
from array import array

import rclpy
from sensor_msgs.msg import Image

from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.nodes.service_quality import REPLAY


def main() -> None:
    namespace, rate_hz = sys.argv[1], float(sys.argv[2])
    rclpy.init()
    node = rclpy.create_node('camera', namespace=namespace)
    publisher = node.create_publisher(Image, 'image', REPLAY)
    images = [frame.load_bgr() for frame in render_drive(seconds=1.0, rate_hz=10.0).frames]
    messages = [
        Image(
            height=image.shape[0],
            width=image.shape[1],
            encoding='bgr8',
            step=3 * image.shape[1],
            data=array('B', image.tobytes()),
        )
        for image in images
    ]
    while not publisher.get_subscription_count():
        time.sleep(0.05)
    print('ready', flush=True)
    due_s = time.monotonic()
    for message in itertools.cycle(messages):
        if select.select([sys.stdin], [], [], max(0.0, due_s - time.monotonic()))[0]:
            break
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(time.time_ns(), 10**9)
        publisher.publish(message)
        due_s += 1.0 / rate_hz
    rclpy.shutdown()


if __name__ == '__main__':
    main()
