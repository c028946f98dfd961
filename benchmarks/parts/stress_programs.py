"""Programs that stress one part of the machine, or all of them, and end with what started them whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rclpy.node import Node

from deadline_perception.extras.contention.load import ContentionLoad
from parts.beside_programs import beside_programs

UNITS = {'processor': 'core', 'memory': 'memory'}
STRESSES = (*UNITS, 'disk', 'network')
EACH, EACH_OF_ALL = 2, 1  # programs of one stress: a core each where it is alone

# Writes 256 MiB through to the disk and reads them from there, over and over; nobody else sees the file.
DISK = """
import os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.unlink(sys.argv[1])
block = os.urandom(1 << 22)
while True:
    for place in range(64):
        os.pwrite(file, block, place << 22)
        os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    for place in range(64):
        os.pread(file, 1 << 22, place << 22)
"""

# Sends itself the largest datagrams over the loopback interface.
DATAGRAMS = """
import socket
end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end.bind(('127.0.0.1', 0))
payload = bytes(65000)
while True:
    end.sendto(payload, end.getsockname())
    end.recv(1 << 16)
"""

# Messages of 64 KiB as fast as they go through the middleware, on a topic beside the detector's.
TOPIC = """
import array, contextlib, sys
import rclpy
from rclpy.exceptions import InvalidHandle
from rclpy.executors import ExternalShutdownException
from rclpy.qos import qos_profile_sensor_data
from std_msgs.msg import UInt8MultiArray
rclpy.init()
node = rclpy.create_node('flood_' + sys.argv[1])
with contextlib.suppress(KeyboardInterrupt, ExternalShutdownException, InvalidHandle, RuntimeError):
    if sys.argv[1] == 'in':
        node.create_subscription(UInt8MultiArray, 'flood', lambda message: None, qos_profile_sensor_data)
        rclpy.spin(node)
    publisher = node.create_publisher(UInt8MultiArray, 'flood', qos_profile_sensor_data)
    message = UInt8MultiArray(data=array.array('B', bytes(1 << 16)))
    while rclpy.ok():
        publisher.publish(message)
"""


@contextmanager
def stress(kinds: tuple[str, ...], folder: Path) -> Iterator[None]:
    """Meanwhile programs stress these parts of the machine; `folder` lies on the disk."""
    each = EACH if len(kinds) == 1 else EACH_OF_ALL
    units = {UNITS[kind]: each for kind in kinds if kind in UNITS}
    with ExitStack() as programs:
        if units:
            programs.enter_context(ContentionLoad(units, share=1.0, at_work=True))
        if 'disk' in kinds:
            files = [[str(folder / f'disk_{number}')] for number in range(each)]
            programs.enter_context(beside_programs(DISK, files))
        if 'network' in kinds:
            programs.enter_context(beside_programs(DATAGRAMS, [[]] * each))
            programs.enter_context(beside_programs(TOPIC, [['in'], ['out']], asks=True))
        yield


def topic_is_flooded(node: Node) -> bool:
    """Both programs of the topic are there, as a node of this domain sees it."""
    return bool(node.count_publishers('/flood') and node.count_subscribers('/flood'))
