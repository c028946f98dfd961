"""What memory this process keeps between two frames: none of what loading left behind, all that a frame needs."""
from __future__ import annotations

import ctypes
import gc

import numpy as np

# What a frame allocates: 14 MB on the largest path of `compact` (measured: benchmarks/start_up.py), and as much again
# for what lies between.
_FRAME_BYTES, _BLOCK_BYTES, _PAGE_BYTES = 32 * 2**20, 2**20, 4096


def give_back_memory() -> None:
    """Gives back to the system what was allocated and freed again: after loading and warming up a third of the process.

    The settings that `missing_environment` looks for keep glibc from doing so by itself, which would cost every frame
    time. Takes some tens of ms, while which other threads cannot allocate. Does nothing with another C library.
    """
    gc.collect()
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except AttributeError:
        return
    trim(0)


def touch_memory(size_bytes: int = _FRAME_BYTES) -> None:
    """Has the system give this thread the pages that its frames will need, which would otherwise be faulted in by the
    first ones: 3,500 pages, 10 to 30 ms.

    They stay because of the settings that `missing_environment` looks for; without these, this is in vain.
    """
    blocks = [np.empty(_BLOCK_BYTES, np.uint8) for _ in range(size_bytes // _BLOCK_BYTES)]  # all at once: each is another
    for block in blocks:
        block[::_PAGE_BYTES] = 0
