"""What the network should have said: anchors and regions matched with the known objects, on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from torch import Tensor

from deadline_perception.extras.data.records import GroundTruth
from deadline_perception.extras.faster_rcnn.configuration import DetectorConfig
from deadline_perception.extras.faster_rcnn.outline import PROPOSAL_DELTA_WEIGHTS, anchor_levels
from deadline_perception.extras.training.box_deltas import encode
from deadline_perception.extras.training.box_fusion import (
    areas,
    intersection_over_union,
    intersections,
)
from deadline_perception.extras.training.transfer import to_device

# Ren et al. 2015, section 3.1.2 and Girshick 2015, section 2.3, with more lenient positives for small objects.
_ANCHOR_POSITIVE_IOU = 0.6
_ANCHOR_NEGATIVE_IOU = 0.3
_REGION_POSITIVE_IOU = 0.5
CROWD_SHARE = 0.5
ANCHORS_PER_IMAGE = 256
_ANCHOR_POSITIVE_SHARE = 0.5


@dataclass(frozen=True, eq=False)
class TargetObjects:
    """Objects of one training image.

    Attributes:
        boxes: float32 `[G, 4]` xyxy in px of the network's input.
        labels: int64 `[G]` from 0.
        crowd: float32 `[K, 4]` regions that are neither right nor wrong.
        named: bool `[C]`, False for a class that the image's source does not name, whose objects may be there unmarked.
    """

    boxes: np.ndarray
    labels: np.ndarray
    crowd: np.ndarray
    named: np.ndarray

    @classmethod
    def of(cls, ground_truth: GroundTruth, named: np.ndarray) -> TargetObjects:
        """Objects and crowd regions apart."""
        boxes, crowd = ground_truth.boxes_xyxy_px, ground_truth.crowd
        return cls(boxes[~crowd], ground_truth.labels[~crowd], boxes[crowd], named)

    def resized(self, size: tuple[int, int], to: tuple[int, int]) -> TargetObjects:
        """The objects when the image of height and width `size` in px is resized."""
        if size == to:
            return self
        return replace(
            self, boxes=self.boxes * box_scale(size, to), crowd=self.crowd * box_scale(size, to)
        )


def box_scale(size: tuple[int, int], to: tuple[int, int]) -> np.ndarray:
    """Factors `[4]` of xyxy boxes when an image of height and width `size` in px is resized."""
    return np.float32([to[1] / size[1], to[0] / size[0]] * 2)


def match_anchors(
    anchors: np.ndarray, ground_truth: TargetObjects
) -> tuple[np.ndarray, np.ndarray]:
    """For each anchor `[A]`: 1 object, 0 background, -1 neither; and the index of its object.

    An object that no anchor overlaps well keeps its best ones. An image without objects is all background.
    """
    labels = np.zeros(len(anchors), np.int8)
    matched = np.zeros(len(anchors), np.int64)
    if len(ground_truth.boxes):
        overlap = intersection_over_union(ground_truth.boxes, anchors)
        matched, best = overlap.argmax(0), overlap.max(0)
        labels[best >= _ANCHOR_NEGATIVE_IOU] = -1
        labels[best >= _ANCHOR_POSITIVE_IOU] = 1
        best_of_object = overlap.max(1, keepdims=True)
        objects, chosen = np.nonzero((overlap >= best_of_object - 1e-4) & (best_of_object > 0.1))
        labels[chosen] = 1
        matched[chosen] = objects
    if len(ground_truth.crowd):
        labels[(labels == 0) & (share_inside(anchors, ground_truth.crowd) > CROWD_SHARE)] = -1
    return labels, matched


def sample(
    labels: np.ndarray, count: int, positive_share: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Random indices of at most `count` entries: positives (label 1) up to their share, the rest negatives (0)."""
    positive, negative = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)
    positives = min(len(positive), int(count * positive_share))
    negatives = min(len(negative), count - positives)
    return (
        generator.choice(positive, positives, replace=False, shuffle=False),
        generator.choice(negative, negatives, replace=False, shuffle=False),
    )


def sample_regions(
    regions: np.ndarray,
    ground_truth: TargetObjects,
    count: int,
    positive_share: float,
    generator: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Regions for training a head; the known objects are among the candidates.

    Returns:
        regions `[R, 4]`; class labels `[R]`, 0 background; target boxes `[P, 4]` of the first P regions, the objects;
        places `[R]` of the regions among those given, negative for known objects.
    """
    candidates = np.concatenate((ground_truth.boxes, regions))
    state = np.zeros(len(candidates), np.int8)
    matched = np.zeros(len(candidates), np.int64)
    if len(ground_truth.boxes):
        overlap = intersection_over_union(ground_truth.boxes, candidates)
        matched = overlap.argmax(0)
        state[overlap.max(0) >= _REGION_POSITIVE_IOU] = 1
    if len(ground_truth.crowd):
        state[(state == 0) & (share_inside(candidates, ground_truth.crowd) > CROWD_SHARE)] = -1
    positive, negative = sample(state, count, positive_share, generator)
    labels = np.zeros(len(positive) + len(negative), np.int64)
    labels[: len(positive)] = ground_truth.labels[matched[positive]] + 1
    chosen = np.concatenate((positive, negative))
    return (
        candidates[chosen],
        labels,
        ground_truth.boxes[matched[positive]],
        chosen - len(ground_truth.boxes),
    )


def share_inside(boxes: np.ndarray, regions: np.ndarray) -> np.ndarray:
    """Largest share of each box's area `[N]` that lies inside one of the regions, of which there are some."""
    return (intersections(boxes, regions) / areas(boxes).clip(min=1e-6)[:, None]).max(1)


@dataclass(frozen=True, eq=False)
class ImageAnchors:
    """The anchors of one image to train on.

    Attributes:
        indices: `[M]` into the anchors of the image; those on objects come first.
        deltas: float32 `[P, 4]` wanted of the first P, which are on objects.
    """

    indices: np.ndarray
    deltas: np.ndarray


@dataclass(frozen=True, eq=False)
class AnchorSample:
    """The anchors of a batch to train on, on the device that trains.

    Attributes:
        indices: `[M]` into the anchors of all images, image after image.
        positives: `[P]` into `indices`: those on objects.
        labels: `[M]` float32, 1 object, 0 background.
        deltas: `[P, 4]` wanted of those on objects.
    """

    indices: Tensor
    positives: Tensor
    labels: Tensor
    deltas: Tensor


@cache
def all_anchors(config: DetectorConfig, size: tuple[int, int]) -> np.ndarray:
    """All anchors `[A, 4]` of an image of height and width `size` in px, level after level."""
    return np.concatenate(anchor_levels(config, size))


def choose_anchors(
    anchors: np.ndarray, ground_truth: TargetObjects, generator: np.random.Generator
) -> ImageAnchors:
    """Matches the anchors `[A, 4]` of an image with its objects and draws those to train on."""
    state, matched = match_anchors(anchors, ground_truth)
    positive, negative = sample(state, ANCHORS_PER_IMAGE, _ANCHOR_POSITIVE_SHARE, generator)
    deltas = encode(
        torch.from_numpy(ground_truth.boxes[matched[positive]]),
        torch.from_numpy(anchors[positive]),
        PROPOSAL_DELTA_WEIGHTS,
    )
    return ImageAnchors(np.concatenate((positive, negative)), deltas.numpy())


def join_anchors(
    chosen: Sequence[ImageAnchors], anchors: int, device: torch.device
) -> AnchorSample:
    """The chosen anchors of all images of a batch, each of which has so many anchors, on a device."""
    starts = np.cumsum([0, *(len(one.indices) for one in chosen)])
    indices = np.concatenate([one.indices + image * anchors for image, one in enumerate(chosen)])
    positives = np.concatenate(
        [start + np.arange(len(one.deltas)) for start, one in zip(starts, chosen)]
    )
    indices, positives = to_device(np.concatenate((indices, positives)), device).split(
        (len(indices), len(positives))
    )
    deltas = to_device(np.concatenate([one.deltas for one in chosen]), device)
    return AnchorSample(
        indices,
        positives,
        torch.zeros(len(indices), device=device).index_fill_(0, positives, 1.0),
        deltas,
    )
