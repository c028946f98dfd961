"""Batches of crops for the nested classifier: drawn evenly over classes, moved, shrunk, blurred and lit by chance."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deadline_perception.core.opencv import cv2
from deadline_perception.extras.evaluation.crop_accuracy import shrunk
from deadline_perception.extras.rendered_drive.object_views import ObjectView
from deadline_perception.extras.several_networks.classifier.classes import BACKGROUND, LAMPS
from deadline_perception.extras.several_networks.classifier.crop import WINDOW, crop_box

SMALLEST_PX, LARGEST_PX = 8.0, 64.0  # longer sides that are trained
# Of the samples, against that of any other class. Objects whose class is not known are few, and would be learnt by
# heart.
_BACKGROUND_SHARE, _UNSURE_SHARE = 3.0, 0.1
_JITTER = 0.08  # of box corners, in sides of the box: a detector's boxes are not exact
_MIRRORED = (
    'vehicle',
    'bike',
    'motorbike',
    'person',
    BACKGROUND,
    *LAMPS,
)  # signs read otherwise in a mirror


@dataclass(frozen=True, eq=False)
class CropBatch:
    """What one step learns from.

    Attributes:
        crops: uint8 `[N, s, s, 3]`, BGR.
        possible: bool `[N, C]`, the classes that each may have.
    """

    crops: np.ndarray
    possible: np.ndarray


class CropSource:
    """Draws training crops from views of objects.

    Args:
        groups: views by where they come from; a class that several know is drawn from each equally often.
        class_names: of the classifier.
        input_px: side of the crops.

    Raises:
        ValueError: there is no view, or one of a class that the classifier does not have.
    """

    def __init__(
        self, groups: Sequence[Sequence[ObjectView]], class_names: Sequence[str], input_px: int
    ) -> None:
        self.class_names, self.input_px = tuple(class_names), input_px
        pools: dict[tuple[str, ...], list[list[ObjectView]]] = {}
        for group in groups:
            by_classes: dict[tuple[str, ...], list[ObjectView]] = {}
            for view in group:
                unknown = set(view.classes) - set(class_names)
                if unknown:
                    raise ValueError(
                        f'a view is of class {sorted(unknown)[0]!r}, expected one of '
                        f'{", ".join(class_names)}'
                    )
                by_classes.setdefault(view.classes, []).append(view)
            for classes, views in by_classes.items():
                pools.setdefault(classes, []).append(views)
        if not pools:
            raise ValueError(
                'there is no view, expected at least one object or background to learn from'
            )
        self._pools = list(pools.values())
        weights = np.array(
            [
                _BACKGROUND_SHARE
                if classes == (BACKGROUND,)
                else 1.0
                if len(classes) == 1
                else _UNSURE_SHARE
                for classes in pools
            ]
        )
        self._chances = weights / weights.sum()
        self._possible = np.array([[name in classes for name in class_names] for classes in pools])
        self.counts = {
            ' or '.join(classes): sum(map(len, views)) for classes, views in pools.items()
        }

    def __len__(self) -> int:
        return sum(self.counts.values())

    @property
    def digest(self) -> str:
        """Identifies the views: their pixels and what they are known to show."""
        digest = hashlib.sha256(json.dumps([self.class_names, self.input_px, self.counts]).encode())
        for pool in self._pools:
            for view in (view for views in pool for view in views):
                digest.update(view.image_bgr.tobytes())
                digest.update(np.rint(np.array(view.box_xyxy_px) * 10).astype(np.int32).tobytes())
        return digest.hexdigest()[:16]

    def draw(self, generator: np.random.Generator, count: int) -> CropBatch:
        """So many crops; equal generators give equal ones."""
        rows = generator.choice(len(self._pools), size=count, p=self._chances)
        crops = np.empty((count, self.input_px, self.input_px, 3), np.uint8)
        for number, row in enumerate(rows):
            groups = self._pools[row]
            views = groups[generator.integers(len(groups))]
            crops[number] = augmented(
                views[generator.integers(len(views))], generator, self.input_px
            )
        return CropBatch(crops, self._possible[rows])


def augmented(view: ObjectView, generator: np.random.Generator, input_px: int) -> np.ndarray:
    """A crop of a view as a camera could have seen it: uint8 `[s, s, 3]`."""
    corners = np.array(view.box_xyxy_px) + generator.normal(0, _JITTER, 4) * view.size_px
    if min(corners[2] - corners[0], corners[3] - corners[1]) < 0.5 * view.size_px * 0.3:
        corners = np.array(view.box_xyxy_px)
    try:
        crop = crop_box(view.image_bgr, corners, WINDOW * float(np.exp(generator.normal(0, 0.06))))
    except ValueError:  # moved out of the image
        crop = crop_box(view.image_bgr, view.box_xyxy_px)
    if set(view.classes) <= set(_MIRRORED) and generator.random() < 0.5:
        crop = crop[:, ::-1]
    largest = min(LARGEST_PX, view.size_px)
    if largest > SMALLEST_PX and generator.random() < 0.8:
        size = float(np.exp(generator.uniform(np.log(SMALLEST_PX), np.log(largest))))
        crop = shrunk(crop, size / view.size_px)
    crop = _lit(np.ascontiguousarray(crop), generator)
    shrinks = min(crop.shape[:2]) >= input_px
    return cv2.resize(
        crop, (input_px, input_px), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    )


def _lit(image: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Random brightness, contrast and tint, then blur and noise. Hue stays: lamps are known by it."""
    if generator.random() < 0.8:
        gain = generator.uniform(0.6, 1.4) * generator.normal(1.0, 0.07, 3)
        brighter = np.float32(generator.uniform(-25, 25))
        image = np.clip(image * gain.astype(np.float32) + brighter, 0, 255).astype(np.uint8)
    if generator.random() < 0.4:
        image = cv2.GaussianBlur(
            image, (0, 0), float(generator.uniform(0.3, 0.012 * max(image.shape[:2]) + 0.5))
        )
    if generator.random() < 0.5:
        noise = generator.normal(0, generator.uniform(1, 10), image.shape)
        image = np.clip(image + noise, 0, 255).astype(np.uint8)
    return image
