"""Images of one class each, for classifiers: a folder with one folder per class, or the objects cut out of a
sequence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deadline_perception.core.images.image_file import load_image
from deadline_perception.core.opencv import cv2
from deadline_perception.extras.data.records import Sequence, check_class_names

_LEAST_SIDE_PX = 8  # width and height of an object that is cut out
_BORDER = 0.1  # shown around an object on each side, in shares of its width and height
_ENDINGS = {'.jpg', '.jpeg', '.png', '.bmp', '.webp'}


@dataclass(frozen=True, eq=False)
class ClassImages:
    """Images of one size, each of one class.

    Attributes:
        images: uint8 `[N, H, W, 3]`, BGR; at least one.
        labels: int64 `[N]`, index into the class names.
        class_names: what the labels mean.

    Raises:
        ValueError: there is no image, or images, labels and class names do not fit each other.
    """

    images: np.ndarray
    labels: np.ndarray
    class_names: tuple[str, ...]

    def __post_init__(self) -> None:
        check_class_names(self.class_names)
        images, labels = self.images, self.labels
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3 or not len(images):
            raise ValueError(
                f'images are {images.dtype} {images.shape}, expected uint8 [N, H, W, 3] with N at least 1'
            )
        if (
            labels.shape != (len(images),)
            or not ((labels >= 0) & (labels < len(self.class_names))).all()
        ):
            raise ValueError(
                f'labels have the shape {labels.shape}, expected {len(images)} indices of '
                f'{len(self.class_names)} class names'
            )

    def __len__(self) -> int:
        return len(self.labels)


def read_class_folders(
    folder: Path, size: tuple[int, int], limit: int | None = None
) -> ClassImages:
    """Reads a folder that holds one folder of images for each class.

    Args:
        folder: whose folders are named as the classes are; these come in the order of their names. Hidden ones and
            hidden files are dropped.
        size: height and width in px that images are resized to.
        limit: most images of one class, distributed evenly over its files; None for all.

    Raises:
        ValueError: the folder does not hold two folders with images, or a file is no image.
    """
    folders = sorted(entry for entry in Path(folder).glob('[!.]*') if entry.is_dir())
    images, labels = [], []
    for label, entry in enumerate(folders):
        files = sorted(file for file in entry.glob('[!.]*') if file.suffix.lower() in _ENDINGS)
        if limit is not None and len(files) > limit:
            files = [files[index * len(files) // limit] for index in range(limit)]
        for file in files:
            images.append(
                cv2.resize(load_image(file, upright=True), size[::-1], interpolation=cv2.INTER_AREA)
            )
            labels.append(label)
    if len(set(labels)) < 2:
        raise ValueError(
            f'{folder} holds images of {len(set(labels))} classes, expected a folder of images for each '
            f'of at least two'
        )
    return ClassImages(np.stack(images), np.array(labels), tuple(entry.name for entry in folders))


def cut_objects(sequence: Sequence, size: tuple[int, int]) -> ClassImages:
    """Cuts the known objects out of frames and resizes them to height and width in px; crowd regions and small objects
    are dropped.

    Raises:
        ValueError: there is no such object.
    """
    images, labels = [], []
    for frame in sequence.frames:
        known = frame.ground_truth
        if known is None or not len(known):
            continue
        image = frame.load_bgr()
        for box, label, crowd in zip(known.boxes_xyxy_px, known.labels, known.crowd):
            left, top, right, bottom = box
            if crowd or min(right - left, bottom - top) < _LEAST_SIDE_PX:
                continue
            dx, dy = _BORDER * (right - left), _BORDER * (bottom - top)
            part = image[
                max(0, int(top - dy)) : int(np.ceil(bottom + dy)),
                max(0, int(left - dx)) : int(np.ceil(right + dx)),
            ]
            images.append(cv2.resize(part, size[::-1], interpolation=cv2.INTER_AREA))
            labels.append(int(label))
    if not images:
        raise ValueError(
            f'{sequence.name} holds no object of at least {_LEAST_SIDE_PX} px, expected annotated frames'
        )
    return ClassImages(np.stack(images), np.array(labels), sequence.class_names)
