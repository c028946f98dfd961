"""Images that say nothing, the same ones in every run."""

import numpy as np


def noise(*shape, seed=0):
    """Values from 0 to 255, uint8 of that shape."""
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def plain(height, width, shade=0):
    """An image of one grey, uint8 [height, width, 3]."""
    return np.full((height, width, 3), shade, np.uint8)
