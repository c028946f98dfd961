"""How probable each box is, of two networks that looked at one image: a logistic regression on what both saw.

Networks that were trained apart give scores that do not compare: one sees near objects better, the other far ones. So
each box gets a new score from its own, its size, the score of the box of the other look that covers the same object,
and what the image as a whole shows, such as the mean size of its objects. The box of an object that both found is a
mean of theirs, nearer to the first look's the larger the object is. Measured and fitted: benchmarks/first_pass.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from msgspec import Meta

from deadline_perception.core.decoding import Finite
from deadline_perception.core.detections import Detections, box_sizes, pairwise_iou

FEATURES = 15  # of a box, see `_features`
MATCH = 0.5  # intersection over union of two boxes of one object
SIDE = 0.1  # size of an object whose box lies halfway between those of the looks
_STEEPNESS = 2.0  # with which larger ones go over to the first look's box, in the logarithm of size
_REFERENCE_SIZE = 0.1
_LEAST_SIZE = 1e-3
_LEAST_SCORE = 1e-4
_CERTAIN = 0.25  # score from which a box tells what the image shows


Coefficients = Annotated[list[Finite], Meta(min_length=FEATURES, max_length=FEATURES)]


@dataclass(frozen=True)
class FusionRecord:
    """Coefficients of the boxes of each look by their classes; one that is not named keeps its scores."""

    coarse: dict[str, Coefficients] = field(default_factory=dict)
    fine: dict[str, Coefficients] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class LookFusion:
    """See the module.

    Attributes:
        coarse, fine: coefficients for the boxes of the first and of the closer look, float64 `[classes, FEATURES]`.
    """

    coarse: np.ndarray
    fine: np.ndarray

    @classmethod
    def from_record(cls, record: FusionRecord, class_names: Sequence[str]) -> LookFusion:
        """What a file states.

        Args:
            record: that of the file.
            class_names: that labels index.

        Raises:
            ValueError: a class is unknown.
        """
        own_score = [1.0, *[0.0] * (FEATURES - 1)]
        tables = []
        for of_look in (record.coarse, record.fine):
            unknown = set(of_look) - set(class_names)
            if unknown:
                raise ValueError(
                    f'fusion names the classes {", ".join(sorted(unknown))}, expected some of {", ".join(class_names)}'
                )
            table = [of_look.get(name, own_score) for name in class_names]
            tables.append(np.array(table, np.float64))
        return cls(*tables)

    def fused(
        self, coarse: Detections, fine: Detections, image_size: tuple[int, int]
    ) -> Detections:
        """Boxes of both looks with scores that compare; what both found has one box, between theirs.

        Args:
            coarse, fine: what the looks found; labels index the same classes.
            image_size: height and width in px.
        """
        overlap = overlaps_of_class(coarse, fine)
        of_coarse, of_fine = box_features(coarse, fine, image_size, overlap)
        coarse_scores = _logistic((of_coarse * self.coarse[coarse.labels]).sum(axis=1))
        fine_scores = _logistic((of_fine * self.fine[fine.labels]).sum(axis=1))
        first, second = _pairs(overlap)
        fine_boxes = fine.boxes_xyxy_px.copy()
        sizes = _log_sizes(fine, image_size)[second, None] - np.log(SIDE / _REFERENCE_SIZE)
        share = _logistic(_STEEPNESS * sizes)
        fine_boxes[second] += share * (coarse.boxes_xyxy_px[first] - fine_boxes[second])
        fine_scores[second] = np.maximum(coarse_scores[first], fine_scores[second])
        is_alone = np.ones(len(coarse), bool)
        is_alone[first] = False
        return Detections(
            np.concatenate([coarse.boxes_xyxy_px[is_alone], fine_boxes]),
            np.concatenate([coarse_scores[is_alone], fine_scores]),
            np.concatenate([coarse.labels[is_alone], fine.labels]),
        )


def box_features(
    coarse: Detections, fine: Detections, image_size: tuple[int, int], overlap: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What a score is made of, for the boxes of both looks: float64 `[coarse, FEATURES]`, `[fine, FEATURES]`.

    Args:
        coarse, fine, image_size: see `LookFusion.fused`.
        overlap: of their boxes, see `overlaps_of_class`.
    """
    sizes = [_log_sizes(found, image_size) for found in (coarse, fine)]
    certain = [np.where(found.scores > _CERTAIN, found.scores, 0.0) for found in (coarse, fine)]
    objects = sum(one.sum() for one in certain) + 0.3
    mean_size = sum((one * size).sum() for one, size in zip(certain, sizes)) / objects
    crowd = np.log1p(objects) - 1.5
    return (
        _features(coarse.scores, sizes[0], _covering(overlap, fine.scores), mean_size, crowd),
        _features(fine.scores, sizes[1], _covering(overlap.T, coarse.scores), mean_size, crowd),
    )


def _features(
    scores: np.ndarray, size: np.ndarray, other: np.ndarray, mean_size: float, crowd: float
) -> np.ndarray:
    own = _logits(scores)
    is_seen = other > 0.0
    seen = np.where(is_seen, _logits(other) + 4.0, 0.0)
    rest = np.stack([np.ones_like(own), size, size * size, seen, is_seen], axis=1)
    own = own[:, None] * np.stack([np.ones_like(size), size, np.full_like(size, mean_size)], axis=1)
    return np.concatenate([own, rest, rest * mean_size, rest[:, :2] * crowd], axis=1)


def _covering(overlap: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Score of the box of the other look that covers the same object, 0 where none does."""
    if not overlap.size:
        return np.zeros(len(overlap))
    return np.where(overlap.max(axis=1) >= MATCH, scores[overlap.argmax(axis=1)], 0.0)


def _pairs(overlap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Boxes of both looks that are the best of the other for each other."""
    if not overlap.size:
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    first = np.arange(len(overlap))
    second = overlap.argmax(axis=1)
    is_pair = (overlap[first, second] >= MATCH) & (overlap.argmax(axis=0)[second] == first)
    return first[is_pair], second[is_pair]


def overlaps_of_class(coarse: Detections, fine: Detections) -> np.ndarray:
    """Intersection over union of boxes of one class, 0 for others: float64 `[coarse, fine]`."""
    same = coarse.labels[:, None] == fine.labels[None]
    return pairwise_iou(coarse.boxes_xyxy_px, fine.boxes_xyxy_px) * same


def _log_sizes(found: Detections, image_size: tuple[int, int]) -> np.ndarray:
    sizes = box_sizes(found.boxes_xyxy_px, image_size)
    return np.log(np.maximum(sizes, _LEAST_SIZE) / _REFERENCE_SIZE)


def _logits(scores: np.ndarray) -> np.ndarray:
    clipped = np.clip(np.asarray(scores, np.float64), _LEAST_SCORE, 1.0 - _LEAST_SCORE)
    return np.log(clipped / (1.0 - clipped))


def _logistic(logits: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-np.clip(logits, -50.0, 50.0)))
