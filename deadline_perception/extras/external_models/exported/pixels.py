"""How an image becomes what the layers of a detector read, and how boxes come back to the image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deadline_perception.core.opencv import cv2
from deadline_perception.extras.external_models.exported.model_error import ModelError

LETTERBOX, CORNER, STRETCH = 'letterbox', 'letterbox-corner', 'stretch'
RESIZES, CHANNELS = (LETTERBOX, STRETCH, CORNER), ('rgb', 'bgr')
# Means and deviations in the order red, green, blue, in values from 0 to 255, by what they are known for.
RANGES = {
    '0 to 1': ((0.0, 0.0, 0.0), (255.0, 255.0, 255.0)),
    '0 to 255': ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    'ImageNet': ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375)),
    '-1 to 1': ((127.5, 127.5, 127.5), (127.5, 127.5, 127.5)),
    'Caffe': ((123.0, 117.0, 104.0), (1.0, 1.0, 1.0)),
}
MOST_SIDE_PX = 8192
_MOST_VALUE = 1e6  # of a mean or deviation
_FILL = 114  # grey beside a letterboxed image, as YOLO's training has it


@dataclass(frozen=True)
class InputForm:
    """How an image becomes what the layers read.

    Attributes:
        size: height and width in px; None: as the file says.
        resize: LETTERBOX keeps the proportions and fills what is left on both sides, CORNER on the right and below,
            STRETCH fills the input; empty: letterbox for a YOLO head, else stretch.
        channels: `rgb` or `bgr`.
        mean, deviation: of the channels, in their order and in values from 0 to 255; what is read is
            (pixel - mean) / deviation. By default from 0 to 1; 8-bit inputs take the pixels themselves.

    Raises:
        ModelError: a value is none of these.
    """

    size: tuple[int, int] | None = None
    resize: str = ''
    channels: str = 'rgb'
    mean: tuple[float, ...] = RANGES['0 to 1'][0]
    deviation: tuple[float, ...] = RANGES['0 to 1'][1]

    def __post_init__(self) -> None:
        for name in ('size', 'mean', 'deviation'):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.size is not None and (
            len(self.size) != 2
            or not all(isinstance(side, int) and 1 <= side <= MOST_SIDE_PX for side in self.size)
        ):
            raise ModelError(
                f'input size is {self.size}, expected height and width of 1 to {MOST_SIDE_PX} px'
            )
        if self.resize not in ('', *RESIZES) or self.channels not in CHANNELS:
            raise ModelError(
                f'resize is {self.resize!r} and channels {self.channels!r}, expected one of '
                f'{", ".join(RESIZES)} and one of {", ".join(CHANNELS)}'
            )
        numbers = (*self.mean, *self.deviation)
        are_numbers = all(
            isinstance(value, (int, float)) and abs(value) < _MOST_VALUE for value in numbers
        )
        if (
            not len(self.mean) == len(self.deviation) == 3
            or not are_numbers
            or min(self.deviation) <= 0
        ):
            raise ModelError(
                f'mean is {self.mean} and deviation {self.deviation}, expected three numbers within '
                f'{_MOST_VALUE:.0f} each, deviations above 0'
            )

    @classmethod
    def of_range(
        cls, size: tuple[int, int] | None, resize: str, channels: str, range_name: str
    ) -> InputForm:
        """The form of one of `RANGES`."""
        mean, deviation = RANGES[range_name]
        step = 1 if channels == 'rgb' else -1
        return cls(size, resize, channels, mean[::step], deviation[::step])

    @property
    def range_name(self) -> str:
        """The name of its mean and deviation in `RANGES`; empty where they have none."""
        step = 1 if self.channels == 'rgb' else -1
        values = self.mean[::step], self.deviation[::step]
        return next((name for name, known in RANGES.items() if values == known), '')

    @property
    def words(self) -> str:
        """The form in words: `rgb, 0 to 1, letterbox`."""
        return f'{self.channels}, {self.range_name or f"mean {self.mean}"}, {self.resize}'


@dataclass(frozen=True)
class Placement:
    """Where an image lies in the input.

    Attributes:
        width, height: in px of the input.
        left, top: px of the input beside and above it.
    """

    width: int
    height: int
    left: int = 0
    top: int = 0

    def to_image(self, boxes_xyxy: np.ndarray, image_size: tuple[int, int]) -> np.ndarray:
        """Boxes `[N, 4]` in px of the input -> in px of an image of that height and width."""
        factors = np.float32([image_size[1] / self.width, image_size[0] / self.height] * 2)
        return (boxes_xyxy - np.float32([self.left, self.top] * 2)) * factors


def placement(image_size: tuple[int, int], size: tuple[int, int], resize: str) -> Placement:
    """Where an image of a height and width lies in an input of a height and width."""
    (height, width), (rows, columns) = size, image_size
    if resize == STRETCH:
        return Placement(width, height)
    ratio = min(width / columns, height / rows)
    inner = (max(1, round(columns * ratio)), max(1, round(rows * ratio)))
    if resize == CORNER:
        return Placement(*inner)
    return Placement(*inner, (width - inner[0]) // 2, (height - inner[1]) // 2)


def place(image_bgr: np.ndarray, size: tuple[int, int], resize: str) -> np.ndarray:
    """An image uint8 `[H, W, 3]` of any size where `placement` has it, uint8 `[h, w, 3]`."""
    at = placement(image_bgr.shape[:2], size, resize)
    inner = _resized(image_bgr, (at.width, at.height))
    if (at.height, at.width) == tuple(size):
        return inner
    pixels = np.full((*size, 3), _FILL, np.uint8)
    pixels[at.top : at.top + at.height, at.left : at.left + at.width] = inner
    return pixels


def read_values(pixels_bgr: np.ndarray, form: InputForm) -> np.ndarray:
    """Placed pixels uint8 `[h, w, 3]` -> float32 `[h, w, 3]`, as the layers read them."""
    pixels = pixels_bgr if form.channels == 'bgr' else pixels_bgr[..., ::-1]
    return (pixels.astype(np.float32) - np.float32(form.mean)) / np.float32(form.deviation)


def _resized(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    return (
        image
        if image.shape[1::-1] == size
        else cv2.resize(image, size, interpolation=cv2.INTER_LINEAR)
    )
