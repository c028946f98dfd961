"""Images in which nothing is to be seen."""

from collections.abc import Iterable
from pathlib import Path

import cv2
import numpy as np


def write_images(folder: Path, images: Iterable[np.ndarray], ending: str = 'png') -> Path:
    """Writes images by their numbers, as 0.png and so on; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, image in enumerate(images):
        cv2.imwrite(str(folder / f'{number}.{ending}'), image)
    return folder


def grey(height: int, width: int, shade: int = 0) -> np.ndarray:
    """An image uint8 `[height, width, 3]` of one shade."""
    return np.full((height, width, 3), shade, np.uint8)


def noise(height: int, width: int, seed: int = 0) -> np.ndarray:
    """An image uint8 `[height, width, 3]` of random values."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
