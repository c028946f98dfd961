"""Average precision by class and by how much of the image an object takes."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from deadline_perception.core.detections import Detections, box_sizes
from deadline_perception.decision.scene import SIZE_EDGES, SIZE_NAMES
from deadline_perception.extras.data.records import GroundTruth
from deadline_perception.extras.evaluation.average_precision import matched

_SIDE = 1000.0  # of the square that every image is resized to; overlaps stay as they are
_IOU_50 = 0  # row of COCOeval's thresholds


def precision_by_size(
    detections: Sequence[Detections],
    ground_truths: Sequence[GroundTruth],
    class_names: Sequence[str],
    image_sizes: Sequence[tuple[int, int]],
    *,
    at_50: bool = False,
) -> np.ndarray:
    """Average precision for objects of each class and size: float64 `[classes, bins]` in [0, 1], NaN where none is
    known. An object of another size, and what is found of it, counts for nothing.

    Args:
        detections, ground_truths, class_names: see `average_precision`.
        image_sizes: height and width of each image in px.
        at_50: at IoU 0.5 alone, else the mean over the thresholds 0.50:0.05:0.95.
    """
    scaled = [
        replace(found, boxes_xyxy_px=_stretched(found.boxes_xyxy_px, size))
        for found, size in zip(detections, image_sizes)
    ]
    known = [
        replace(truth, boxes_xyxy_px=_stretched(truth.boxes_xyxy_px, size))
        for truth, size in zip(ground_truths, image_sizes)
    ]
    edges = [0.0, *((edge * _SIDE) ** 2 for edge in SIZE_EDGES), 1e10]
    evaluation = matched(scaled, known, class_names, list(zip(edges[:-1], edges[1:])))
    if evaluation is None:
        return np.full((len(class_names), len(SIZE_NAMES)), np.nan)
    with contextlib.redirect_stdout(io.StringIO()):
        evaluation.accumulate()
    precision = evaluation.eval['precision'][..., 0]  # IoU threshold, recall, class, size
    precision = precision[: _IOU_50 + 1] if at_50 else precision
    values = precision.mean(axis=(0, 1))
    return np.where(values < 0.0, np.nan, values)


def objects_by_size(
    ground_truths: Sequence[GroundTruth], classes: int, image_sizes: Sequence[tuple[int, int]]
) -> np.ndarray:
    """Number of known objects of each class and size, without crowd regions: int64 `[classes, bins]`."""
    counts = np.zeros((classes, len(SIZE_NAMES)), np.int64)
    for truth, size in zip(ground_truths, image_sizes):
        kept = ~truth.crowd
        bins = np.searchsorted(SIZE_EDGES, box_sizes(truth.boxes_xyxy_px[kept], size), 'right')
        np.add.at(counts, (truth.labels[kept], bins), 1)
    return counts


def _stretched(boxes_xyxy_px: np.ndarray, image_size: tuple[int, int]) -> np.ndarray:
    height, width = image_size
    return boxes_xyxy_px * (_SIDE / np.array([width, height, width, height], np.float64))
