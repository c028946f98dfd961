"""What annotation files say of the objects of one image, repaired where that is possible and counted where not."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from deadline_perception.core.errors import printable
from deadline_perception.extras.data.image_size import image_size
from deadline_perception.extras.data.records import GroundTruth

MAX_IMAGE_PX = 65_535  # of a side, the most that a JPEG file holds
_MOST_REPAIRS_TOLD = 20


def are_upright(file: Path, image: Path, stated: tuple[int, int] | None) -> bool:
    """Whether boxes were drawn on an image as its camera was held, and not as it is stored.

    Args:
        file: of the boxes, for errors.
        image: its file.
        stated: width and height in px of what they were drawn on; None where that is not known.

    Raises:
        ValueError: the image is missing, or of another size in both ways.
    """
    sizes = [image_size(image, upright=upright) for upright in (False, True)]
    if stated is not None and stated not in sizes:
        raise ValueError(
            f'{file}: image {image.name} is {sizes[0][0]} x {sizes[0][1]} px, expected {stated[0]} x {stated[1]} px, '
            f'as its boxes are meant for'
        )
    return stated is not None and stated != sizes[0]


class GroundTruthCollector:
    """Gathers the boxes of one data set image by image; `report` says once what had to be repaired.

    Args:
        source: what the warning and errors call the data set.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._repairs: Counter[str] = Counter()

    def collect(
        self,
        boxes_xyxy_px: list[list[float]],
        labels: list[int],
        crowd: list[bool],
        width: int,
        height: int,
    ) -> GroundTruth:
        """The boxes of one image, those that reach over its edge clipped, those outside it or without area dropped.

        Raises:
            ValueError: a box is NaN or infinite, or the image has no such size.
        """
        if not (0 < width <= MAX_IMAGE_PX and 0 < height <= MAX_IMAGE_PX):
            raise ValueError(
                f'{self._source}: an image is {width} x {height} px, expected 1 to {MAX_IMAGE_PX} px each'
            )
        boxes = np.asarray(boxes_xyxy_px, dtype=np.float64).reshape(-1, 4)
        if not np.isfinite(boxes).all():
            bad = boxes[~np.isfinite(boxes).all(1)][0].tolist()
            raise ValueError(
                f'{self._source}: box {bad} holds NaN or infinity, expected finite pixels'
            )
        clipped = np.clip(boxes, 0, (width, height, width, height))
        # rounding of a tenth of a pixel is no repair worth a warning
        outside = (np.abs(clipped - boxes) > 0.1).any(1)
        kept = (clipped[:, 2] > clipped[:, 0]) & (clipped[:, 3] > clipped[:, 1])
        solid = (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
        self._repairs['clipped to the image'] += int((outside & kept).sum())
        self._repairs['outside the image dropped'] += int((solid & ~kept).sum())
        self._repairs['without area dropped'] += int((~solid).sum())
        return GroundTruth(
            clipped[kept], np.asarray(labels, np.int64)[kept], np.asarray(crowd, bool)[kept]
        )

    def leave_out(self, category: str) -> None:
        """Notes a box whose category the format of the data set does not have, and which is dropped."""
        self._repairs[f'of unknown category {category!r} dropped'] += 1

    def without_box(self) -> None:
        """Notes an object that the file gives no box, as one that is segmented alone, and which is dropped."""
        self._repairs['not given, their objects dropped'] += 1

    def report(self) -> None:
        """Warns, once for the whole data set, when anything was repaired or dropped."""
        repairs = [(what, count) for what, count in self._repairs.items() if count]
        counts = [
            f'{count} boxes {printable(what, 100)}' for what, count in repairs[:_MOST_REPAIRS_TOLD]
        ]
        if len(repairs) > _MOST_REPAIRS_TOLD:
            counts.append(
                f'{sum(count for _, count in repairs[_MOST_REPAIRS_TOLD:])} boxes for other reasons'
            )
        if counts:
            warnings.warn(f'{self._source}: {", ".join(counts)}', stacklevel=3)
