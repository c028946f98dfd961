"""Images that are shown to a detector one after the other: those of any source, or of a webcam by its number."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deadline_perception.extras.data.image_folder import file_of
from deadline_perception.extras.data.records import Sequence
from deadline_perception.extras.data.source import open_source

_CAMERA_RATE_HZ = 30.0  # of a camera that states none
_MOST_CAMERA_DIGITS = 3


@dataclass(frozen=True, eq=False)
class ShownImage:
    """One image.

    Attributes:
        name: within its source.
        stamp_ns: time of capture, > 0; 0 of images that have nothing to do with each other.
        file: that it lies in; None of a frame of a video, a bag or a camera.
    """

    name: str
    stamp_ns: int
    image_bgr: np.ndarray
    file: Path | None = None


@dataclass(frozen=True, eq=False)
class ShownSource:
    """What a user names.

    Attributes:
        name: of the source.
        count: of images; None of a camera, which ends when it is asked to.
        rate_hz: mean rate of the images.
        sequence: the images; None of a camera.
        camera: number of the webcam.
    """

    name: str
    count: int | None
    rate_hz: float
    sequence: Sequence | None = None
    camera: int = -1

    @property
    def is_video(self) -> bool:
        """Its images follow each other in time: a video, bag, drive or camera, not single images."""
        return self.sequence is None or any(
            file_of(frame.load_bgr) is None for frame in self.sequence.frames[:1]
        )

    def images(self, unreadable: Callable[[str], object] | None = None) -> Iterator[ShownImage]:
        """The images, each as soon as it is asked for.

        Args:
            unreadable: called with the reason for each single image that cannot be read, which is skipped; None: none is.

        Raises:
            ValueError: the camera gives none, or an image cannot be read.
        """
        if self.sequence is None:
            yield from _camera_images(self.camera)
            return
        for frame in self.sequence.frames:
            stamp_ns = frame.stamp_ns + 1 if self.is_video else 0
            try:
                image_bgr = frame.load_bgr()
            except ValueError as error:
                if unreadable is None or self.is_video:
                    raise
                unreadable(str(error))
                continue
            yield ShownImage(frame.name, stamp_ns, image_bgr, file_of(frame.load_bgr))


def open_shown(text: str, split: str | None = None) -> ShownSource:
    """Opens a source by its name; a number that is no file or folder is that of a webcam, as in /dev/video0.

    Raises:
        FileNotFoundError: nothing has that name.
        ValueError: it is of no known kind, its reader refuses it, its one image cannot be read, or there is no such
            camera.
    """
    if text.isdecimal() and len(text) <= _MOST_CAMERA_DIGITS and not Path(text).exists():
        capture = _open_camera(int(text))
        rate_hz = capture.get(5) or _CAMERA_RATE_HZ  # cv2.CAP_PROP_FPS
        capture.release()
        return ShownSource(f'camera{text}', None, rate_hz, camera=int(text))
    sequence = open_source(text, split=split)
    frames = sequence.frames
    if len(frames) == 1:
        frames[0].load_bgr()  # refused before a network is prepared for it
    seconds = (frames[-1].stamp_ns - frames[0].stamp_ns) / 1e9
    rate_hz = (len(frames) - 1) / seconds if seconds else 10.0
    return ShownSource(sequence.name, len(frames), rate_hz, sequence)


def _open_camera(number: int):
    from deadline_perception.core.opencv import cv2

    with suppress(AttributeError):  # of OpenCV that cannot be silenced yet
        cv2.utils.logging.setLogLevel(0)  # the error below says what is wrong
    capture = cv2.VideoCapture(number)
    if not capture.isOpened():
        capture.release()
        raise ValueError(
            f'webcam {number} (/dev/video{number}) cannot be opened: is it plugged in, may this user read it (group '
            f'video), and does no other program use it?'
        )
    return capture


def _camera_images(number: int) -> Iterator[ShownImage]:
    capture = _open_camera(number)
    try:
        index = 0
        while True:
            is_there, image_bgr = capture.read()
            if not is_there:
                raise ValueError(f'webcam {number} gives no images any more')
            yield ShownImage(f'{index:06d}', time.time_ns(), image_bgr)
            index += 1
    finally:
        capture.release()
