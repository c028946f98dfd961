"""An answer of the Python API as pictures and the live view take it."""

from __future__ import annotations

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.execution_path import setting_text
from deadline_perception.core.images.annotate import annotate
from deadline_perception.core.records import OperatorRecord
from deadline_perception.extras.report.live_view import ViewedFrame
from deadline_perception.runtime.answer import Answer
from deadline_perception.runtime.job import JobRecord


def operator_records(record: JobRecord) -> list[OperatorRecord]:
    """What every operator that the path comes to was set to, in the order of execution; empty without a path."""
    if record.path is None:
        return []
    space = record.path.space
    decided = {decision.operator: decision for decision in record.decisions}
    rows = []
    for number, segment in enumerate(space.segments):
        if segment.operator is None or not space.applies(number, record.path):
            continue
        operator, decision = space.operator(segment.operator), decided.get(segment.operator)
        level = record.path.settings[space.place[operator.name]]
        rows.append(
            OperatorRecord(
                name=operator.name,
                kind=operator.kind,
                setting=setting_text(operator.settings[level]),
                level=level,
                levels=len(operator.settings),
                decided=decision is not None,
                changed=decision is not None and decision.changed,
                bound_ms=np.nan if decision is None else decision.bound_ms,
                decision_us=np.nan if decision is None else decision.decision_us,
            )
        )
    return rows


def shown_detections(answer: Answer, min_score: float) -> Detections:
    """Its objects from a score on; none of a network that finds none."""
    if not isinstance(answer.result, Detections):
        return Detections.none()
    return answer.result.with_score(min_score)


def viewed(image_bgr: np.ndarray, answer: Answer, time_s: float, min_score: float) -> ViewedFrame:
    """The answer with its image, for `LiveView.show`."""
    return ViewedFrame(
        time_s=time_s,
        image_bgr=image_bgr,
        detections=shown_detections(answer, min_score),
        class_names=answer.class_names,
        ids=(),
        budget_ms=answer.budget_ms,
        bound_ms=answer.latency_ms - answer.network_ms + answer.bound_ms,
        latency_ms=answer.latency_ms,
        path=answer.path,
        outcome=answer.outcome.name.lower(),
        in_time=answer.in_time,
        operators=operator_records(answer.record),
        reason=answer.reason,
    )


def draw_answer(image_bgr: np.ndarray, answer: Answer, min_score: float = 0.3) -> np.ndarray:
    """The image with the objects from a score on, and below it a strip with time and path; see `drawn`."""
    return drawn(viewed(image_bgr, answer, 0.0, min_score))


def drawn(frame: ViewedFrame) -> np.ndarray:
    """The image with boxes, and below it a strip with time and path; uint8 `[H + strip, W, 3]` BGR."""
    return annotate(
        frame.image_bgr,
        frame.detections,
        frame.class_names,
        budget_ms=frame.budget_ms,
        bound_ms=frame.bound_ms,
        latency_ms=frame.latency_ms,
        path=frame.path,
        operators=frame.operators,
        outcome=frame.outcome,
        met=frame.in_time,
    )
