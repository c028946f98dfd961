"""The one way time is measured: a monotonic clock and device synchronisation."""

from __future__ import annotations

import time

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


def synchronise(device: str) -> None:
    """Blocks until the device has done all work given to it; at once on a CPU, whose calls return when done.

    Args:
        device: `cpu`, `cuda` or `cuda:INDEX`.
    """
    if device.startswith('cuda'):
        import torch

        torch.cuda.synchronize(device)


def wait_for_stream(device: str) -> None:
    """Blocks until the device has done all that this thread gave it so far; other streams may go on working.

    Args:
        device: `cpu`, `cuda` or `cuda:INDEX`.
    """
    if device.startswith('cuda'):
        import torch

        done = torch.cuda.Event()
        done.record(torch.cuda.current_stream(device))
        done.synchronize()
