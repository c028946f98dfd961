"""Images in which nothing is to be seen."""

from __future__ import annotations

import numpy as np


def grey(height: int, width: int, shade: int = 0) -> np.ndarray:
    """An image uint8 `[height, width, 3]` of one shade."""
    return np.full((height, width, 3), shade, np.uint8)


def noise(height: int, width: int, seed: int = 0) -> np.ndarray:
    """An image uint8 `[height, width, 3]` of random values."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
