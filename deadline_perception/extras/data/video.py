"""Video files as sequences."""

from __future__ import annotations

import math
import threading
from functools import partial
from pathlib import Path

import numpy as np

from deadline_perception.core.opencv import cv2
from deadline_perception.core.records import Frame, Sequence
from deadline_perception.core.untrusted_file import FileRefused, check_kind

SKIP_BY_DECODING = 30


class VideoFrames:
    """Random access to the images of a video; reading them in order decodes each once. Safe to share by threads."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._capture = cv2.VideoCapture(str(file))
        self._next = 0
        if not self._capture.isOpened():
            raise ValueError(f'{file} cannot be opened, expected a video that OpenCV decodes')
        self.rate_hz = float(self._capture.get(cv2.CAP_PROP_FPS))
        if not (math.isfinite(self.rate_hz) and 0 < self.rate_hz <= 1000):
            raise ValueError(
                f'{file} states {self.rate_hz} frames per second, expected more than 0 and at most 1000'
            )
        self.count = self._count()

    def _count(self) -> int:
        """As many as can be decoded: containers may promise more."""
        promised = int(self._capture.get(cv2.CAP_PROP_FRAME_COUNT))
        if promised > 0:
            self._capture.set(cv2.CAP_PROP_POS_FRAMES, promised - 1)
            readable = self._capture.grab()
            self._reopen()
            if readable:
                return promised
        count = 0
        while self._capture.grab():
            count += 1
        self._reopen()
        if not count:
            raise ValueError(f'{self._file} holds no frame that can be decoded')
        return count

    def _reopen(self) -> None:
        self._capture.release()
        self._capture = cv2.VideoCapture(str(self._file))
        self._next = 0

    def load(self, index: int) -> np.ndarray:
        """Image number `index`, uint8 `[height, width, 3]` BGR.

        Raises:
            ValueError: it cannot be decoded.
        """
        with self._lock:
            if index < self._next:
                self._reopen()
            if index - self._next > SKIP_BY_DECODING:
                self._capture.set(cv2.CAP_PROP_POS_FRAMES, index)
                self._next = index
            while self._next < index and self._capture.grab():
                self._next += 1
            decoded, image = self._capture.read()
            if not decoded:
                raise ValueError(
                    f'frame {index} of {self._file} cannot be decoded, {self.count} were counted'
                )
            self._next = index + 1
        return image


def read_video(file: Path) -> Sequence:
    """Frames of a video, their stamps from its frame rate; neither speed nor boxes are known.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is no video, or states no frame rate.
    """
    file = Path(file)
    if not file.exists():
        raise FileNotFoundError(f'{file} does not exist, expected a video file')
    try:
        check_kind(file)
    except FileRefused as error:
        raise ValueError(f'{file} cannot be read, expected a video file: {error}') from error
    video = VideoFrames(file)
    return Sequence(
        file.stem,
        (),
        tuple(
            Frame(
                f'{file.stem}_{index:06d}',
                round(index * 1e9 / video.rate_hz),
                partial(video.load, index),
            )
            for index in range(video.count)
        ),
    )
