"""Coasted tracks, published when a deadline cannot be met: the previous objects, moved to where they should be now.

A Kalman filter per object, all of them in a few array operations. Libraries were looked at: those that are maintained
(norfair, trackers, supervision) count time in frames of equal distance and keep one filter object per track in Python,
some for older numpy alone; here results come at uneven times, and only the stamps say how far apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from deadline_perception.core.detections import (
    Detections,
    exchange_pairs,
    overlap_of_equals,
    pair_most_first,
)

# How the noise of acceleration follows the innovations: the share of the way taken per result, in logarithms; the most
# that one result or one innovation, squared in variances, may count; and the limits of its factor.
_AGILITY_GAIN = 0.2
_MOST_CHANGE = 4.0
_MOST_INNOVATION = 9.0
_AGILITY_LIMITS = (0.2, 4.0)
# Standard deviation of detected centres and sizes, density of the white noise of acceleration at first, and standard
# deviation of the velocity of an object seen once: in sizes of the box, per s^1.5 and per s. The time in which the
# score of an object that is only predicted halves. Measured: benchmarks/tracking.py, and tracks.py of commit 7f184f1.
_MEASUREMENT_NOISE = 0.03
_ACCELERATION_NOISE = 1.25
_VELOCITY_NOISE = 4.0
_SCORE_HALF_LIFE_S = 0.15
MAX_OBJECTS = 100  # followed at once; a result with more has them all, and nothing that it misses is kept beside
# Of objects of known velocity, and of those seen once: deviations of their place that they are widened by, on both sides
# together, and overlap with that from which a detection is the same object, first of detections that are not sure, then of
# those that are. The latter take what they overlap first (Zhang et al. 2022, ByteTrack). Measured: benchmarks/tracking.py
_ROOM = np.array([0.5, 2.0])
_MIN_IOU = np.array([[0.4, 0.1], [0.2, 0.02]])
_SURE_SCORE = 0.5
_WEIGHTS = np.array([0.01, 1.0])  # of overlaps
_LEAST_OF_ALL = 3  # objects of known velocity, for what most of them do to be the camera's
_MOST_MISSED_S = 0.5  # an object that results miss for longer is forgotten
MAX_AGE_S = 1.0  # all are when there is no result for longer


class Tracks:
    """Follows the objects from result to result and moves them on at constant velocity of centre, width and height.

    Each of the four is a Kalman filter of its own, whose noises are in shares of the box's width or height, so that
    they hold near and far; driven by white noise of acceleration, so that results may come at any distance in time.
    How strong that noise is differs with the vehicle's own speed by a factor of ten, so it follows what the filters get
    wrong: squared innovations should equal their variances in the mean (Mehra 1970, by one factor for all objects).
    A stamp that goes back resets it: after a bag has looped, old objects are wrong. An object's id, a number from 1 on,
    stays with it while it is followed, also where results miss it, and is never given to another.

    Attributes:
        evidence_s: stamp of the last result; None while there is nothing to go on from.

    Args:
        image_size: height and width in px that predictions are clipped to; None until `follow` tells it.
    """

    def __init__(self, image_size: tuple[int, int] | None = None) -> None:
        self._image_size: tuple[int, int] | None = None
        self._last_id = 0
        self.reset()
        if image_size is not None:
            self.follow(image_size)

    def follow(self, image_size: tuple[int, int]) -> None:
        """Takes in the size of the images, height and width in px; all objects are forgotten when it has changed."""
        if image_size == self._image_size:
            return
        height, width = self._image_size = image_size
        self._limits_px = np.array([width, height, width, height], dtype=np.float64)
        self.reset()

    def reset(self) -> None:
        """Forgets all objects."""
        self.evidence_s: float | None = None
        self._unsettled: Callable[[], None] | None = None
        # Those of the last result come first, in its order.
        self._process_noise = 1.0  # of the noise of acceleration
        self._times_seen = self._ids = self._labels = np.zeros(0, np.int64)
        self._scores = self._seen_s = np.zeros(0)
        self._state = np.zeros((2, 0, 4))  # x, y, width, height, and their velocities
        self._variance = np.zeros((3, 0, 4))  # of the state, of state and velocity, of the velocity

    def update(self, detections: Detections, stamp_s: float) -> Detections:
        """Takes in the result of an image, or a further one of the same image.

        Args:
            detections: in px of an image of `image_size`.
            stamp_s: the image's stamp, finite.

        Returns:
            The result with the ids of its objects.
        """
        self.settle()
        count = len(detections)
        passed_s = self._passed_s(stamp_s) or 0.0
        state, variance = self._moved(passed_s)
        # Widened (buffered IoU, Yang et al. 2023, by a share of the box): small, fast objects leave their boxes between
        # two results.
        is_guess = (self._times_seen < 2).astype(int)[:, None]
        is_sure = (detections.scores >= _SURE_SCORE).astype(int)
        room = _ROOM[is_guess] * np.sqrt(variance[0, :, :2])
        expected = np.hstack([state[0, :, :2], np.maximum(state[0, :, 2:], 0.0) + room])
        measured = _centres(detections.boxes_xyxy_px.astype(np.float64))
        of_detections = detections.boxes_xyxy_px, detections.labels

        def overlaps() -> np.ndarray:
            mine = _corners(expected), self._labels
            least = _MIN_IOU[is_guess, is_sure]
            return _WEIGHTS[is_sure] * overlap_of_equals(mine, of_detections, least)

        overlap = overlaps()
        pairs = pair_most_first(overlap)
        shifts = (measured[pairs[1]] - expected[pairs[0]])[self._times_seen[pairs[0]] >= 2, :2]
        if len(shifts) >= _LEAST_OF_ALL:  # the camera yaws: looked for where all have gone
            expected[:, :2] += np.median(shifts, axis=0)
            overlap = overlaps()
            pairs = pair_most_first(overlap)
        old, new = exchange_pairs(overlap, *pairs)
        ids = np.zeros(count, np.int64)
        ids[new] = self._ids[old]
        born = ids == 0
        ids[born] = self._last_id + np.cumsum(born)[born]
        self._last_id += int(born.sum())
        self.evidence_s = stamp_s
        found = replace(detections, ids=ids)
        self._unsettled = partial(
            self._correct, found, stamp_s, measured, (state, variance), (old, new)
        )
        return found

    def settle(self) -> None:
        """Does what the last result is needed for by the next one alone, so that its answer need not wait."""
        unsettled, self._unsettled = self._unsettled, None
        if unsettled is not None:
            unsettled()

    def _correct(
        self,
        found: Detections,
        stamp_s: float,
        measured: np.ndarray,
        moved: tuple[np.ndarray, np.ndarray],
        same: tuple[np.ndarray, np.ndarray],
    ) -> None:
        """Takes in what was found: measured boxes of centres and sizes `[N, 4]`, state and variances moved on to them,
        and the pairs of objects of before and found ones that are the same."""
        state, variance = moved
        old, new = same
        count = len(found)
        deviation = np.tile(np.maximum(measured[:, 2:], 1.0), 2)  # one size
        born_state = np.stack([measured, np.zeros_like(measured)])
        born_variance = np.stack(
            [
                (_MEASUREMENT_NOISE * deviation) ** 2,
                np.zeros_like(measured),
                (_VELOCITY_NOISE * deviation) ** 2,
            ]
        )
        # What was there before, corrected, takes the place of what would be born.
        prior = variance[:, old]
        noise = born_variance[0, new]
        gains = prior[:2] / (prior[0] + noise)
        innovation = measured[new] - state[0, old]
        self._adapt(innovation**2 / (prior[0] + noise), self._times_seen[old])
        born_state[:, new] = state[:, old] + gains * innovation
        born_variance[:, new] = prior - gains[[0, 0, 1]] * prior[[0, 1, 1]]
        is_missed = stamp_s - self._seen_s <= _MOST_MISSED_S
        is_missed[old] = False
        missed = np.flatnonzero(is_missed)
        missed = missed[np.argsort(-self._decayed(stamp_s)[missed])][: max(0, MAX_OBJECTS - count)]
        self._state = np.concatenate([born_state, state[:, missed]], axis=1)
        self._variance = np.concatenate([born_variance, variance[:, missed]], axis=1)
        self._scores = np.concatenate([found.scores, self._scores[missed]])
        times_seen = np.ones(count, np.int64)
        times_seen[new] += self._times_seen[old]
        self._times_seen = np.concatenate([times_seen, self._times_seen[missed]])
        self._ids = np.concatenate([found.ids, self._ids[missed]])
        self._labels = np.concatenate([found.labels, self._labels[missed]])
        self._seen_s = np.concatenate([np.full(count, stamp_s), self._seen_s[missed]])

    def predict(self, stamp_s: float) -> Detections:
        """The objects as they should be at a time: moved on, clipped to the image, with decayed scores.

        Returns:
            Most certain first; none before the first update, and when the last one is too old.
        """
        self.settle()
        passed_s = self._passed_s(stamp_s)
        if passed_s is None or not len(self._scores):
            return Detections.none()
        boxes = np.clip(_corners(self._moved(passed_s)[0][0]), 0.0, self._limits_px)
        found = Detections(boxes, self._decayed(stamp_s), self._labels, self._ids)
        order = np.argsort(-found.scores, kind='stable')
        left_top, right_bottom = np.split(found.boxes_xyxy_px[order], 2, axis=1)
        return found.at(order[(right_bottom > left_top).all(axis=1)])  # those that still are in it

    def _adapt(self, innovations: np.ndarray, times_seen: np.ndarray) -> None:
        """Takes in squared innovations `[P, 4]`, in their variances, of objects that were seen so often before."""
        known = innovations[times_seen >= 2]  # before that the velocity is a guess
        if len(known):
            change = np.clip(
                np.minimum(known, _MOST_INNOVATION).mean(), 1.0 / _MOST_CHANGE, _MOST_CHANGE
            )
            self._process_noise = float(
                np.clip(self._process_noise * change**_AGILITY_GAIN, *_AGILITY_LIMITS)
            )

    def _decayed(self, stamp_s: float) -> np.ndarray:
        """Scores at a time, the lower the longer an object was not seen."""
        return self._scores * 0.5 ** ((stamp_s - self._seen_s) / _SCORE_HALF_LIFE_S)

    def _passed_s(self, stamp_s: float) -> float | None:
        """Time since the last result; None when there is nothing to go on from."""
        if self.evidence_s is None:
            return None
        passed_s = stamp_s - self.evidence_s
        if not 0.0 <= passed_s <= MAX_AGE_S:
            self.reset()
            return None
        return passed_s

    def _moved(self, passed_s: float) -> tuple[np.ndarray, np.ndarray]:
        """State and variances after some time."""
        position, velocity = self._state
        of_state, of_both, of_velocity = self._variance
        density = (
            self._process_noise * _ACCELERATION_NOISE * np.tile(np.maximum(position[:, 2:], 1.0), 2)
        ) ** 2
        return (
            np.stack([position + velocity * passed_s, velocity]),
            np.stack(
                [
                    of_state
                    + 2.0 * passed_s * of_both
                    + passed_s**2 * of_velocity
                    + density * passed_s**3 / 3.0,
                    of_both + passed_s * of_velocity + density * passed_s**2 / 2.0,
                    of_velocity + density * passed_s,
                ]
            ),
        )


def _centres(boxes_xyxy: np.ndarray) -> np.ndarray:
    """Corners to centre x, centre y, width and height: `[N, 4]`."""
    return np.hstack(
        [(boxes_xyxy[:, :2] + boxes_xyxy[:, 2:]) / 2.0, boxes_xyxy[:, 2:] - boxes_xyxy[:, :2]]
    )


def _corners(centres: np.ndarray) -> np.ndarray:
    """The reverse of `_centres`; sides below 0 are 0."""
    half = np.maximum(centres[:, 2:], 0.0) / 2.0
    return np.hstack([centres[:, :2] - half, centres[:, :2] + half])
