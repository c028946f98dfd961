"""What nodes say, noted with the time at which it was heard."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from deadline_perception.msg import ContentionState, FrameLatency, TimeBudget
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import TwistStamped
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

    Args:
        computed: names of the nodes that are listened to; what others say need not be finite.

    Attributes:
        answers: image -> when its detections were heard first, ms.
        frames: latency messages.
        diagnostics: when, node, level, message.
        budgets: when, ms, degraded.
        not_finite: when a topic held a number that is none.
    """

    def __init__(self, node: Node, computed: tuple[str, ...]) -> None:
        self._namespace, self._computed = node.get_namespace().strip('/'), computed
        self.answers: dict[int, float] = {}
        self.frames: list[HeardFrame] = []
        self.diagnostics: list[tuple[float, str, int, str]] = []
        self.budgets: list[tuple[float, float, bool]] = []
        self.not_finite: list[tuple[float, str]] = []
        if {'detector', 'bringup'} & set(computed):  # else they are the stand's own, at any length
            node.create_subscription(
                Detection2DArray, 'detector/detections', self._on_detections, 200
            )
        for kind, topic, callback in (
            (FrameLatency, 'detector/latency', self._on_latency),
            (DiagnosticArray, '/diagnostics', self._on_status),
            (TimeBudget, 'time_budget/budget', self._on_budget),
            (TwistStamped, 'vehicle_speed/speed', self._on_speed),
            (ContentionState, 'contention_monitor/state', self._on_state),
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
        if 'detector' in self._computed:
            for box in (found.bbox for found in message.detections):
                place = box.center.position
                self._check_finite('detections', [place.x, place.y, box.size_x, box.size_y])

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

    def _on_budget(self, message: TimeBudget) -> None:
        self.budgets.append((now_ms(), message.budget_ms, message.degraded))
        if 'time_budget' in self._computed:
            self._check_finite('budget', [message.budget_ms, message.min_budget_ms])

    def _on_speed(self, message: TwistStamped) -> None:
        if math.isinf(message.twist.linear.x):
            self._check_finite('speed', [message.twist.linear.x])

    def _on_state(self, message: ContentionState) -> None:
        if 'contention_monitor' in self._computed:
            self._check_finite('slowdown', [message.slowdown])

    def _check_finite(self, topic: str, numbers: list[float]) -> None:
        if not all(map(math.isfinite, numbers)):
            self.not_finite.append((now_ms(), topic))


def _number(message: object) -> int:
    """Number of the image that a message answers; -1 for another camera's."""
    found = re.match(r'camera (\d+)', message.header.frame_id)
    return int(found[1]) if found else -1
