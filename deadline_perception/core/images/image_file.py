"""Image files, read when a frame is asked for, and folders of them without annotations."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

import cv2
import numpy as np

from deadline_perception.core.records import Frame, Sequence
from deadline_perception.core.untrusted_file import MIB, FileRefused, open_file, read_bytes

MOST_PX = 2**26  # of an image; it takes three bytes of memory each
_MOST_BYTES = 256 * MIB
IMAGE_ENDINGS = ('.jpg', '.jpeg', '.png', '.bmp')


def load_image(file: Path, *, upright: bool = False) -> np.ndarray:
    """The image of a file, uint8 `[height, width, 3]` BGR.

    Args:
        file: where it lies.
        upright: turned as the camera noted that it was held; else as stored, which is what boxes belong to and what
            `image_size` counts.

    Raises:
        ValueError: the file is missing or no image, or too large.
    """
    try:
        content = read_bytes(file, _MOST_BYTES)
    except (OSError, FileRefused) as error:
        raise _unreadable(file, error) from error
    width, height = stated_size(io.BytesIO(content)) or (1, 1)
    if width * height > MOST_PX:
        raise ValueError(f'{file} is {width} x {height} px, expected at most {MOST_PX} px')
    image = None
    if content:
        with suppress(
            cv2.error
        ):  # of a size that the header of a format states which is not read here
            flags = (
                cv2.IMREAD_COLOR if upright else cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
            )
            image = cv2.imdecode(np.frombuffer(content, np.uint8), flags)
    if image is None:
        raise ValueError(f'{file} cannot be decoded, expected a JPEG or PNG image')
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
        with open_file(file) as (stream, _):
            size = stated_size(stream)
    except (OSError, FileRefused) as error:
        raise _unreadable(file, error) from error
    return size or load_image(file).shape[1::-1]


def image_files(folder: Path) -> list[Path]:
    """The images in a folder and the folders in it, in the order of their names; hidden ones are none of them."""
    return sorted(
        file
        for file in folder.rglob('*')
        if file.suffix.lower() in IMAGE_ENDINGS
        and file.is_file()
        and not any(part.startswith('.') for part in file.relative_to(folder).parts)
    )


def read_image_folder(folder: Path, rate_hz: float = 10.0) -> Sequence:
    """Images in the order of their names, with stamps made up at a rate > 0; neither speed nor boxes are known."""
    return Sequence(
        folder.absolute().name,
        (),
        tuple(
            Frame(
                file.relative_to(folder).as_posix(),
                round(index * 1e9 / rate_hz),
                partial(load_image, file),
            )
            for index, file in enumerate(image_files(folder))
        ),
    )


def _unreadable(file: Path, error: OSError | FileRefused) -> ValueError:
    return ValueError(
        f'{file} cannot be read, expected a JPEG or PNG image: {getattr(error, "strerror", error)}'
    )


def stated_size(stream: BinaryIO) -> tuple[int, int] | None:
    """Width and height in px that a PNG or JPEG file states; None for anything else."""
    try:
        return _png_size(stream) or _jpeg_size(stream)
    except struct.error:
        return None


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
        (length,) = struct.unpack('>H', stream.read(2))
        if 0xC0 <= marker[1] <= 0xCF and marker[1] not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack('>xHH', stream.read(5))
            return width, height
        stream.seek(length - 2, 1)
