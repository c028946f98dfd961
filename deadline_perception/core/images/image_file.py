"""Image files, read when a frame is asked for, and folders of them without annotations."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from deadline_perception.core.images.coded_image import (
    FORMATS,
    IMAGE_ENDINGS,
    CodedImageError,
    decoded,
    stated_size,
    upright_size,
)
from deadline_perception.core.opencv import cv2
from deadline_perception.core.untrusted_file import MIB, FileRefused, open_file, read_bytes

_MOST_BYTES = 256 * MIB


def load_image(file: Path, *, upright: bool = False) -> np.ndarray:
    """The image of a file, uint8 `[height, width, 3]` BGR.

    Args:
        file: where it lies.
        upright: turned as the camera noted that it was held, as people see a photograph; else as stored, which is
            what boxes of many data sets belong to.

    Raises:
        ValueError: the file is missing, no image of `coded_image.FORMATS`, cut off, or too large.
    """
    try:
        content = read_bytes(file, _MOST_BYTES)
        return decoded(content, cv2.IMREAD_COLOR | (not upright) * cv2.IMREAD_IGNORE_ORIENTATION)
    except CodedImageError as error:
        raise ValueError(f'{file} {error}') from error
    except (OSError, FileRefused) as error:
        raise _unreadable(file, error) from error


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
        raise _unreadable(file, error) from error
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


def _unreadable(file: Path, error: OSError | FileRefused) -> ValueError:
    return ValueError(
        f'{file} cannot be read, expected a {FORMATS} image: {getattr(error, "strerror", error)}'
    )
