"""Boxes of several detectors as one set, by weighted box fusion."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deadline_perception.core.detections import Detections

# Overlap from which boxes of one class are one object. Solovyev et al. 2019, section 3.
# Against suppression with the same votes: measured: benchmarks/labelling.py of commit 68d0af47
SAME_OBJECT_IOU = 0.55


def fuse(found: Sequence[Detections], weights: np.ndarray) -> Detections:
    """Weighted box fusion (Solovyev et al. 2019): boxes that overlap are averaged by score, scores over detectors.

    A detector that knows a class and does not see the object counts as a score of 0, so that boxes on which the
    detectors disagree end between them. Of one detector, the best of overlapping boxes counts.

    Args:
        found: by each of M detectors in the same image; labels index the same C classes.
        weights: float `[M, C]`, how much a detector's word counts by class; 0 for a class that it does not know.

    Returns:
        the objects, most certain first; none of a class whose weights are all 0.

    Raises:
        ValueError: the weights have another shape, or one is negative or not finite.
    """
    weights = np.asarray(weights, float)
    if weights.ndim != 2 or len(weights) != len(found):
        raise ValueError(f'weights have shape {weights.shape}, expected [{len(found)}, classes]')
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError(
            f'smallest weight is {weights.min()}, expected finite numbers of at least 0'
        )
    boxes = np.concatenate([one.boxes_xyxy_px for one in found])
    scores = np.concatenate([one.scores for one in found]).astype(float)
    labels = np.concatenate([one.labels for one in found])
    detectors = np.repeat(np.arange(len(found)), [len(one) for one in found])
    votes = scores * weights[detectors, labels] / np.maximum(weights.sum(0), 1e-12)[labels]
    order = np.argsort(-votes, kind='stable')
    order = order[votes[order] > 0.0]
    fused: list[tuple[float, int, np.ndarray]] = []
    for label in np.unique(labels[order]):
        of_class = order[labels[order] == label]
        for group in _groups(boxes[of_class]):
            best = of_class[group]
            if len(best) > 1:  # the best of each detector: members come in the order of their votes
                best = best[np.sort(np.unique(detectors[best], return_index=True)[1])]
            box = votes[best] @ boxes[best] / votes[best].sum()
            fused.append((min(1.0, float(votes[best].sum())), int(label), box))
    fused.sort(key=lambda one: -one[0])
    return Detections(
        np.array([box for _, _, box in fused]).reshape(-1, 4),
        np.array([score for score, _, _ in fused]),
        np.array([label for _, label, _ in fused], np.int64),
    )


def _groups(boxes: np.ndarray) -> list[np.ndarray]:
    """Indices of boxes that are one object: each time the first that is left, and all left that overlap it."""
    overlap = intersection_over_union(boxes, boxes)
    left = np.ones(len(boxes), bool)
    groups = []
    for index in range(len(boxes)):
        if left[index]:
            group = left & (overlap[index] >= SAME_OBJECT_IOU)
            group[index] = True  # a box without area overlaps nothing
            left &= ~group
            groups.append(np.flatnonzero(group))
    return groups


def intersection_over_union(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Overlaps `[N, M]` of boxes `[N, 4]` and `[M, 4]`, xyxy; 0 where both have no area."""
    shared = intersections(one, other)
    return shared / np.maximum(areas(one)[:, None] + areas(other) - shared, 1e-9)


def intersections(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Areas `[N, M]` that boxes `[N, 4]` and `[M, 4]`, xyxy, share."""
    width, height = (
        np.minimum(one[:, None, axis + 2], other[:, axis + 2])
        - np.maximum(one[:, None, axis], other[:, axis])
        for axis in (0, 1)
    )
    return width.clip(min=0) * height.clip(min=0)


def areas(boxes: np.ndarray) -> np.ndarray:
    """Areas `[N]` of boxes `[N, 4]`, xyxy."""
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
