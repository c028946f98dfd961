"""Single objects of annotated images with their surroundings, and pieces of background, for a classifier."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from deadline_perception.core.opencv import cv2
from deadline_perception.extras.data.records import Frame
from deadline_perception.extras.several_networks.classifier.classes import (
    BACKGROUND,
    REFINED,
    possible_classes,
)
from deadline_perception.extras.several_networks.classifier.crop import size_px

LEAST_PX = 8.0  # longer side of an object that is learnt from
_SURROUNDINGS = 2.2  # side of a view over the longer side of its box
_OVERLAP = 0.3  # intersection over union with an object up to which a window is background
_TRIES = 20

# A lamp that shines is bright and saturated, of its colour's hue (which counts 180 around; a near red lamp looks
# orange), and at its place: red above yellow above green.
_HUES = {
    'red_light': ((0, 20), (160, 180)),
    'yellow_light': ((21, 36),),
    'green_light': ((42, 95),),
}
_PLACES = {
    'red_light': (0.05, 0.42),
    'yellow_light': (0.34, 0.64),
    'green_light': (0.56, 0.95),
}  # shares of the height
_LEAST_GLOW = 0.15  # product of saturation and value, each in [0, 1], of a pixel that counts
_LEAST_SHARE = 0.02  # of the box, of pixels that count
_MIDDLE = (0.15, 0.85)  # columns that are looked at: beside the lamps lies what is behind the light
_JUDGED_PX = 10.0  # smaller lights show too few pixels of a lamp


@dataclass(frozen=True, eq=False)
class ObjectView:
    """One object, or none, with its surroundings.

    Attributes:
        image_bgr: uint8 `[h, w, 3]`.
        box_xyxy_px: of the object, within the image.
        classes: the classes that it may have; one where it is known.

    Raises:
        ValueError: there is no class.
    """

    image_bgr: np.ndarray
    box_xyxy_px: tuple[float, float, float, float]
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.classes:
            raise ValueError('an object has no class, expected at least one that it may have')

    @property
    def size_px(self) -> float:
        """Longer side of the box."""
        return size_px(self.box_xyxy_px)


def annotated_views(
    frames: Sequence[Frame], class_names: Sequence[str], *, backgrounds: int, seed: int = 0
) -> Iterator[ObjectView]:
    """The objects of annotated images that are no crowd and at least `LEAST_PX` long, and windows of background.

    Args:
        frames: annotated images.
        class_names: what their labels mean; objects of another class than the classifier knows are dropped.
        backgrounds: windows of each image that hold no object, drawn by chance; half of them lie beside an object.
        seed: of those windows.
    """
    for number, frame in enumerate(frames):
        image, known = frame.load_bgr(), frame.ground_truth
        for box, label, crowd in zip(
            known.boxes_xyxy_px.tolist(), known.labels.tolist(), known.crowd.tolist()
        ):
            name = class_names[label]
            if crowd or size_px(box) < LEAST_PX:
                continue
            try:
                classes = possible_classes(name)
            except ValueError:
                continue
            if name == 'traffic_light':
                classes = _lamp_classes(image, box)
            yield _view(image, box, classes)
        generator = np.random.default_rng([seed, number])
        for at in range(backgrounds):
            box = _background(generator, image.shape[:2], known.boxes_xyxy_px, beside=at % 2 == 0)
            if box is not None:
                yield _view(image, box, (BACKGROUND,))


def lit_lamp(light_bgr: np.ndarray) -> str | None:
    """The class of a traffic light, cut out by its box: that of the lamp that shines; None where that cannot be seen.

    For dark housings: it takes a yellow one for a yellow lamp. By eye, of 192 lights of the CARLA images, it names none
    wrongly.
    """
    height, width = light_bgr.shape[:2]
    middle = light_bgr[:, int(_MIDDLE[0] * width) : max(1, math.ceil(_MIDDLE[1] * width))]
    hue, saturation, value = cv2.split(cv2.cvtColor(middle, cv2.COLOR_BGR2HSV))
    glow = saturation.astype(np.float64) * value / 255.0**2
    glow[glow < _LEAST_GLOW] = 0.0
    found = {}
    for name, ranges in _HUES.items():
        own = np.where(
            np.any([(hue >= low) & (hue <= high) for low, high in ranges], axis=0), glow, 0.0
        )
        if np.mean(own > 0.0) >= _LEAST_SHARE:
            at = float((own.sum(1) @ (np.arange(height) + 0.5)) / own.sum() / height)
            found[name] = own.sum() * (_PLACES[name][0] <= at <= _PLACES[name][1])
    best = max(found, key=found.get, default=None)
    return best if best is not None and found[best] >= 0.6 * sum(found.values()) > 0.0 else None


def _lamp_classes(image: np.ndarray, box: Sequence[float]) -> tuple[str, ...]:
    """The classes that an annotated light may have: its colour where the pixels tell, else all."""
    left, top, right, bottom = (round(value) for value in box)
    light = image[
        max(0, top) : bottom, max(0, left) : right
    ]  # empty where the edge of the image leaves less than a pixel
    lamp = lit_lamp(light) if light.size and size_px(box) >= _JUDGED_PX else None
    return REFINED['traffic_light'] if lamp is None else (lamp,)


def _view(image: np.ndarray, box: Sequence[float], classes: tuple[str, ...]) -> ObjectView:
    """Cuts a box out with its surroundings, as far as the image goes."""
    left, top, right, bottom = box
    reach = _SURROUNDINGS * size_px(box) / 2
    x, y = (left + right) / 2, (top + bottom) / 2
    height, width = image.shape[:2]
    x0, y0 = max(0, int(x - reach)), max(0, int(y - reach))
    x1, y1 = min(width, int(x + reach) + 1), min(height, int(y + reach) + 1)
    return ObjectView(
        image[y0:y1, x0:x1].copy(), (left - x0, top - y0, right - x0, bottom - y0), classes
    )


def _background(
    generator: np.random.Generator, size: tuple[int, int], objects: np.ndarray, *, beside: bool
) -> tuple[float, float, float, float] | None:
    """A box that overlaps no object by much; None when none was found."""
    height, width = size
    for _ in range(_TRIES):
        side = float(np.exp(generator.uniform(np.log(LEAST_PX), np.log(96.0))))
        wide, tall = side * generator.uniform(0.35, 1.0, 2) ** generator.integers(0, 2, 2)
        x, y = (
            generator.uniform(0, max(0.0, width - wide)),
            generator.uniform(0, max(0.0, height - tall)),
        )
        if beside and len(objects):
            left, top, right, bottom = objects[generator.integers(len(objects))]
            x = generator.uniform(left - wide, right)
            y = generator.uniform(top - tall, bottom)
        box = (max(0.0, x), max(0.0, y), min(float(width), x + wide), min(float(height), y + tall))
        if (
            box[2] - box[0] >= 4
            and box[3] - box[1] >= 4
            and _largest_overlap(box, objects) <= _OVERLAP
        ):
            return box
    return None


def _largest_overlap(box: Sequence[float], others: np.ndarray) -> float:
    """Largest intersection over union of a box with others `[N, 4]`; 0 without any."""
    if not len(others):
        return 0.0
    low, high = np.maximum(others[:, :2], box[:2]), np.minimum(others[:, 2:], box[2:])
    shared = np.clip(high - low, 0, None).prod(1)
    areas = (others[:, 2:] - others[:, :2]).prod(1) + (box[2] - box[0]) * (box[3] - box[1])
    return float((shared / (areas - shared)).max())
