"""Programs that run beside a detector while it is observed, each in a process of `served_process`.

Each says `ready`, and ends when it is sent nothing; those that note something send it then.
"""

from __future__ import annotations

import gc
import itertools
import os
import threading
import time
from array import array
from multiprocessing.connection import Connection

import numpy as np
import rclpy
from deadline_perception.msg import FrameLatency
from rclpy.executors import ExternalShutdownException
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import Image
from std_msgs.msg import Header
from vision_msgs.msg import Detection2DArray

from deadline_perception.core.process_memory import lock_pages
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.nodes.messages import stamp_to_ns
from deadline_perception.nodes.service_quality import REPLAY
from deadline_perception.system.priority import Role
from parts.observed_latency import HEARD, HEARD_LATENCY

PRIORITY = Role.WATCHDOG.value + 1
DEPTH = 1000  # messages that wait, so that a late observer loses none
TIMER_NS = 5_000_000


def raise_priority() -> str:
    """Real-time priority for this thread and those that it starts, and locked memory; returns what came of it."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except PermissionError:
        return 'refused'
    refusal = lock_pages()
    return f'SCHED_FIFO {PRIORITY}, {refusal or "memory locked"}'


def send_images(asked: Connection, namespace: str, rate_hz: float) -> None:
    """A camera's driver: images are due at absolute times, and bear the time just before they are published."""
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
    asked.send('ready')
    due_s = time.monotonic()
    for message in itertools.cycle(messages):
        if asked.poll(max(0.0, due_s - time.monotonic())):
            break
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(time.time_ns(), 10**9)
        publisher.publish(message)
        due_s += 1.0 / rate_hz
    rclpy.shutdown()


def wake_up(asked: Connection) -> None:
    """How late a thread of real-time priority wakes that does nothing else, and ranks above the detector's own threads:
    so it is late by the machine alone. Notes when each wake-up was due, ns of the system clock, and how late it was, ns.
    """
    raise_priority()
    asked.send('ready')
    found: list[tuple[int, int]] = []
    due_ns = time.time_ns() + TIMER_NS
    while not asked.poll(max(0, due_ns - time.time_ns()) / 1e9):
        late_ns = time.time_ns() - due_ns
        found.append((due_ns, late_ns))
        due_ns += TIMER_NS * (1 + late_ns // TIMER_NS)
    asked.send(found)


def observe(asked: Connection, namespace: str, kind: str) -> None:
    """An observer of a detector; sent a number it says `heard` once so many further latencies have come. Notes the priority
    that was granted, and messages as `HEARD` and `HEARD_LATENCY`.

    It stamps each message as its callback begins, and takes messages unread: what Python needs to unpack them is no
    delay of the detector's. The kind `raised`: it and its middleware run before all other programs, the detector's own
    threads as well, which they interrupt for some 0.1 ms a message: else it would mostly wait for the detector's next
    frame to leave a core. Its memory is locked, so that it waits for no disk.
    """
    priority = raise_priority() if kind == 'raised' else 'usual'
    rclpy.init()
    node = rclpy.create_node(f'observer_{kind}', namespace=namespace)
    found: list[tuple[Header, int, dict]] = []
    told: list[bytes] = []
    awaited = 0

    def on_detections(message: bytes, info: dict) -> None:
        at_ns = time.time_ns()
        header = deserialize_message(message, Header)  # every message with one begins with it
        found.append((header, at_ns, info))

    def on_latency(message: bytes) -> None:
        told.append(message)
        if len(told) == awaited:
            asked.send('heard')

    def obey() -> None:
        nonlocal awaited
        while count := asked.recv():
            awaited = len(told) + count
        rclpy.try_shutdown()

    subscriptions = [
        node.create_subscription(of, topic, callback, QoSProfile(depth=DEPTH), raw=True)
        for of, topic, callback in (
            (Detection2DArray, 'detector/detections', on_detections),
            (FrameLatency, 'detector/latency', on_latency),
        )
    ]
    while not all(subscription.get_publisher_count() for subscription in subscriptions):
        time.sleep(0.05)
    asked.send('ready')
    threading.Thread(target=obey, daemon=True).start()
    gc.disable()  # it would search ever longer notes
    try:
        rclpy.spin(node)
    except ExternalShutdownException:
        pass
    detections = [
        (stamp_to_ns(header.stamp), called_ns, info['received_timestamp'])
        for header, called_ns, info in found
    ]
    latencies = []
    for said in (deserialize_message(message, FrameLatency) for message in told):
        is_in_time = said.deadline_met and said.evidence_age_ms == 0.0
        stamp_ns = stamp_to_ns(said.header.stamp)
        latencies.append((stamp_ns, said.total_ms, said.feasible, is_in_time))
    asked.send((priority, np.array(detections, HEARD), np.array(latencies, HEARD_LATENCY)))
