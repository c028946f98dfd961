"""Non-maximum suppression for heads that give an object several boxes."""

from __future__ import annotations

import numpy as np

from deadline_perception.core.opencv import cv2
from deadline_perception.extras.external_models.exported.head import MIN_SCORE, Objects

MAX_IOU = 0.6  # between objects of one class
MAX_OBJECTS = 300


def suppress(found: Objects) -> Objects:
    """Of boxes of one class that overlap by more than `MAX_IOU`, the most certain; at most `MAX_OBJECTS`."""
    if not len(found.boxes):
        return found
    # OpenCV keeps classes apart by moving each beyond the largest coordinate, which takes coordinates from 0 on.
    corners = found.boxes.astype(np.float64) - min(0.0, float(found.boxes.min()))
    left_top_size = np.hstack([corners[:, :2], corners[:, 2:] - corners[:, :2]])
    kept = cv2.dnn.NMSBoxesBatched(
        left_top_size,
        found.scores.astype(np.float32),
        found.labels.astype(np.int32),
        MIN_SCORE,
        MAX_IOU,
    )
    kept = np.asarray(kept, np.intp).reshape(-1)
    kept = kept[np.argsort(-found.scores[kept], kind='stable')][:MAX_OBJECTS]
    return Objects(found.boxes[kept], found.scores[kept], found.labels[kept])
