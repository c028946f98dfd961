"""What nodes say, noted with the time at which it was heard."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from deadline_perception.msg import FrameLatency
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.node import Node
from vision_msgs.msg import Detection2DArray

from deadline_perception.core.stopwatch import now_ms


@dataclass(frozen=True)
class HeardFrame:
    """What a latency message said, and when it was heard."""

    heard_ms: float
    number: int
    outcome: int
    met: bool
    replaced: int
    rejected: int
    lost: int


class NodeListener:
    """Subscribes to all that the nodes of a namespace say; its lists grow as long as the node is spun.

    Attributes:
        answers: image -> when its detections were heard first, ms.
        frames: latency messages.
        diagnostics: when, node, level, message.
        not_finite: when a box held a number that is none, ms.
    """

    def __init__(self, node: Node) -> None:
        self._namespace = node.get_namespace().strip('/')
        self.answers: dict[int, float] = {}
        self.frames: list[HeardFrame] = []
        self.diagnostics: list[tuple[float, str, int, str]] = []
        self.not_finite: list[float] = []
        for kind, topic, callback in (
            (Detection2DArray, 'detector/detections', self._on_detections),
            (FrameLatency, 'detector/latency', self._on_latency),
            (DiagnosticArray, '/diagnostics', self._on_status),
        ):
            node.create_subscription(kind, topic, callback, 200)

    def problems(self, since_ms: float = 0.0, level: int = 1) -> list[str]:
        """Messages of the diagnostics since then that were of this level or a higher one."""
        return [
            text for at_ms, _, of, text in self.diagnostics if at_ms >= since_ms and of >= level
        ]

    def _on_detections(self, message: Detection2DArray) -> None:
        at_ms = now_ms()
        self.answers.setdefault(_number(message), at_ms)
        for box in (found.bbox for found in message.detections):
            place = box.center.position
            if not all(map(math.isfinite, (place.x, place.y, box.size_x, box.size_y))):
                self.not_finite.append(at_ms)

    def _on_latency(self, message: FrameLatency) -> None:
        self.frames.append(
            HeardFrame(
                now_ms(),
                _number(message),
                message.outcome,
                message.deadline_met,
                message.replaced_frames_total,
                message.rejected_frames_total,
                message.middleware_lost_total,
            )
        )

    def _on_status(self, message: DiagnosticArray) -> None:
        for status in message.status:
            namespace, _, name = status.name.partition(': ')[0].rpartition('/')
            if namespace == self._namespace:
                self.diagnostics.append((now_ms(), name, status.level[0], status.message))


def _number(message: object) -> int:
    """Number of the image that a message answers; -1 for another camera's."""
    found = re.match(r'camera (\d+)', message.header.frame_id)
    return int(found[1]) if found else -1
