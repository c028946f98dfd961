"""What the classifier is given of an object: a square window around its box. Needs no torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deadline_perception.engines.segment_run import check_image

# Side of the window over the longer side of the box: signs are distinguished by their outline, which the border shows.
WINDOW = 1.2
# A side beyond twice this is read at every second pixel, and so on: near objects cost no more than others.
_MOST_PX = 128
LONGEST_BOX_PX = 1e6  # a longer one is no object, and its pixels could not be numbered


def size_px(box_xyxy_px: Sequence[float]) -> float:
    """Longer side of a box in px, by which accuracy is measured (thesis, Problem 3.1: the width of the image)."""
    left, top, right, bottom = box_xyxy_px
    return max(right - left, bottom - top)


def crop_box(
    image_bgr: np.ndarray, box_xyxy_px: Sequence[float], window: float = WINDOW
) -> np.ndarray:
    """The pixels of a square window around a box; beyond the image, its outermost pixels go on.

    Args:
        image_bgr: uint8 `[H, W, 3]`.
        box_xyxy_px: left, top, right, bottom; may reach over the image.
        window: side of the window over the longer side of the box.

    Returns:
        uint8 `[s, s, 3]` with s from 1 to 255.

    Raises:
        ValueError: the image is none, the box is empty, longer than `LONGEST_BOX_PX` or not finite, or lies outside the
            image.
    """
    check_image(image_bgr)
    height, width = image_bgr.shape[:2]
    left, top, right, bottom = (float(value) for value in box_xyxy_px)
    if not (
        left < right
        and top < bottom
        and left < width
        and top < height
        and right > 0
        and bottom > 0
        and size_px((left, top, right, bottom)) <= LONGEST_BOX_PX
    ):
        raise ValueError(
            f'box is ({left:g}, {top:g}, {right:g}, {bottom:g}) px, expected left < right and top < '
            f'bottom, sides of at most {LONGEST_BOX_PX:g} px and a part of it within the image of '
            f'{width} x {height} px'
        )
    side = max(1, round(window * size_px((left, top, right, bottom))))
    first_row, first_column = round((top + bottom - side) / 2), round((left + right - side) / 2)
    step = max(1, side // _MOST_PX)
    rows = np.arange(first_row, first_row + side, step).clip(0, height - 1)
    columns = np.arange(first_column, first_column + side, step).clip(0, width - 1)
    return image_bgr[rows[:, None], columns]
