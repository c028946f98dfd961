"""How often a nested classifier is right, by level and by the size of the object in px."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.opencv import cv2
from deadline_perception.extras.rendered_drive.object_views import ObjectView
from deadline_perception.extras.several_networks.classifier.crop import crop_box

SIZES_PX = (8, 12, 16, 20, 24, 32, 48, 64)
_OR = ' or '


@dataclass(frozen=True, eq=False)
class CropAccuracy:
    """Shares of objects whose best class is one that they may have.

    Attributes:
        paths: the levels, ascending.
        sizes_px: longer side of the objects; the largest stands for all larger ones.
        objects: number of each class at each size, `[classes, sizes]`; a class is one row, several possible ones
            another.
        right: of these, the share that each level finds, `[levels, classes, sizes]`; NaN where there is no object.
        class_names: of the rows; of several possible classes with `or`.
    """

    paths: tuple[ExecutionPath, ...]
    sizes_px: tuple[int, ...]
    objects: np.ndarray
    right: np.ndarray
    class_names: tuple[str, ...]

    def accuracy(self, names: Sequence[str] | None = None) -> np.ndarray:
        """Mean over classes of the share that is right, `[levels, sizes]`: all classes weigh the same.

        Objects that may be of several classes do not count. NaN at sizes where no class has an object.

        Args:
            names: the classes that count; all without.
        """
        rows = [
            row
            for row, name in enumerate(self.class_names)
            if _OR not in name and (names is None or name in names)
        ]
        known = (self.objects[rows] > 0).sum(0)
        return np.divide(
            np.nansum(self.right[:, rows], axis=1),
            known,
            where=known > 0,
            out=np.full((len(self.paths), len(self.sizes_px)), np.nan),
        )


def measure_accuracy(
    network,
    views: Sequence[ObjectView],
    sizes_px: Sequence[int] = SIZES_PX,
    progress: Callable[[int, int], None] | None = None,
) -> CropAccuracy:
    """Shows every object at every size that is no larger than itself to every level. Blocks.

    Args:
        network: a nested classifier; see `extras/several_networks/classifier/network.py`.
        views: objects and pieces of background that it was not trained on.
        sizes_px: longer sides to which objects are shrunk, ascending.
        progress: called with how many of how many objects have been shown.

    Raises:
        ValueError: a size has no object.
    """
    paths = tuple(network.path_space)
    names = tuple(dict.fromkeys(_OR.join(view.classes) for view in views))
    hits = np.zeros((len(paths), len(names), len(sizes_px)))
    counts = np.zeros((len(names), len(sizes_px)), np.int64)
    for done, view in enumerate(views, 1):
        row = names.index(_OR.join(view.classes))
        crop = crop_box(view.image_bgr, view.box_xyxy_px)
        for column, size in enumerate(sizes_px):
            if view.size_px < size * 0.97:  # a box is seldom exactly so long
                break
            counts[row, column] += 1
            seen = shrunk(crop, size / view.size_px)
            for level, path in enumerate(paths):
                best = network.class_names[int(np.argmax(network.detect(seen, path).scores))]
                hits[level, row, column] += best in view.classes
        if progress is not None:
            progress(done, len(views))
    known = counts[[row for row, name in enumerate(names) if _OR not in name]]
    empty = [size for column, size in enumerate(sizes_px) if not known[:, column].any()]
    if empty:
        raise ValueError(
            f'no object of a known class is {empty[0]} px long or longer, expected some at each of '
            f'{tuple(sizes_px)} px'
        )
    right = np.divide(hits, counts, out=np.full_like(hits, np.nan), where=counts > 0)
    return CropAccuracy(paths, tuple(sizes_px), counts, right, names)


def shrunk(crop_bgr: np.ndarray, scale: float) -> np.ndarray:
    """A crop as a camera further away would have seen it: at least 1 px; itself where `scale` of its sides is 1 or
    more."""
    height, width = (max(1, round(side * min(1.0, scale))) for side in crop_bgr.shape[:2])
    return cv2.resize(crop_bgr, (width, height), interpolation=cv2.INTER_AREA)
