"""Images in folders, and their sizes by what their headers say."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

from deadline_perception.core.images.coded_image import JPEG_START, jpeg_segments, stated_size
from deadline_perception.core.images.image_file import load_image, unreadable
from deadline_perception.core.untrusted_file import FileRefused, open_file

IMAGE_ENDINGS = ('.jpg', '.jpeg', '.png', '.bmp', '.webp')
_EXIF_SEGMENT = 0xE1
_ORIENTATION_TAG = 0x0112
_QUARTER_TURNS = range(5, 9)


def image_size(file: Path, *, upright: bool = False) -> tuple[int, int]:
    """Width and height in px; as stored, from the header alone.

    Args:
        file: where it lies.
        upright: see `load_image`.

    Raises:
        ValueError: the file is missing or no image.
    """
    try:
        with open_file(file) as (stream, _):
            size = (upright_size if upright else stated_size)(stream)
    except (OSError, FileRefused) as error:
        raise unreadable(file, error) from error
    return size or load_image(file).shape[1::-1]  # which says what is wrong


def image_files(folder: Path) -> list[Path]:
    """The images in a folder and the folders in it, in the order of their names; hidden ones are none of them."""
    return sorted(
        file
        for file in folder.rglob('*')
        if file.suffix.lower() in IMAGE_ENDINGS
        and file.is_file()
        and not any(part.startswith('.') for part in file.relative_to(folder).parts)
    )


def upright_size(stream: BinaryIO) -> tuple[int, int] | None:
    """The same of the image as its camera was held, where a JPEG notes that by Exif; no other format is turned here."""
    size = stated_size(stream)
    stream.seek(0)
    if size and stream.read(2) == JPEG_START and _orientation(stream) in _QUARTER_TURNS:
        return size[::-1]
    return size


def _orientation(stream: BinaryIO) -> int:
    """Of the first Exif segment (Exif 2.32, section 4.6.4); 1, as stored, where none is noted."""
    for code, content in jpeg_segments(stream):
        if code != _EXIF_SEGMENT or content[:6] != b'Exif\0\0':
            continue
        tiff = content[6:]
        order = '<' if tiff[:2] == b'II' else '>'
        try:
            (start,) = struct.unpack_from(f'{order}4xI', tiff)
            (count,) = struct.unpack_from(f'{order}H', tiff, start)
            for number in range(count):
                tag, value = struct.unpack_from(f'{order}H6xH', tiff, start + 2 + 12 * number)
                if tag == _ORIENTATION_TAG:
                    return value
        except struct.error:
            pass
        break
    return 1
