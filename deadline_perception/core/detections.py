"""What a network finds in one image: objects, or of what class the whole of it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np


@dataclass(frozen=True, eq=False)
class Detections:
    """Objects found in one image, most certain first. Zero objects are arrays of length 0.

    Attributes:
        boxes_xyxy_px: float32 `[N, 4]`, corners in pixels of the original image.
        scores: float32 `[N]`, in [0, 1].
        labels: int64 `[N]`, index into the network's class names, >= 0.
        ids: int64 `[N]`, of the tracks that follow them from image to image, from 1 on; -1, also by default, where none
            does.

    Raises:
        ValueError: the arrays disagree in length or shape, or hold a value outside its range.
    """

    boxes_xyxy_px: np.ndarray
    scores: np.ndarray
    labels: np.ndarray
    ids: np.ndarray = field(default_factory=partial(np.array, -1, np.int64))

    def __post_init__(self) -> None:
        boxes = np.ascontiguousarray(self.boxes_xyxy_px, dtype=np.float32).reshape(-1, 4)
        scores = np.ascontiguousarray(self.scores, dtype=np.float32)
        labels = np.ascontiguousarray(self.labels, dtype=np.int64)
        ids = np.broadcast_to(self.ids, labels.shape)
        if scores.shape != (len(boxes),) or labels.shape != (len(boxes),):
            raise ValueError(
                f'{len(boxes)} boxes with scores {scores.shape} and labels {labels.shape}, '
                f'expected one score and one label per box'
            )
        if len(boxes) and not (np.isfinite(boxes).all() and np.isfinite(scores).all()):
            raise ValueError('boxes or scores hold NaN or infinity, expected finite values')
        if len(boxes) and (scores.min() < 0 or scores.max() > 1):
            raise ValueError(f'scores lie in [{scores.min()}, {scores.max()}], expected [0, 1]')
        if len(labels) and labels.min() < 0:
            raise ValueError(f'smallest label is {labels.min()}, expected an index >= 0')
        object.__setattr__(self, 'boxes_xyxy_px', boxes)
        object.__setattr__(self, 'scores', scores)
        object.__setattr__(self, 'labels', labels)
        object.__setattr__(self, 'ids', ids)

    def __len__(self) -> int:
        return len(self.scores)

    def with_score(self, min_score: float) -> Detections:
        """Those whose score is at least `min_score`, in [0, 1]; itself when all are."""
        keep = self.scores >= min_score
        return self if keep.all() else self.at(keep)

    def at(self, places: np.ndarray) -> Detections:
        """Those at some places: indices, or a mask `[N]`."""
        return Detections(
            self.boxes_xyxy_px[places], self.scores[places], self.labels[places], self.ids[places]
        )

    @classmethod
    def none(cls) -> Detections:
        """No object found."""
        return cls(np.zeros((0, 4)), np.zeros(0), np.zeros(0))


@dataclass(frozen=True, eq=False)
class Classification:
    """How sure a network is of each class for a whole image.

    Attributes:
        scores: float32 `[C]`, in [0, 1], in the order of the network's class names.

    Raises:
        ValueError: the scores are not one row of numbers in [0, 1].
    """

    scores: np.ndarray

    def __post_init__(self) -> None:
        scores = np.ascontiguousarray(self.scores, dtype=np.float32)
        if scores.ndim != 1 or not ((scores >= 0) & (scores <= 1)).all():
            raise ValueError(f'scores are {scores}, expected one number in [0, 1] for each class')
        object.__setattr__(self, 'scores', scores)

    def with_score(self, min_score: float) -> Classification:
        """The same with scores below `min_score` set to 0."""
        return Classification(np.where(self.scores >= min_score, self.scores, 0.0))


def pairwise_iou(first_xyxy: np.ndarray, second_xyxy: np.ndarray) -> np.ndarray:
    """Intersection over union of every pair of boxes: float64 `[N, M]`, 0 for boxes without area.

    Args:
        first_xyxy: `[N, 4]`.
        second_xyxy: `[M, 4]`.
    """
    # A row for each corner's coordinate: reductions over a last axis of two take ten times as long.
    left, top, right, bottom = np.asarray(first_xyxy, np.float64).T[:, :, None]
    left2, top2, right2, bottom2 = np.asarray(second_xyxy, np.float64).T[:, None]
    width = np.minimum(right, right2) - np.maximum(left, left2)
    height = np.minimum(bottom, bottom2) - np.maximum(top, top2)
    overlap = np.maximum(width, 0.0) * np.maximum(height, 0.0)
    area = np.maximum(right - left, 0.0) * np.maximum(bottom - top, 0.0)
    area2 = np.maximum(right2 - left2, 0.0) * np.maximum(bottom2 - top2, 0.0)
    union = area + area2 - overlap
    return np.divide(overlap, union, out=np.zeros_like(overlap), where=union > 0)


_LEAST_GAIN = 1e-9  # of an exchange, so that rounding does not exchange for ever


def match_objects(
    first: Detections,
    second: Detections,
    min_iou: float | np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs objects of equal label, each at most once: those that overlap most first, then exchanged two by two while
    all together overlap more by that.

    Args:
        first, second: objects.
        min_iou: least overlap of a pair, of all or float `[len(first), 1]`.

    Returns:
        Indices into `first` and into `second`, int `[P]` each, of the pairs whose overlap is at least `min_iou` and
        above 0.
    """
    overlap = overlap_of_equals(
        (first.boxes_xyxy_px, first.labels), (second.boxes_xyxy_px, second.labels), min_iou
    )
    return exchange_pairs(overlap, *pair_most_first(overlap))


def overlap_of_equals(
    first: tuple[np.ndarray, np.ndarray],
    second: tuple[np.ndarray, np.ndarray],
    min_iou: float | np.ndarray,
) -> np.ndarray:
    """Intersection over union of boxes of equal label, `[N, M]`; 0 for others and where it is less than `min_iou`.

    Args:
        first, second: boxes `[N, 4]` of corners and labels `[N]`; `[M, 4]` and `[M]`.
        min_iou: of all or float `[N, 1]`.
    """
    overlap = pairwise_iou(first[0], second[0])
    overlap[(first[1][:, None] != second[1]) | (overlap < min_iou)] = 0.0
    return overlap


def pair_most_first(overlap: np.ndarray) -> tuple[list[int], list[int]]:
    """Rows and columns of pairs, those that overlap most first, each row and column in one at most."""
    own: list[int] = []
    others: list[int] = []
    places = np.flatnonzero(overlap)
    order = np.argsort(-overlap.ravel()[places], kind='stable')
    is_free = [True] * sum(overlap.shape)
    columns = overlap.shape[1]
    for place in places[order].tolist():
        one, other = divmod(place, columns)
        if is_free[columns + one] and is_free[other]:
            is_free[columns + one] = is_free[other] = False
            own.append(one)
            others.append(other)
    return own, others


def exchange_pairs(
    overlap: np.ndarray,
    own: list[int],
    others: list[int],
) -> tuple[np.ndarray, np.ndarray]:
    """The pairs after all exchanges between two of them by which they overlap more; a partner may also be left."""
    rows, columns = overlap.shape
    size = max(rows, columns) + 1  # who is left is paired for an overlap of 0
    padded = np.zeros((size, size))
    padded[:rows, :columns] = overlap
    is_left = np.ones((2, size), bool)
    partner = np.empty(size, np.intp)
    is_left[0, own] = is_left[1, others] = False
    partner[own] = others
    partner[is_left[0]] = np.flatnonzero(is_left[1])
    while True:
        placed = padded[:, partner]
        now = placed.diagonal()
        gain = placed + placed.T - now[:, None] - now
        one, other = divmod(int(gain.argmax()), size)
        if gain[one, other] <= _LEAST_GAIN:
            found = np.flatnonzero(now)
            return found, partner[found]
        partner[[one, other]] = partner[[other, one]]


def box_sizes(boxes_xyxy_px: np.ndarray, image_size: tuple[int, int]) -> np.ndarray:
    """Roots of the shares of an image that boxes cover: float64 `[N]`, in [0, 1] for boxes within it.

    Args:
        boxes_xyxy_px: `[N, 4]`.
        image_size: height and width in px.
    """
    boxes = np.asarray(boxes_xyxy_px, np.float64).reshape(-1, 4)
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 0.0)
    return np.sqrt(sides.prod(axis=1) / (image_size[0] * image_size[1]))
