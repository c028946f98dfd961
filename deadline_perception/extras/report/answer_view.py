"""An answer of the Python API as pictures and the live view take it."""

from __future__ import annotations

import numpy as np

from deadline_perception.core.images.annotate import annotate
from deadline_perception.extras.report.live_view import ViewedFrame
from deadline_perception.runtime.answer import Answer


def viewed(image_bgr: np.ndarray, answer: Answer, time_s: float) -> ViewedFrame:
    """The answer with its image, for `LiveView.show`."""
    detections = answer.objects
    return ViewedFrame(
        time_s=time_s,
        image_bgr=image_bgr,
        detections=detections,
        class_names=answer.class_names,
        ids=detections.ids.tolist() if (detections.ids > 0).any() else (),
        budget_ms=answer.budget_ms,
        bound_ms=answer.latency_ms - answer.network_ms + answer.bound_ms,
        latency_ms=answer.latency_ms,
        path=answer.path,
        outcome=answer.outcome.name.lower(),
        in_time=answer.in_time,
        operators=answer.record.operators,
        reason=answer.reason,
    )


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
