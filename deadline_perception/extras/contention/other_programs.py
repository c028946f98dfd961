"""How much of the machine other programs take while something is measured."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

from deadline_perception.timing.contention.sensors import (
    ROOT,
    CpuTimes,
    SensorAbsent,
    SensorFault,
    read_cpu_times,
)


def cores_of_others(
    before: CpuTimes, after: CpuTimes, own_s: float, passed_s: float, ticks_per_s: float
) -> float:
    """Cores that all other programs kept busy between two looks, at least 0.

    Args:
        own_s: core time of this process between them.
        passed_s: between them, positive.
        ticks_per_s: the unit of `CpuTimes`.
    """
    return max(0.0, ((after.busy - before.busy) / ticks_per_s - own_s) / passed_s)


def watch_cores_of_others(seconds: float = 0.5, root: Path = ROOT) -> float:
    """Cores that all other programs keep busy from now on for so long; NaN where the system does not say."""
    try:
        before, own_s, began_s = read_cpu_times(root), time.process_time(), time.monotonic()
        time.sleep(seconds)
        return cores_of_others(
            before,
            read_cpu_times(root),
            time.process_time() - own_s,
            time.monotonic() - began_s,
            os.sysconf('SC_CLK_TCK'),
        )
    except (SensorAbsent, SensorFault):
        return math.nan
