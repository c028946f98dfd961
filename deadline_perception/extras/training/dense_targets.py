"""Which anchors of a dense first stage stand for which object: adaptive training sample selection, on the CPU.

Source: Zhang et al. 2020, algorithm 1: of each level the anchors that are centred nearest to an object are candidates;
those of more overlap than the candidates' mean plus deviation, with their centre inside the object, are its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadline_perception.extras.training.box_fusion import intersection_over_union
from deadline_perception.extras.training.targets import CROWD_SHARE, TargetObjects, share_inside
from deadline_perception.networks.multi_path.dense.outline import anchor_levels

_NEAREST = 9  # candidates of an object on each level


@dataclass(frozen=True, eq=False)
class DenseAnchors:
    """What is wanted of the anchors of one image.

    Attributes:
        count: number of anchors.
        positives: int64 `[P]`, the anchors of objects.
        labels: int64 `[P]`, the objects' classes from 0.
        anchors: float32 `[P, 4]`.
        boxes: float32 `[P, 4]`, the objects', xyxy in px.
        centred: float32 `[P]` in (0, 1]: how well the anchor's centre lies in the middle of the object.
        crowd: int64 `[K]`, the anchors that are neither right nor wrong.
        named: bool `[C]`, see `TargetObjects`.
    """

    count: int
    positives: np.ndarray
    labels: np.ndarray
    anchors: np.ndarray
    boxes: np.ndarray
    centred: np.ndarray
    crowd: np.ndarray
    named: np.ndarray


def assign_anchors(size: tuple[int, int], objects: TargetObjects) -> DenseAnchors:
    """Assigns the anchors of an image of height and width `size` in px to its objects."""
    levels = anchor_levels(size)
    anchors = np.concatenate(levels)
    crowd = np.zeros(0, np.int64)
    if len(objects.crowd):
        crowd = np.flatnonzero(share_inside(anchors, objects.crowd) > CROWD_SHARE)
    owner = (
        _owners(levels, anchors, objects.boxes) if len(objects.boxes) else np.full(len(anchors), -1)
    )
    positives = np.flatnonzero(owner >= 0)
    boxes = objects.boxes[owner[positives]].reshape(-1, 4)
    return DenseAnchors(
        len(anchors),
        positives,
        objects.labels[owner[positives]],
        anchors[positives],
        boxes,
        _centredness(anchors[positives], boxes),
        crowd,
        objects.named,
    )


def _owners(levels: list[np.ndarray], anchors: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """For each anchor `[A]` the index of its object, -1 for none."""
    centres = (anchors[:, :2] + anchors[:, 2:]) / 2
    middles = (boxes[:, :2] + boxes[:, 2:]) / 2
    candidates, start = [], 0
    for level in levels:
        distances = ((centres[start : start + len(level), None] - middles) ** 2).sum(2)
        nearest = np.argsort(distances, 0, kind='stable')[:_NEAREST]
        candidates.append(nearest + start)
        start += len(level)
    chosen = np.concatenate(candidates)  # [candidates, objects]
    columns = np.broadcast_to(np.arange(len(boxes)), chosen.shape)
    overlap = intersection_over_union(anchors, boxes)[chosen, columns]
    least = overlap.mean(0) + overlap.std(0)
    inside = (centres[chosen] > boxes[columns, :2]).all(2) & (
        centres[chosen] < boxes[columns, 2:]
    ).all(2)
    own = (overlap >= least) & inside
    # An object between the centres of all anchors keeps its best one.
    lonely = ~own.any(0)
    own[overlap.argmax(0)[lonely], np.flatnonzero(lonely)] = True
    owner, best = np.full(len(anchors), -1), np.zeros(len(anchors))
    for anchor, column, value in zip(chosen[own], columns[own], overlap[own]):
        if value > best[anchor] or owner[anchor] < 0:
            owner[anchor], best[anchor] = column, value
    return owner


def _centredness(anchors: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Of anchors and boxes `[P, 4]`: the root of the product of near over far distance to sides (FCOS, equation 3)."""
    centres = (anchors[:, :2] + anchors[:, 2:]) / 2
    before, after = (centres - boxes[:, :2]).clip(min=1e-3), (boxes[:, 2:] - centres).clip(min=1e-3)
    ratios = np.minimum(before, after) / np.maximum(before, after)
    return np.sqrt(ratios.prod(1)).astype(np.float32)
