"""The one way time is measured: a monotonic clock, device synchronisation, warm-up."""
from __future__ import annotations

import time
from collections.abc import Callable

NS_PER_MS = 1_000_000


def now_ns() -> int:
    """Reads the monotonic clock in ns; it never jumps, and all processes of one Linux machine share it."""
    return time.monotonic_ns()


def now_ms() -> float:
    """Reads the monotonic clock in ms."""
    return time.monotonic_ns() / NS_PER_MS


def ms_from_ns(duration_ns: int) -> float:
    """Converts integer ns, as ROS and clocks count, to the float ms used inside."""
    return duration_ns / NS_PER_MS


def ns_from_ms(duration_ms: float) -> int:
    """Converts float ms to the nearest integer ns.

    Raises:
        ValueError: the duration is NaN or infinite.
    """
    try:
        return round(duration_ms * NS_PER_MS)
    except (ValueError, OverflowError) as error:
        raise ValueError(f'duration is {duration_ms} ms, expected a finite number') from error


def synchronise(device: str) -> None:
    """Blocks until the device has done all work given to it; at once on a CPU, whose calls return when done.

    Args:
        device: `cpu`, `cuda` or `cuda:INDEX`.
    """
    if device.startswith('cuda'):
        import torch

        torch.cuda.synchronize(device)


def measure_ms(call: Callable[[], object], *, device: str = 'cpu', warm_up: int = 3, repeats: int = 20) -> list[float]:
    """Times a call, synchronised with the device before and after each run.

    Args:
        call: what is timed; its result is dropped.
        device: the device on which it works.
        warm_up: runs before the first timed one, >= 0; first calls allocate, choose kernels and fill caches.
        repeats: timed runs, >= 1.

    Returns:
        One duration in ms per timed run, in order.

    Raises:
        ValueError: a count lies outside its range.
    """
    if warm_up < 0 or repeats < 1:
        raise ValueError(f'warm_up is {warm_up} and repeats is {repeats}, expected at least 0 and at least 1')
    for _ in range(warm_up):
        call()
    durations = []
    for _ in range(repeats):
        synchronise(device)
        start = now_ns()
        call()
        synchronise(device)
        durations.append(ms_from_ns(now_ns() - start))
    return durations
