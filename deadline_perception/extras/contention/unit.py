"""One artificial contention unit, the program of a process: vector addition, multiplication and FFT, over and over.

    python -m deadline_perception.extras.contention.unit KIND [SHARE]

Source: contention paper, section 4.1.2. Changed: the paper has one kind; here a kind says which part of the machine the
same three operations load, and a unit may rest between its slices, so that counts of it give fine steps of contention
on machines of few cores. Says `ready` when its memory is touched, then works until it is killed or its parent is gone.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable

KINDS = ('core', 'memory', 'gpu')
SLICE_S = 0.01  # of processor time between two rests
_CACHED = 1 << 14  # float32 values of a vector that stays in a core's own cache, 64 KiB
_STREAMED = 1 << 23  # of one that no cache holds, 32 MiB
_ON_GPU = 1 << 22


def make_work(kind: str) -> Callable[[], None]:
    """One round of the three operations, about a millisecond, on vectors that are made here.

    Args:
        kind: `core` for vectors within a core's cache, `memory` for vectors that pass through memory, `gpu` for ones on
            the GPU.

    Raises:
        ValueError: the kind is another one, or there is no GPU that PyTorch can use.
    """
    if kind not in KINDS:
        raise ValueError(
            f'kind of a contention unit is {kind!r}, expected one of {", ".join(KINDS)}'
        )
    if kind == 'gpu':
        return _gpu_work()
    import numpy as np

    size = _CACHED if kind == 'core' else _STREAMED
    first, second, out = (np.full(size, value, np.float32) for value in (1.0, 1.0001, 0.0))
    chunk, place = min(size, 1 << 18), 0

    def work() -> None:
        nonlocal place
        part = slice(place, place + chunk)
        place = (place + chunk) % size
        for _ in range(1 if kind == 'memory' else 16):
            np.add(first[part], second[part], out=out[part])
            np.multiply(first[part], second[part], out=out[part])
        begin = part.start
        np.fft.rfft(first[begin : begin + (_CACHED >> 2)])

    return work


def _gpu_work() -> Callable[[], None]:
    try:
        ctypes.CDLL('libcuda.so.1')  # PyTorch takes seconds to load, only to find no driver
        import torch
    except (ImportError, OSError) as error:
        raise ValueError(
            f'contention units of the kind gpu need a GPU that PyTorch can use, and there is none: '
            f'{error}'
        ) from error
    if not torch.cuda.is_available():
        raise ValueError(
            'contention units of the kind gpu need a GPU that PyTorch can use, and there is none'
        )
    first, second = torch.ones(_ON_GPU, device='cuda'), torch.ones(_ON_GPU, device='cuda')
    ended = torch.cuda.Event(blocking=True)  # else whoever waits for the GPU keeps a core busy, too

    def work() -> None:
        torch.fft.rfft(first.add(second).mul(second))
        ended.record()
        ended.synchronize()

    return work


def main(arguments: list[str]) -> int:
    """Works until the parent is gone. Returns 1 when the unit cannot be."""
    parent = os.getppid()
    share = float(arguments[1]) if len(arguments) > 1 else 1.0
    try:
        work = make_work(arguments[0])
        work()
    except (ValueError, RuntimeError, MemoryError) as error:
        print(str(error) or type(error).__name__, file=sys.stderr)
        return 1
    print('ready', flush=True)
    rest_s = SLICE_S * (1.0 - share) / share
    clock = time.monotonic if arguments[0] == 'gpu' else time.thread_time
    while os.getppid() == parent:
        until_s = clock() + SLICE_S
        while clock() < until_s:
            work()
        if rest_s > 0.0:
            time.sleep(rest_s)
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
