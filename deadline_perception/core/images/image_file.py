"""Image files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from deadline_perception.core.images.coded_image import FORMATS, CodedImageError, decoded
from deadline_perception.core.opencv import cv2
from deadline_perception.core.untrusted_file import MIB, FileRefused, read_bytes

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
        raise unreadable(file, error) from error


def unreadable(file: Path, error: OSError | FileRefused) -> ValueError:
    """What is raised of a file that cannot be read."""
    return ValueError(
        f'{file} cannot be read, expected a {FORMATS} image: {getattr(error, "strerror", error)}'
    )
