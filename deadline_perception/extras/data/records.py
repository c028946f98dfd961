"""What every driving sequence is read into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from deadline_perception.core.errors import printable_lines

Item = TypeVar('Item')
MAX_CLASSES = 10_000  # the largest vocabularies of published detection sets have about 1,200
_MAX_NAME = 100


def check_class_names(names: tuple[str, ...]) -> None:
    """Refuses a list of classes that no data set has, before anything is made of it.

    Raises:
        ValueError: there are more than `MAX_CLASSES`, or a name occurs twice, is empty, too long or not printable.
    """
    if len(names) > MAX_CLASSES:
        raise ValueError(f'there are {len(names)} class names, expected at most {MAX_CLASSES}')
    for name in names:
        if not isinstance(name, str) or not name.isprintable() or not 1 <= len(name) <= _MAX_NAME:
            raise ValueError(
                f'class name is {ascii(name)[:_MAX_NAME]}, expected 1 to {_MAX_NAME} printable characters'
            )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f'class name {twice!r} occurs {names.count(twice)} times, expected once')


@dataclass(frozen=True, eq=False)
class GroundTruth:
    """The objects that an image is known to hold.

    Attributes:
        boxes_xyxy_px: float32 `[N, 4]`, corners in pixels.
        labels: int64 `[N]`, index into the sequence's class names.
        crowd: bool `[N]`, True for a region that is neither a hit nor a miss (COCO `iscrowd`).

    Raises:
        ValueError: the arrays disagree in length, or a box is not finite.
    """

    boxes_xyxy_px: np.ndarray
    labels: np.ndarray
    crowd: np.ndarray

    def __post_init__(self) -> None:
        boxes = np.ascontiguousarray(self.boxes_xyxy_px, dtype=np.float32).reshape(-1, 4)
        labels = np.ascontiguousarray(self.labels, dtype=np.int64)
        crowd = np.ascontiguousarray(self.crowd, dtype=bool)
        if labels.shape != (len(boxes),) or crowd.shape != (len(boxes),):
            raise ValueError(
                f'{len(boxes)} boxes with labels {labels.shape} and crowd {crowd.shape}, '
                f'expected one of each per box'
            )
        if not np.isfinite(boxes).all():
            raise ValueError(
                f'a box is {boxes[~np.isfinite(boxes).all(1)][0].tolist()}, expected finite pixels'
            )
        object.__setattr__(self, 'boxes_xyxy_px', boxes)
        object.__setattr__(self, 'labels', labels)
        object.__setattr__(self, 'crowd', crowd)

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Frame:
    """One camera image of a sequence; its pixels are read when asked for.

    Attributes:
        name: unique within the sequence; letters that cannot be printed, as file names may have, are escaped.
        stamp_ns: time of capture, ns since the sequence's own epoch, >= 0.
        load_bgr: returns the image, uint8 `[height, width, 3]` in OpenCV's channel order.
        speed_mps: speed of the vehicle in m/s, None where it is not recorded.
        ground_truth: known objects, None where they are not annotated.
    """

    name: str
    stamp_ns: int
    load_bgr: Callable[[], np.ndarray]
    speed_mps: float | None = None
    ground_truth: GroundTruth | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, 'name', _one_line(self.name))
        if self.stamp_ns < 0:
            raise ValueError(
                f'stamp of frame {self.name!r} is {self.stamp_ns} ns, expected at least 0'
            )


@dataclass(frozen=True, eq=False)
class Sequence:
    """Frames in the order of their stamps.

    Attributes:
        name: what the sequence is called in reports; escaped as names of frames are.
        class_names: names that the labels of `GroundTruth` index; empty without annotations.
        frames: at least one frame, stamps strictly ascending.
        camera_matrix: intrinsics `[3, 3]` in px for all frames, None where they are not known.

    Raises:
        ValueError: no frame, stamps out of order, class names that are none, or a camera matrix of another shape.
    """

    name: str
    class_names: tuple[str, ...]
    frames: tuple[Frame, ...]
    camera_matrix: np.ndarray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, 'name', _one_line(self.name))
        if not self.frames:
            raise ValueError(f'sequence {self.name!r} holds no frame, expected at least one')
        check_class_names(self.class_names)
        for before, after in zip(self.frames, self.frames[1:]):
            if after.stamp_ns <= before.stamp_ns:
                raise ValueError(
                    f'stamp of frame {after.name!r} is {after.stamp_ns} ns, expected more than '
                    f'{before.stamp_ns} ns, the stamp of the frame before it'
                )
        if self.camera_matrix is not None and np.shape(self.camera_matrix) != (3, 3):
            raise ValueError(
                f'camera matrix of sequence {self.name!r} has shape {np.shape(self.camera_matrix)}, '
                f'expected (3, 3)'
            )


def _one_line(name: str) -> str:
    return printable_lines(name.replace('\n', '\\n'))


def spread_evenly(frames: list[Item], count: int) -> list[Item]:
    """So many of the frames, distributed evenly over them; all where there are no more."""
    if count >= len(frames):
        return frames
    return [frames[int((index + 0.5) * len(frames) / count)] for index in range(count)]
