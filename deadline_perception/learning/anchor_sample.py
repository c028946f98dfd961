"""The anchors that a step trains on; they depend on no path, so that they are chosen while images are drawn."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from deadline_perception.detector import boxes as box_ops
from deadline_perception.detector import proposals as proposal_ops
from deadline_perception.detector.configuration import DetectorConfig
from deadline_perception.learning.targets import Truth, match_anchors, sample
from deadline_perception.learning.transfer import to_device

ANCHORS_PER_IMAGE = 256
_POSITIVE_SHARE = 0.5


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
def lay_out_anchors(config: DetectorConfig, size: tuple[int, int]) -> np.ndarray:
    """All anchors `[A, 4]` of an image of height and width `size` in px, level after level."""
    return torch.cat([box_ops.anchors(size, stride, sizes, config.anchor_ratios)
                      for stride, sizes in zip(proposal_ops.STRIDES, config.anchor_sizes_px)]).numpy()


def choose_anchors(anchors: np.ndarray, truth: Truth, generator: np.random.Generator) -> ImageAnchors:
    """Matches the anchors `[A, 4]` of an image with its objects and draws those to train on."""
    state, matched = match_anchors(anchors, truth)
    positive, negative = sample(state, ANCHORS_PER_IMAGE, _POSITIVE_SHARE, generator)
    deltas = box_ops.encode(torch.from_numpy(truth.boxes[matched[positive]]), torch.from_numpy(anchors[positive]),
                            proposal_ops.DELTA_WEIGHTS)
    return ImageAnchors(np.concatenate((positive, negative)), deltas.numpy())


def join_anchors(chosen: Sequence[ImageAnchors], anchors: int, device: torch.device) -> AnchorSample:
    """The chosen anchors of all images of a batch, each of which has so many anchors, on a device."""
    starts = np.cumsum([0, *(len(one.indices) for one in chosen)])
    indices = np.concatenate([one.indices + image * anchors for image, one in enumerate(chosen)])
    positives = np.concatenate([start + np.arange(len(one.deltas)) for start, one in zip(starts, chosen)])
    indices, positives = to_device(np.concatenate((indices, positives)), device).split((len(indices), len(positives)))
    deltas = to_device(np.concatenate([one.deltas for one in chosen]), device)
    return AnchorSample(indices, positives, torch.zeros(len(indices), device=device).index_fill_(0, positives, 1.0),
                        deltas)
