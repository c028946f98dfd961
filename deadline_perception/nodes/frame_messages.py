"""What is published about a frame: its result in the message of its type, and how it came about."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from std_msgs.msg import Header
from vision_msgs.msg import Classification as ClassificationMessage
from vision_msgs.msg import Detection2DArray, LabelInfo, ObjectHypothesis, VisionClass

from deadline_perception.core.detections import Classification, Detections
from deadline_perception.msg import FrameLatency, OperatorDecision, PathDecision, PhaseTime
from deadline_perception.nodes.messages import MOST_ROWS, DetectionsMessage, bounded
from deadline_perception.runtime.job import JobRecord

_ROOM_FOR_OBJECTS = 100


class ClassesMessage:
    """Scores of a whole image as ROS tools show them: the classes with a score above 0, most certain first."""

    def __init__(self, class_names: Sequence[str]) -> None:
        self._class_names = class_names

    def fill(self, found: Classification, header: Header) -> ClassificationMessage:
        """The message of some scores."""
        order = [
            label
            for label in np.argsort(-found.scores, kind='stable').tolist()
            if found.scores[label] > 0
        ]
        return ClassificationMessage(
            header=header,
            results=[
                ObjectHypothesis(
                    class_id=self._class_names[label], score=float(found.scores[label])
                )
                for label in order
            ],
        )


@dataclass(frozen=True)
class ResultKind:
    """How one type of result is published.

    `maker` is called with the class names, and gives an object whose `fill(result, header)` is the message.
    """

    topic: str
    message: type
    maker: Callable[[Sequence[str]], Any]


RESULT_KINDS = {
    Detections: ResultKind(
        '~/detections',
        Detection2DArray,
        lambda class_names: DetectionsMessage(class_names, _ROOM_FOR_OBJECTS),
    ),
    Classification: ResultKind('~/classification', ClassificationMessage, ClassesMessage),
}


def label_info(class_names: Sequence[str], stamp: Time) -> LabelInfo:
    """What the numbers of classes stand for."""
    message = LabelInfo(
        class_map=[
            VisionClass(class_id=number, class_name=name) for number, name in enumerate(class_names)
        ]
    )
    message.header.stamp = stamp
    return message


def operator_decisions(record: JobRecord) -> list[OperatorDecision]:
    """See `JobRecord.operators`."""
    return [
        OperatorDecision(
            **{
                name: bounded(value) if isinstance(value, str) else value
                for name, value in vars(row).items()
            }
        )
        for row in record.operators
    ]


def path_decision(
    record: JobRecord, *, policy: str, target_miss_probability: float
) -> PathDecision:
    """Which path a frame took, and why. A frame that never came to a plan has an empty path and NaN times."""
    conditions = record.conditions
    message = PathDecision(
        header=record.message.header,
        budget_ms=conditions.budget_ms,
        remaining_ms=record.remaining_ms,
        slowdown=conditions.slowdown,
        contention_source=bounded(conditions.contention_source),
        policy=bounded(policy),
        target_miss_probability=target_miss_probability,
        decision_us=record.decision_us,
        forecast_ms=record.planned_ms,
        bound_ms=math.nan,
        wcet_ms=record.wcet_ms,
        quality=math.nan,
        reason=bounded(record.explanation),
    )
    if record.plan is not None:
        message.planned_path = bounded(record.plan.path)
        message.path = bounded(record.path)
        message.feasible = bool(record.plan.feasible)
        message.quality = float(record.plan.quality)
        message.bound_ms = float(record.plan.bound_ms)
        message.operators = operator_decisions(record)[:MOST_ROWS]
    return message


def frame_latency(
    record: JobRecord,
    *,
    device: str,
    replaced_total: int,
    rejected_total: int,
    lost_total: int,
) -> FrameLatency:
    """Where the time of a frame went; the parts add up to `total_ms`."""
    return FrameLatency(
        header=record.message.header,
        outcome=int(record.outcome),
        path=bounded('' if record.plan is None else record.path),
        results=[bounded(name)[:100] for name in record.results][:16],
        budget_ms=record.conditions.budget_ms,
        age_ms=record.stamp.age_ms,
        queue_ms=record.queue_ms,
        convert_ms=record.convert_ms,
        decision_ms=record.decision_ms,
        phases=[
            PhaseTime(name=bounded(phase), ms=float(took_ms))
            for phase, took_ms in record.phase_ms.items()
        ][:MOST_ROWS],
        publish_ms=record.publish_ms,
        network_ms=float(record.network_ms),
        overhead_ms=record.overhead_ms,
        total_ms=record.total_ms,
        forecast_ms=record.planned_ms,
        idle_forecast_ms=float(record.forecast_ms),
        bound_ms=float(record.bound_ms),
        wcet_ms=float(record.wcet_ms),
        evidence_age_ms=float(record.evidence_age_ms),
        feasible=record.feasible,
        deadline_met=bool(record.deadline_met),
        replaced_frames=record.superseded,
        replaced_frames_total=replaced_total,
        rejected_frames_total=rejected_total,
        middleware_lost_total=lost_total,
        device=bounded(device),
        degraded=bool(record.reasons),
        reason=bounded('; '.join(record.reasons)),
    )
