"""How far a form of a segment is from its reference, and how long both take. Needs no torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from deadline_perception.core.stopwatch import now_ms
from deadline_perception.engines.eager import Arrays
from deadline_perception.extras.preparation.segment_calls import Call

MOST_DB = 200.0  # of what is equal
_TIMINGS = 9
# So few tell which form is faster, where one takes this many times what the other does.
_FEW_TIMINGS, _CLEAR = 3, 2.0
_SWEPT_BYTES = 4 << 20  # more than the caches of a core: in a frame each segment comes after others


def signal_to_error_db(expected: Arrays, found: Arrays) -> float:
    """Of the worst of several arrays: the variance of what is expected over the mean square of the error, in dB.

    Infinite values and shapes that differ count as no signal at all.
    """
    worst = MOST_DB
    for right, value in zip(expected, found, strict=True):
        if right.shape != value.shape:
            return -MOST_DB
        error = float(np.square(value.astype(np.float64) - right).mean())
        signal = float(right.astype(np.float64).var())
        if not math.isfinite(error) or (error > 0.0 and signal == 0.0):
            return -MOST_DB
        if error > 0.0:
            worst = min(worst, 10.0 * math.log10(signal / error))
    return worst


def peak_to_error_db(expected: Arrays, found: Arrays) -> float:
    """Of the worst of several arrays: the square of its largest value over that of the largest error, in dB.

    NaN and shapes that differ count as no signal at all.
    """
    worst = MOST_DB
    for right, value in zip(expected, found, strict=True):
        if right.shape != value.shape:
            return -MOST_DB
        if not right.size:
            continue
        error = float(np.abs(value.astype(np.float64) - right).max())
        peak = float(np.abs(right.astype(np.float64)).max())
        if not math.isfinite(error) or (error > 0.0 and peak == 0.0):
            return -MOST_DB
        if error > 0.0:
            worst = min(worst, 20.0 * math.log10(peak / error))
    return worst


def times_ms(
    calls: Sequence[Call], segment: Callable[[list[np.ndarray]], object]
) -> tuple[float, float]:
    """Shortest times of the reference and the other form of a segment, by turns and with swept caches, in ms; other
    programs lengthen neither. Few runs are enough where they differ much."""
    reference, other = list[float](), list[float]()
    swept = np.zeros(_SWEPT_BYTES, np.uint8)
    for number in range(_TIMINGS):
        call = calls[number % len(calls)]
        arrays = call.arrays
        for run, times in ((call.run, reference), (lambda: segment(arrays), other)):
            swept += 1
            started = now_ms()
            run()
            times.append(now_ms() - started)
        shorter_ms, longer_ms = sorted((min(reference), min(other)))
        if number + 1 >= _FEW_TIMINGS and shorter_ms * _CLEAR <= longer_ms:
            break
    return min(reference), min(other)
