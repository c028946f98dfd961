"""Coasted tracks, published when a deadline cannot be met: the previous objects, moved to where they should be now."""
from __future__ import annotations

import math
from enum import Enum, IntEnum

import numpy as np

from deadline_perception.detector.detections import Detections


class LatePolicy(str, Enum):
    """What stands in for the detections of a frame whose deadline passed.

    COASTED: the previous objects, moved on, in time. LATE: its own, late.
    """

    COASTED = 'coasted'
    LATE = 'late'


class Outcome(IntEnum):
    """What was published for a frame; the values of FrameLatency.outcome."""

    DETECTED = 0
    COASTED = 1
    LATE = 2


def pairwise_iou(first_xyxy: np.ndarray, second_xyxy: np.ndarray) -> np.ndarray:
    """Intersection over union of every pair of boxes: float64 `[N, M]`, 0 for boxes without area.

    Args:
        first_xyxy: `[N, 4]`.
        second_xyxy: `[M, 4]`.
    """
    first, second = np.asarray(first_xyxy, np.float64)[:, None], np.asarray(second_xyxy, np.float64)[None]
    sides = np.clip(np.minimum(first[..., 2:], second[..., 2:]) - np.maximum(first[..., :2], second[..., :2]), 0, None)
    overlap = sides.prod(axis=-1)
    areas = [np.clip(boxes[..., 2:] - boxes[..., :2], 0, None).prod(axis=-1) for boxes in (first, second)]
    union = areas[0] + areas[1] - overlap
    return np.divide(overlap, union, out=np.zeros_like(overlap), where=union > 0)


def match_greedily(first: Detections, second: Detections, min_iou: float) -> list[tuple[int, int]]:
    """Pairs objects of equal label, largest overlap first, each at most once.

    Returns:
        Index into `first` and index into `second` of each pair whose overlap is at least `min_iou` and above 0.
    """
    overlap = pairwise_iou(first.boxes_xyxy_px, second.boxes_xyxy_px)
    overlap[first.labels[:, None] != second.labels[None]] = 0.0
    rows, columns = np.nonzero((overlap >= min_iou) & (overlap > 0))
    pairs, free_rows, free_columns = [], set(rows.tolist()), set(columns.tolist())
    for at in np.argsort(-overlap[rows, columns], kind='stable'):
        row, column = int(rows[at]), int(columns[at])
        if row in free_rows and column in free_columns:
            free_rows.remove(row)
            free_columns.remove(column)
            pairs.append((row, column))
    return pairs


class Tracks:
    """Follows the objects from frame to frame and moves them on at constant velocity.

    A stamp that goes back resets it: after a bag has looped, old objects are wrong.

    Args:
        image_size: height and width in px that predictions are clipped to; None until `follow` tells it.
        min_iou: overlap with its predicted place from which a detection is the same object.
        velocity_gain: share of the newest measured velocity in the filtered one, in (0, 1].
        score_half_life_s: time in which the score of an object that is only predicted halves.
        max_age_s: older detections are forgotten.

    Raises:
        ValueError: a value lies outside its range.
    """

    def __init__(self, image_size: tuple[int, int] | None = None, *, min_iou: float = 0.3, velocity_gain: float = 0.6,
                 score_half_life_s: float = 0.5, max_age_s: float = 1.0) -> None:
        if not (0.0 <= min_iou <= 1.0 and 0.0 < velocity_gain <= 1.0):
            raise ValueError(f'min_iou is {min_iou} and velocity_gain {velocity_gain}, expected [0, 1] and (0, 1]')
        if not (0.0 < score_half_life_s < math.inf and 0.0 < max_age_s < math.inf):
            raise ValueError(f'score_half_life_s is {score_half_life_s} and max_age_s {max_age_s}, expected finite '
                             f'times above 0 s')
        self._image_size: tuple[int, int] | None = None
        self._min_iou = min_iou
        self._velocity_gain = velocity_gain
        self._score_half_life_s = score_half_life_s
        self._max_age_s = max_age_s
        self.reset()
        if image_size is not None:
            self.follow(image_size)

    def follow(self, image_size: tuple[int, int]) -> None:
        """Takes in the size of the images, height and width in px; all objects are forgotten when it has changed.

        Raises:
            ValueError: a side is below 1 px.
        """
        if image_size == self._image_size:
            return
        if len(image_size) != 2 or min(image_size) < 1:
            raise ValueError(f'image_size is {image_size}, expected height and width of at least 1 px')
        height, width = self._image_size = image_size
        self._limits_px = np.array([width, height, width, height], dtype=np.float64)
        self.reset()

    def reset(self) -> None:
        """Forgets all objects."""
        self._objects = Detections.none()
        self._stamp_s: float | None = None
        self._velocities = np.zeros((0, 4))
        self._has_velocity = np.zeros(0, dtype=bool)

    def update(self, detections: Detections, stamp_s: float) -> None:
        """Takes in the detections of an image; none at all means that nothing is there any more.

        Args:
            detections: in px of an image of `image_size`.
            stamp_s: the image's stamp. The same stamp again replaces the objects and keeps their velocities.

        Raises:
            ValueError: the stamp is not finite.
        """
        passed_s = self._passed_s(stamp_s)
        velocities = np.zeros((len(detections), 4))
        has_velocity = np.zeros(len(detections), dtype=bool)
        if passed_s is not None and len(self._objects) and len(detections):
            expected = Detections(self._moved(passed_s), self._objects.scores, self._objects.labels)
            for old, new in match_greedily(expected, detections, self._min_iou):
                velocities[new], has_velocity[new] = self._velocities[old], self._has_velocity[old]
                if passed_s > 0:
                    step_px = (detections.boxes_xyxy_px[new].astype(np.float64) - self._objects.boxes_xyxy_px[old])
                    gain = self._velocity_gain if self._has_velocity[old] else 1.0
                    velocities[new] += gain * (step_px / passed_s - velocities[new])
                    has_velocity[new] = True
        self._objects, self._stamp_s = detections, stamp_s
        self._velocities, self._has_velocity = velocities, has_velocity

    def predict(self, stamp_s: float) -> Detections:
        """The objects as they should be at the stamp of an image: moved on, clipped to it, with decayed scores.

        Returns:
            Most certain first; none before the first update, and when the last one is too old.

        Raises:
            ValueError: the stamp is not finite.
        """
        passed_s = self._passed_s(stamp_s)
        if passed_s is None or not len(self._objects):
            return Detections.none()
        boxes = np.clip(self._moved(passed_s), 0.0, self._limits_px)
        seen = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
        scores = self._objects.scores * 0.5 ** (passed_s / self._score_half_life_s)
        return Detections(boxes[seen], scores[seen], self._objects.labels[seen])

    def _passed_s(self, stamp_s: float) -> float | None:
        """Time since the last update; None when there is nothing to go on from."""
        if not math.isfinite(stamp_s):
            raise ValueError(f'stamp is {stamp_s} s, expected a finite time')
        if self._stamp_s is None:
            return None
        passed_s = stamp_s - self._stamp_s
        if not 0.0 <= passed_s <= self._max_age_s:
            self.reset()
            return None
        return passed_s

    def _moved(self, passed_s: float) -> np.ndarray:
        """Boxes after some time: float64 `[N, 4]`; one that would turn inside out shrinks to a point instead."""
        boxes = self._objects.boxes_xyxy_px + self._velocities * passed_s
        middle = (boxes[:, :2] + boxes[:, 2:]) / 2.0
        return np.concatenate([np.minimum(boxes[:, :2], middle), np.maximum(boxes[:, 2:], middle)], axis=1)
