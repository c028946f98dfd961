"""A folder of images without annotations, as a camera or a person left them."""
from __future__ import annotations

import math
from functools import partial
from pathlib import Path

from deadline_perception.datasets.image_file import load_image
from deadline_perception.datasets.records import Frame, Sequence

IMAGE_ENDINGS = ('.jpg', '.jpeg', '.png', '.bmp')


def image_files(folder: Path) -> list[Path]:
    """The images in a folder and the folders in it, in the order of their names; hidden ones are none of them."""
    return sorted(file for file in folder.rglob('*') if file.suffix.lower() in IMAGE_ENDINGS and file.is_file()
                  and not any(part.startswith('.') for part in file.relative_to(folder).parts))


def read_image_folder(folder: Path, rate_hz: float = 10.0) -> Sequence:
    """Images in the order of their names, with stamps made up at a fixed rate; neither speed nor boxes are known.

    Raises:
        ValueError: the folder holds no image, or the rate is not above 0.
    """
    folder = Path(folder)
    if not 0 < rate_hz < math.inf:
        raise ValueError(f'rate is {rate_hz} Hz, expected a finite number above 0')
    files = image_files(folder)
    if not files:
        raise ValueError(f'{folder} holds no image, expected files that end with {", ".join(IMAGE_ENDINGS)}')
    return Sequence(folder.absolute().name, (), tuple(
        Frame(file.relative_to(folder).as_posix(), round(index * 1e9 / rate_hz), partial(load_image, file))
        for index, file in enumerate(files)))
