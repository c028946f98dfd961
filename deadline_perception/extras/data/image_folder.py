"""Folders of images without annotations, and the file behind a frame."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from deadline_perception.core.images.image_file import load_image
from deadline_perception.extras.data.image_size import image_files
from deadline_perception.extras.data.records import Frame, Sequence


def file_of(load_bgr: Callable[[], np.ndarray]) -> Path | None:
    """The image file that a frame's `load_bgr` reads; None of frames of a video, a bag or a rendered drive."""
    if isinstance(load_bgr, partial) and load_bgr.func is load_image:
        return Path(load_bgr.args[0])
    return None


def read_image_folder(folder: Path, rate_hz: float = 10.0) -> Sequence:
    """Images by name, upright, with synthetic stamps at a rate > 0; neither speed nor boxes are known."""
    return Sequence(
        folder.absolute().name,
        (),
        tuple(
            Frame(
                file.relative_to(folder).as_posix(),
                round(index * 1e9 / rate_hz),
                partial(load_image, file, upright=True),
            )
            for index, file in enumerate(image_files(folder))
        ),
    )
