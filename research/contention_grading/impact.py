"""The impact profiler: what contention does to a sample network, whatever causes it, and which units do the same.

Source: contention paper, sections 4.1.1 and 4.1.2: the delays of a sample of the application show the contention that
matters to it, and only that; the same sample beside units, more and more of them, shows which reproduce it.
"""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Sequence

from levels import UnitDelay

from deadline_perception.extras.contention.load import MOST_UNITS, ContentionLoad

FEWEST_DELAYS = 20
RUNGS = 8  # of each kind of units
_ENOUGH = 1.15  # times the longest delay that is to be reproduced: more units are not needed
_SETTLE_FRAMES = 3  # left out after a change: caches and clock follow it


def record_delays(run_frame: Callable[[], float], seconds: float) -> list[float]:
    """Delays in ms of one frame after the other, for so long; blocks.

    Args:
        run_frame: runs one frame and returns how long it took, in ms.
        seconds: how long, > 0.
    """
    delays_ms: list[float] = []
    begun_s = time.monotonic()
    while not delays_ms or time.monotonic() - begun_s < seconds:
        delays_ms.append(run_frame())
    return delays_ms


def most_units() -> int:
    """Units of one kind that keep every core of this process busier than it can be, as far as a load has so many."""
    return min(MOST_UNITS, 6 * len(os.sched_getaffinity(0)))


def rungs(most: int) -> list[int]:
    """At most `RUNGS` numbers of units, from 1 to the most, evenly spread."""
    return sorted({math.ceil(most * step / RUNGS) for step in range(1, RUNGS + 1)} - {0})


def measure_unit_delays(
    run_frame: Callable[[], float],
    kinds: Sequence[str],
    most: int,
    seconds: float,
    *,
    up_to_ms: float = math.inf,
) -> tuple[UnitDelay, ...]:
    """What the sample network takes beside no unit, and beside more and more of each kind; blocks.

    Args:
        run_frame: as in `record_delays`.
        kinds: of units, one after the other.
        most: units of each kind, >= 1.
        seconds: for each number of units, > 0; at least `FEWEST_DELAYS` frames are run.
        up_to_ms: longest delay that is to be reproduced; a kind that reaches it, and some more, gets no further units.
    """
    found = [UnitDelay({}, _typical_ms(run_frame, seconds))]
    for kind in kinds:
        with ContentionLoad({kind: most}) as load:
            for count in rungs(most):
                load.set({kind: count})
                found.append(UnitDelay({kind: count}, _typical_ms(run_frame, seconds)))
                load.check()
                if found[-1].delay_ms > _ENOUGH * up_to_ms:
                    break
    return tuple(found)


def _typical_ms(run_frame: Callable[[], float], seconds: float) -> float:
    for _ in range(_SETTLE_FRAMES):
        run_frame()
    delays_ms = record_delays(run_frame, seconds)
    while len(delays_ms) < FEWEST_DELAYS:
        delays_ms.append(run_frame())
    return statistics.median(delays_ms)
