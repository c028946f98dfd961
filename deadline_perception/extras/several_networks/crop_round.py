"""Crops of one image: classified within the time that is left, most important ones first; and the one that a task of
crops is given. Free of ROS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from deadline_perception.core.detections import Classification, Detections
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.extras.several_networks.classifier.classes import REFINED
from deadline_perception.extras.several_networks.classifier.crop import crop_box, size_px
from deadline_perception.runtime.task import Task

LIKELY = 0.5  # score of objects that are handed on: more likely there than not


@dataclass(frozen=True, eq=False)
class CropRound:
    """What came of the boxes of one image, in the order in which they were given.

    Attributes:
        results: of each box; None where the time was not enough, or the box cannot be cut out.
        paths: on which each was computed; None where it was not.
        refused: number of boxes that cannot be cut out.
    """

    results: tuple[Classification | None, ...]
    paths: tuple[ExecutionPath | None, ...]
    refused: int


def importance_order(
    boxes_xyxy_px: Sequence[Sequence[float]], class_names: Sequence[str]
) -> list[int]:
    """Places of boxes, most important first: those whose class can be refined, then larger ones (what is near looks
    large, and the weight of an object grows with its size: thesis, Problem 3.1), then those that stand nearer.

    Args:
        boxes_xyxy_px: `[N, 4]`.
        class_names: of each.
    """
    keys = [
        (name not in REFINED, -size_px(box), -box[3])
        for box, name in zip(boxes_xyxy_px, class_names)
    ]
    return sorted(range(len(keys)), key=keys.__getitem__)


class CropClassifier:
    """Runs a classifier's task, one job per box; the level of a job is chosen right before it starts.

    Each box gets an equal part of the time that is left then, so that what one leaves over goes to those behind it. A
    box whose part is shorter than the bound of every level gets the lowest one, while that fits what is left for all. A
    job that overruns the deadline ends after its segment. The calibrator learns from every job.

    Args:
        task: of a network whose runs give a `Classification`.
        clock_ms: monotonic clock.
    """

    def __init__(self, task: Task, clock_ms: Callable[[], float] = now_ms) -> None:
        self._task, self._clock_ms = task, clock_ms

    def run(
        self,
        image_bgr: np.ndarray,
        boxes_xyxy_px: Sequence[Sequence[float]],
        order: Sequence[int],
        *,
        until_ms: float,
        slowdown: float = 1.0,
    ) -> CropRound:
        """Classifies as many boxes as the time allows; blocks until then at most, but for one segment.

        Args:
            image_bgr: uint8 `[H, W, 3]`.
            boxes_xyxy_px: `[N, 4]`.
            order: places of the boxes, most important first; those that are not named are left out.
            until_ms: time of the monotonic clock by which the last one must be done.
            slowdown: factor >= 1 of contention on every forecast.
        """
        results: list[Classification | None] = [None] * len(boxes_xyxy_px)
        paths: list[ExecutionPath | None] = [None] * len(boxes_xyxy_px)
        refused = 0
        task, times = self._task, self._task.times
        for done, at in enumerate(order):
            begun_ms = self._clock_ms()
            time_left_ms = until_ms - begun_ms
            factor = times.begin(slowdown, keeps_bounds=False).factor
            choice = task.policy.plan(time_left_ms / (len(order) - done), factor)
            if choice.bound_ms > time_left_ms:
                break
            try:
                crop = crop_box(image_bgr, boxes_xyxy_px[at])
            except ValueError:  # another program's box, such as one outside the image
                refused += 1
                continue
            results[at] = self._job(crop, choice.path, until_ms)
            took_ms = self._clock_ms() - begun_ms
            if results[at] is None:
                rest_ms = choice.forecast_ms * slowdown
                if took_ms + rest_ms > choice.bound_ms:
                    times.calibrator.observe(choice.forecast_ms * slowdown, None)
                break
            paths[at] = choice.path
            times.calibrator.observe(choice.forecast_ms * slowdown, took_ms)
            task.policy.observe(took_ms, time_left_ms)
        return CropRound(tuple(results), tuple(paths), refused)

    def _job(
        self, crop_bgr: np.ndarray, path: ExecutionPath, until_ms: float
    ) -> Classification | None:
        """The result of one crop; None once the deadline passed before its last segment."""
        run = self._task.network.start(crop_bgr, path)
        while not run.finished:
            if run.segment and self._clock_ms() > until_ms:
                return None
            run.run_segment()
        return run.result()


@dataclass(frozen=True, eq=False)
class Crop:
    """What a task of crops is given in the place of an image message.

    Attributes:
        pixels_bgr: uint8 `[h, w, 3]`.
        header: of the image that they are of.
    """

    pixels_bgr: np.ndarray
    header: object


def most_important_crop(image_bgr: np.ndarray, found: Detections) -> np.ndarray | None:
    """The window that a classifier is given of the largest likely object: what is near looks large, and weighs the
    square of its size (thesis, problem 3.1). None without any.

    Args:
        image_bgr: uint8 `[H, W, 3]`.
        found: objects in it.
    """
    likely = found.with_score(LIKELY)
    if not len(likely):
        return None
    corners = np.clip(likely.boxes_xyxy_px, 0, [*image_bgr.shape[1::-1]] * 2)
    areas = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    largest = int(np.argmax(areas))
    return crop_box(image_bgr, corners[largest].tolist()) if areas[largest] > 0 else None
