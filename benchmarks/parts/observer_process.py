"""An observer of a detector: `python observer_process.py NAMESPACE usual|raised`, until its input ends; then a JSON line.

A number in is answered by `heard` once so many further latencies have come.

It stamps each message as its callback begins, and takes messages unread: what Python needs to unpack them is no delay
of the detector's. `raised`: it and its middleware run before all other programs, the detector's own threads as well,
which they interrupt for some 0.1 ms a message: else it would mostly wait for the detector's next frame to leave a core.
Its memory is locked, so that it waits for no disk.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time

import rclpy
from deadline_perception.msg import FrameLatency
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message
from std_msgs.msg import Header
from vision_msgs.msg import Detection2DArray

from deadline_perception.core.process_memory import lock_pages
from deadline_perception.nodes.messages import stamp_to_ns
from deadline_perception.system.priority import Role

PRIORITY = Role.WATCHDOG.value + 1
DEPTH = 1000  # messages that wait, so that a late observer loses none


def raise_priority() -> str:
    """Real-time priority for this thread and those that it starts, and locked memory; returns what came of it."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    except PermissionError:
        return 'refused'
    refusal = lock_pages()
    return f'SCHED_FIFO {PRIORITY}, {refusal or "memory locked"}'


class Observer:
    """Notes what a detector in the node's namespace publishes."""

    def __init__(self, node: Node) -> None:
        self._found: list[tuple] = []
        self._told: list[tuple] = []
        self._awaited = 0
        self._subscriptions = [
            node.create_subscription(kind, topic, callback, QoSProfile(depth=DEPTH), raw=True)
            for kind, topic, callback in (
                (Detection2DArray, 'detector/detections', self._on_detections),
                (FrameLatency, 'detector/latency', self._on_latency),
            )
        ]

    def _on_detections(self, message: bytes, info: dict) -> None:
        at_ns = time.time_ns()
        header = deserialize_message(message, Header)  # every message with one begins with it
        self._found.append((header, at_ns, info))

    def _on_latency(self, message: bytes, info: dict) -> None:
        self._told.append((message, time.time_ns(), info))
        if len(self._told) == self._awaited:
            print('heard', flush=True)

    def await_further(self, count: int) -> None:
        """Has it say so once so many further latencies have come; from any thread."""
        self._awaited = len(self._told) + count

    @property
    def is_connected(self) -> bool:
        """Both topics have a publisher."""
        return all(subscription.get_publisher_count() for subscription in self._subscriptions)

    def notes(self) -> dict[str, list[tuple]]:
        """All that it has heard, as `Heard` and `HeardLatency` of `observed_latency.py` have it."""
        latencies = [
            (deserialize_message(message, FrameLatency), at_ns, info)
            for message, at_ns, info in self._told
        ]
        return {
            'detections': [times(*heard) for heard in self._found],
            'latencies': [
                (
                    *times(said.header, *rest),
                    *(said.total_ms, said.feasible),
                    said.deadline_met and said.evidence_age_ms == 0.0,
                )
                for said, *rest in latencies
            ],
        }


def times(header: Header, called_ns: int, info: dict) -> tuple[int, int, int]:
    """Of a message: stamp of the image, callback and receipt."""
    return stamp_to_ns(header.stamp), called_ns, info['received_timestamp']


def main() -> None:
    namespace, kind = sys.argv[1:]
    priority = raise_priority() if kind == 'raised' else 'usual'
    rclpy.init()
    node = rclpy.create_node(f'observer_{kind}', namespace=namespace)
    observer = Observer(node)
    while not observer.is_connected:
        time.sleep(0.05)
    print('ready', flush=True)

    def obey_input() -> None:
        for line in sys.stdin:
            observer.await_further(int(line))
        rclpy.try_shutdown()

    threading.Thread(target=obey_input, daemon=True).start()
    gc.disable()  # it would search ever longer notes
    try:
        rclpy.spin(node)
    except ExternalShutdownException:
        pass
    print(json.dumps({'priority': priority, **observer.notes()}))


if __name__ == '__main__':
    main()
