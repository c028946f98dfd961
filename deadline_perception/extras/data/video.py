"""Video files as sequences."""

from __future__ import annotations

import math
import threading
import warnings
from bisect import bisect_right
from functools import partial
from pathlib import Path

import numpy as np

from deadline_perception.core.opencv import MOST_PX, cv2
from deadline_perception.core.untrusted_file import FileRefused, check_kind
from deadline_perception.extras.data.records import Frame, Sequence

SKIP_BY_DECODING = 30
_MOST_FRAMES = 4_000_000  # 37 hours at 30 Hz
_SAME_MS = 1e-3
_COMPARED = (
    60  # frames that have to be decoded at the times of the packets before these are believed
)
_COUNTED = ('.mp4', '.mov', '.m4v', '.avi')  # whose headers say how many frames there are
_WHOLE = 0.9  # of them that are there: some hide a few
_EARLIER_MS = (500.0, 5000.0)  # than the frame that is sought: key frames lie before it
_BGR_24 = int.from_bytes(b'BGR\x18', 'little')  # as OpenCV names a decoder's format
_UPSIDE_DOWN = b'BottomUp\0'  # what FFmpeg notes of rows that are stored so


class VideoFrames:
    """Random access to the images of a video; reading them in order decodes each once. Safe to share by threads.

    Frames are known by the times that the container gives them, which no number and rate tells where the rate varies.

    Attributes:
        times_ms: of each frame from the beginning of the video, rising.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._path = opencv_path(file)
        self._lock = threading.Lock()
        self._rows: slice | None = None
        self._reopen()
        if not self._capture.isOpened():
            raise ValueError(f'{file} cannot be opened, expected a video that OpenCV decodes')
        width, height = (
            self._capture.get(side)
            for side in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT)
        )
        if width * height > MOST_PX:
            raise ValueError(
                f'{file} is {width:.0f} x {height:.0f} px, expected at most {MOST_PX} px'
            )
        self._shape = int(height), int(width), 3
        self._rows = self._stored_rows()
        self._known_ms: list[float] = []  # of each frame by number, where these rise
        listed_ms = self._packet_times_ms()
        times_ms = listed_ms if self._are_decoded(listed_ms) else self._decoded_times_ms()
        if not times_ms:
            raise ValueError(f'{file} holds no frame that can be decoded')
        stated = self._capture.get(cv2.CAP_PROP_FRAME_COUNT)
        if file.suffix.lower() in _COUNTED and len(times_ms) < _WHOLE * stated:
            warnings.warn(
                f'{file} is cut off: {len(times_ms)} of its {stated:.0f} frames are read',
                stacklevel=2,
            )
        self._known_ms = times_ms if _rise(times_ms) else []
        self._numbers = _later_ones(times_ms)
        if len(self._numbers) > len(times_ms) / 2:
            self.times_ms = [times_ms[number] for number in self._numbers]
        else:  # the container knows no times
            rate_hz = self._rate_hz()
            self._numbers = list(range(len(times_ms)))
            self.times_ms = [number * 1e3 / rate_hz for number in self._numbers]
        self._reopen()

    def _rate_hz(self) -> float:
        rate_hz = float(self._capture.get(cv2.CAP_PROP_FPS))
        if not (math.isfinite(rate_hz) and 0 < rate_hz <= 1000):
            raise ValueError(
                f'{self._file} states no times of its frames and {rate_hz} frames per second, expected more '
                f'than 0 and at most 1000'
            )
        return rate_hz

    def _packet_times_ms(self) -> list[float]:
        """Times of what the container lists, without decoding it; sorted, for packets come as they are decoded."""
        return sorted(self._times_of(self._packets()))

    def _packets(self) -> cv2.VideoCapture:
        capture = cv2.VideoCapture(self._path)
        capture.set(cv2.CAP_PROP_FORMAT, -1)
        return capture

    def _stored_rows(self) -> slice | None:
        """The order of rows of 24-bit pixels that are stored as they are; None of all others.

        OpenCV writes beyond its memory where these lie upside down, as in most uncompressed AVI files.
        """
        facts = [
            self._capture.get(fact)
            for fact in (cv2.CAP_PROP_FOURCC, cv2.CAP_PROP_CODEC_PIXEL_FORMAT)
        ]
        packets = self._packets()
        if facts != [0.0, float(_BGR_24)] or not packets.grab():
            return None
        place = int(packets.get(cv2.CAP_PROP_CODEC_EXTRADATA_INDEX))
        _, noted = packets.retrieve(flag=place)
        is_upside_down = noted is not None and noted.tobytes().endswith(_UPSIDE_DOWN)
        return slice(None, None, -1 if is_upside_down else 1)

    def _decoded_times_ms(self) -> list[float]:
        """Times of the frames that can be decoded: containers may list more."""
        self._reopen()
        return self._times_of(self._capture)

    def _times_of(self, capture: cv2.VideoCapture) -> list[float]:
        times_ms = []
        while capture.grab():
            if self._rows is not None and self._pixels(capture) is None:  # cut off
                continue
            times_ms.append(float(capture.get(cv2.CAP_PROP_POS_MSEC)))
            if len(times_ms) > _MOST_FRAMES:
                raise ValueError(f'{self._file} lists more than {_MOST_FRAMES} frames')
        return times_ms

    def _are_decoded(self, times_ms: list[float]) -> bool:
        """Whether the first frames and the last come at these times; some formats hide or lose packets."""
        if not _rise(times_ms):
            return False
        self._known_ms = times_ms
        first = range(min(_COMPARED, len(times_ms)))
        if any(not self._grab() or self._at != number for number in first):
            return False
        last = len(times_ms) - 1
        self._go_to(last)
        return self._at == last

    def _reopen(self) -> None:
        self._capture = cv2.VideoCapture(self._path) if self._rows is None else self._packets()
        self._at = -1  # number of the frame that was grabbed last

    def _grab(self) -> bool:
        if not self._capture.grab():
            return False
        self._at += 1
        if self._known_ms:
            time_ms = float(self._capture.get(cv2.CAP_PROP_POS_MSEC))
            self._at = bisect_right(self._known_ms, time_ms + _SAME_MS) - 1
        return True

    def _go_to(self, number: int) -> None:
        """Grabs a frame, unless it cannot be decoded; `_at` tells."""
        if not self._at <= number <= self._at + SKIP_BY_DECODING:
            self._seek(number)
        while self._at < number and self._grab():
            pass

    def _seek(self, number: int) -> None:
        """Goes before a frame; where the container jumps elsewhere, which the times tell, to the beginning."""
        if self._known_ms and number > SKIP_BY_DECODING:
            for earlier_ms in _EARLIER_MS:
                self._capture.set(cv2.CAP_PROP_POS_MSEC, self._known_ms[number] - earlier_ms)
                if self._grab() and 0 <= self._at <= number:
                    return
        self._reopen()

    def load(self, index: int) -> np.ndarray:
        """Image number `index`, uint8 `[height, width, 3]` BGR.

        Raises:
            ValueError: it cannot be decoded.
        """
        with self._lock:
            number = self._numbers[index]
            self._go_to(number)
            image = self._pixels(self._capture) if self._at == number else None
            if image is None:
                raise ValueError(
                    f'frame {index} of {self._file} cannot be decoded, {len(self.times_ms)} were counted'
                )
        return image

    def _pixels(self, capture: cv2.VideoCapture) -> np.ndarray | None:
        """The image that was grabbed last; None where it cannot be decoded."""
        is_decoded, image = capture.retrieve()
        if not is_decoded or self._rows is None:
            return image if is_decoded else None
        height, width, depth = self._shape
        used = width * depth
        for row_bytes in (-(-used // 4) * 4, used):  # rows are filled up in AVI
            if image.size >= height * row_bytes:
                rows = image.ravel()[: height * row_bytes].reshape(height, row_bytes)
                return np.ascontiguousarray(rows[self._rows, :used]).reshape(self._shape)
        return None


def _rise(times_ms: list[float]) -> bool:
    return bool(times_ms) and all(
        before + _SAME_MS < after for before, after in zip(times_ms, times_ms[1:])
    )


def _later_ones(times_ms: list[float]) -> list[int]:
    """Numbers of the frames that come later than all before."""
    numbers, latest_ms = [], -math.inf
    for number, time_ms in enumerate(times_ms):
        if time_ms > latest_ms + _SAME_MS:
            numbers.append(number)
            latest_ms = time_ms
    return numbers


def opencv_path(file: Path) -> str:
    """The path of a video as OpenCV takes it: absolute, since FFmpeg takes what stands before a colon for a protocol.

    Raises:
        ValueError: it is no UTF-8, at which OpenCV would end the process.
    """
    path = str(file.absolute())
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f'{file} is no name in UTF-8, expected one that is: rename it') from error
    return path


def read_video(file: Path) -> Sequence:
    """Frames of a video with the times of the container, or by its rate where it has none; neither speed nor boxes
    are known.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is no video, too large, or states neither times nor a rate.
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
            Frame(f'{file.stem}_{index:06d}', round(time_ms * 1e6), partial(video.load, index))
            for index, time_ms in enumerate(video.times_ms)
        ),
    )
