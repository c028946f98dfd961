"""Published latencies of frames beside what a process outside stamps: an observer, and how both are compared.

The node publishes the time from the stamp of the image to the return of the call that published its detections. Outside,
the same message has two times: when the observer's middleware got it (`received`), and when the observer's callback began
(`callback`).
"""

from __future__ import annotations

import gc
import os
import threading
import time
from multiprocessing.connection import Connection

import numpy as np
import rclpy
from deadline_perception.msg import FrameLatency
from rclpy.executors import ExternalShutdownException
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message
from std_msgs.msg import Header
from vision_msgs.msg import Detection2DArray

from deadline_perception.core.process_memory import lock_pages
from deadline_perception.nodes.messages import stamp_to_ns
from deadline_perception.system.priority import Role
from parts.harness import quantiles
from parts.replay_scores import after_late, longest_run, share

PRIORITY = Role.WATCHDOG.value + 1
DEPTH = 1000  # messages that wait, so that a late observer loses none
# What an observer noted of a message of detections: stamp of the image, and times of the system clock.
HEARD = np.dtype([('stamp_ns', 'i8'), ('callback_ns', 'i8'), ('received_ns', 'i8')])
# Of a latency message: published latency, NaN where the age of the image is unknown; a bound was to fit; a result of this
# image was published in time.
HEARD_LATENCY = np.dtype(
    [('stamp_ns', 'i8'), ('total_ms', 'f8'), ('promised', '?'), ('in_time', '?')]
)


def raise_priority() -> str:
    """Real-time priority for this thread and those that it starts, and locked memory; returns what came of it."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except PermissionError:
        return 'refused'
    return f'SCHED_FIFO {PRIORITY}, {lock_pages() or "memory locked"}'


def observe(asked: Connection, namespace: str) -> None:
    """An observer of a detector, in a process of `served_process`; says `ready`, and sent a number, `heard` once so many
    further latencies have come. Sent 0 it notes the priority that was granted, and messages as `HEARD` and `HEARD_LATENCY`.

    It stamps each message as its callback begins, and takes messages unread: what Python needs to unpack them is no
    delay of the detector's. It and its middleware run before all other programs, the detector's own threads as well,
    which they interrupt for some 0.1 ms a message: else it would mostly wait for the detector's next frame to leave a
    core. Its memory is locked, so that it waits for no disk.
    """
    priority = raise_priority()
    rclpy.init()
    node = rclpy.create_node('outside', namespace=namespace)
    found: list[tuple[bytes, int, dict]] = []
    told: list[bytes] = []
    awaited = 0

    def on_detections(message: bytes, info: dict) -> None:
        found.append((message, time.time_ns(), info))

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
        # every message with a header begins with it
        (_stamp_ns(deserialize_message(message, Header)), called_ns, info['received_timestamp'])
        for message, called_ns, info in found
    ]
    latencies = []
    for said in (deserialize_message(message, FrameLatency) for message in told):
        is_in_time = said.deadline_met and said.evidence_age_ms == 0.0
        latencies.append((_stamp_ns(said.header), said.total_ms, said.feasible, is_in_time))
    asked.send((priority, np.array(detections, HEARD), np.array(latencies, HEARD_LATENCY)))


def _stamp_ns(header: Header) -> int:
    return stamp_to_ns(header.stamp)


def differences(detections: np.ndarray, latencies: np.ndarray) -> dict:
    """How many frames `HEARD` and `HEARD_LATENCY` share by the stamp of the image, the first of each stamp, where the age
    of the image is known; their published latency, and observed less published: signed median, and of the distances the
    99th percentile and the longest, ms."""
    stamps_ns, found, told = np.intersect1d(
        detections['stamp_ns'], latencies['stamp_ns'], return_indices=True
    )
    published_ms = latencies['total_ms'][told]
    is_known = np.isfinite(published_ms)
    rows: dict = {
        'frames': int(is_known.sum()),
        'published': quantiles(published_ms[is_known], 'p50', 'p99'),
    }
    for moment in ('callback', 'received'):
        late_ms = (detections[f'{moment}_ns'][found] - stamps_ns) / 1e6 - published_ms
        distances = quantiles(np.abs(late_ms[is_known]), 'p99', 'max')
        rows[moment] = quantiles(late_ms[is_known], 'p50') | {
            f'{name}_distance': value for name, value in distances.items()
        }
    return rows


def within(messages: np.ndarray, begin_ns: int, end_ns: int) -> np.ndarray:
    """Messages about images that were stamped in [begin_ns, end_ns)."""
    stamps_ns = messages['stamp_ns']
    return messages[(begin_ns <= stamps_ns) & (stamps_ns < end_ns)]


def promises(latencies: np.ndarray) -> dict[str, float | int | None]:
    """What became of the frames that were promised, in their order, as the detector says."""
    promised = latencies['promised']
    late = promised & ~latencies['in_time']
    return {
        'promised': int(promised.sum()),
        'late_of_promised': share(late, promised),
        'late_after_late': after_late(late),
        'longest_run_late': longest_run(late),
    }
