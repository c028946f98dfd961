"""Image files, read when a frame is asked for."""
from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import cv2
import numpy as np


def load_image(file: Path) -> np.ndarray:
    """The image of a file, uint8 `[height, width, 3]` BGR, as it is stored.

    A camera's note on how it was held is ignored: boxes belong to the pixels that `image_size` counts.

    Raises:
        ValueError: the file is missing or no image.
    """
    image = cv2.imread(str(file), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    if image is None:
        state = 'cannot be decoded' if file.is_file() else 'does not exist'
        raise ValueError(f'{file} {state}, expected a JPEG or PNG image')
    return image


def file_of(load_bgr: Callable[[], np.ndarray]) -> Path | None:
    """The image file that a frame's `load_bgr` reads; None of frames of a video, a bag or a rendered drive."""
    reads_file = isinstance(load_bgr, partial) and load_bgr.func is load_image
    return Path(load_bgr.args[0]) if reads_file else None


def image_size(file: Path) -> tuple[int, int]:
    """Width and height in px; from the header alone for PNG and JPEG.

    Raises:
        ValueError: the file is missing or no image.
    """
    try:
        with file.open('rb') as stream:
            size = _png_size(stream) or _jpeg_size(stream)
    except OSError as error:
        raise ValueError(f'{file} cannot be read, expected a JPEG or PNG image: {error.strerror}') from error
    except struct.error:
        size = None
    if size is None:
        height, width = load_image(file).shape[:2]
        return width, height
    return size


def _png_size(stream) -> tuple[int, int] | None:
    head = stream.read(24)
    if head[:8] == b'\x89PNG\r\n\x1a\n' and head[12:16] == b'IHDR':
        return struct.unpack('>II', head[16:24])
    return None


def _jpeg_size(stream) -> tuple[int, int] | None:
    """Walks the segments to the frame header (ITU-T T.81, table B.2)."""
    stream.seek(0)
    if stream.read(2) != b'\xff\xd8':
        return None
    while True:
        marker = stream.read(2)
        if len(marker) < 2 or marker[0] != 0xFF:
            return None
        if marker[1] == 0xFF:
            stream.seek(-1, 1)
            continue
        length, = struct.unpack('>H', stream.read(2))
        if 0xC0 <= marker[1] <= 0xCF and marker[1] not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack('>xHH', stream.read(5))
            return width, height
        stream.seek(length - 2, 1)
