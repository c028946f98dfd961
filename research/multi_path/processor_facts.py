"""What the interval model needs to know of a processor and no description says. Loads PyTorch when called."""

from __future__ import annotations

from pathlib import Path

from deadline_perception.core.stopwatch import now_ms, synchronise

_COPY_BYTES = 2**28
_COPIES = 5
_LANES = {'avx512f': 16, 'avx2': 8, 'avx': 8}  # flag of the CPU: 32-bit values in a vector


def read_cpu_lanes(cpu_info: Path = Path('/proc/cpuinfo')) -> int:
    """32-bit values in a vector of the CPU; 4 where it names no wider ones, or the file cannot be read."""
    try:
        words = set(cpu_info.read_text(encoding='utf-8').split())
    except OSError:
        words = set()
    return max((lanes for flag, lanes in _LANES.items() if flag in words), default=4)


def measure_bandwidth_gb_s(device: str, copy_bytes: int = _COPY_BYTES) -> float:
    """Bandwidth of the device's memory, GB/s: the fastest of a few copies of so many bytes, read and written."""
    import torch

    source = torch.ones(copy_bytes // 4, device=device)
    target = torch.empty_like(source)
    times_ms = []
    for _ in range(_COPIES):
        synchronise(device)
        started = now_ms()
        target.copy_(source)
        synchronise(device)
        times_ms.append(now_ms() - started)
    return 2 * copy_bytes / min(times_ms) / 1e6
