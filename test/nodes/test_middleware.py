from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from deadline_perception.nodes.middleware import VARIABLES, make_room_for_images

# Programs with a node of their own: a camera of 15 raw images of 640x480 px, and who counts those that arrive.
_NODE = """
import time
from deadline_perception.nodes.middleware import make_room_for_images
from deadline_perception.nodes.service_quality import subscription_events
make_room_for_images()
import rclpy
from rclpy.qos import QoSProfile, QoSReliabilityPolicy
from sensor_msgs.msg import Image
rclpy.init()
node = rclpy.create_node('end')
quality = QoSProfile(depth=5, reliability=QoSReliabilityPolicy.BEST_EFFORT)
until = time.monotonic() + 20.0
"""
_CAMERA = """
publisher = node.create_publisher(Image, 'pictures', quality)
while not publisher.get_subscription_count() and time.monotonic() < until:
    time.sleep(0.05)
time.sleep(1.0)
for number in range(15):
    publisher.publish(Image(data=bytes(921600)))
    time.sleep(0.2)
"""
_SUBSCRIBER = """
arrived, lost = [], []
events = subscription_events(node, 'pictures', on_lost=lost.append)
node.create_subscription(Image, 'pictures', arrived.append, quality, event_callbacks=events)
while time.monotonic() < until:
    before = len(arrived)
    rclpy.spin_once(node, timeout_sec=0.2)
    if len(arrived) > before:
        until = time.monotonic() + 3.0
print(len(arrived), sum(lost))
"""


def test_profile_gives_several_images_room_and_that_of_the_user_stays(monkeypatch, repository):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    make_room_for_images()
    files = {os.environ[name] for name in VARIABLES}
    assert files == {str(repository / 'config' / 'fastdds.xml')}
    tree = ElementTree.parse(files.pop())
    sizes = [part.text for part in tree.iter() if part.tag.endswith('segment_size')]
    assert [int(size) > 4 * 1280 * 720 * 3 for size in sizes] == [True]
    monkeypatch.delenv(VARIABLES[1])
    monkeypatch.setenv(VARIABLES[0], '/home/me/profile.xml')
    make_room_for_images()
    assert os.environ[VARIABLES[0]] == '/home/me/profile.xml' and VARIABLES[1] not in os.environ


@pytest.mark.slow
@pytest.mark.parametrize(('name', 'has_room'), [('path_visualizer', True), ('time_budget', False)])
def test_who_sends_images_takes_shared_memory(start_node, observer, name, has_room):
    """A container has 64 MB for all."""
    # as on a robot, where nothing is set
    settings = [word for variable in VARIABLES for word in ('-u', variable)]
    node = start_node(
        name, program=('env', *settings, sys.executable, '-m', 'deadline_perception.nodes', name)
    )
    observer.wait_status(name)
    process = Path(f'/proc/{node.process.pid}')
    locks = {str(file.readlink()) for file in process.joinpath('fd').iterdir()}
    sizes = []
    for line in process.joinpath('maps').read_text().splitlines():
        addresses, *_, file = line.split()
        if f'{file}_el' in locks:  # its own; it maps those of other processes too
            begin, end = (int(address, 16) for address in addresses.split('-'))
            sizes.append(end - begin)
    assert sizes and any(size >= 16 * 2**20 for size in sizes) == has_room


@pytest.mark.slow
def test_a_camera_with_the_profile_loses_no_image(repository):
    """A camera and a subscriber in processes of their own, and 15 images with best effort.

    They come slowly: a subscriber that a busy machine keeps from taking them for a second loses none for that.
    """
    subscriber, camera = (
        subprocess.Popen(
            [sys.executable, '-c', _NODE + part], cwd=repository, stdout=subprocess.PIPE, text=True
        )
        for part in (_SUBSCRIBER, _CAMERA)
    )
    assert subscriber.communicate(timeout=120)[0].split() == ['15', '0']
    assert camera.wait(timeout=60) == 0
