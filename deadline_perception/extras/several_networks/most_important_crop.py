"""The crop of an image that a task of crops is given. Free of ROS."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.extras.several_networks.classifier.crop import crop_box

LIKELY = 0.5  # score of objects that are handed on: more probably there than not


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
    """The window that a classifier is given of the largest probable object: what is near looks large, and weighs the
    square of its size (thesis, problem 3.1). None without any.

    Args:
        image_bgr: uint8 `[H, W, 3]`.
        found: objects in it.
    """
    confident = found.with_score(LIKELY)
    if not len(confident):
        return None
    corners = np.clip(confident.boxes_xyxy_px, 0, [*image_bgr.shape[1::-1]] * 2)
    areas = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
    largest = int(np.argmax(areas))
    return crop_box(image_bgr, corners[largest].tolist()) if areas[largest] > 0 else None
