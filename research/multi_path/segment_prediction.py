"""Expected times of all segments of the engine in use from those of some.

Operations, bytes and calls of a layer (multi-path paper, section IV, assumption 1) add up over a segment, and time is
linear in them. The model is fitted to what segments took in the engine that runs them, whatever that engine makes of
the layers. Coefficients of a kind of segment (stage, head, ...) are those of all kinds times factors near 1, so that a
kind of which little was measured is described by the others. A profile of another device is one more term where there
is one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from segment_work import SegmentWork

from deadline_perception.timing.path_bound import factors_near_one, kind_of

TERMS = ('operations', 'load_bytes', 'store_bytes', 'calls')
_PULL_OF_ALL, _PULL_OF_KIND = (
    0.05,
    0.1,
)  # measured: wcet_bounds.py; weight of a factor's distance from 1
_LEAST_SHARE = 1e-3  # of a term's share at the start: one that explains nothing of all kinds may explain one of them
_LEAST_MS = 1e-4


def predict_times(
    work: Mapping[str, SegmentWork],
    measured_ms: Mapping[str, float],
    reference_ms: Mapping[str, float] | None = None,
    terms: Sequence[str] = TERMS,
) -> dict[str, float]:
    """Expected time in ms of every segment; of the measured ones as it was measured.

    Args:
        work: of every segment.
        measured_ms: of some segments.
        reference_ms: of every segment, on another device; None where nobody measured one.
        terms: attributes of the work that time is linear in, beside a constant.

    Raises:
        ValueError: nothing was measured, or a segment without work.
    """
    if not measured_ms or not measured_ms.keys() <= work.keys():
        raise ValueError(
            f'{len(measured_ms)} segments were measured, {len(measured_ms.keys() - work.keys())} of them '
            f'without work, expected at least one, and the work of each'
        )
    rows = {
        key: np.array(
            [
                *(getattr(counts, term) for term in terms),
                1.0,
                *([] if reference_ms is None else [reference_ms[key]]),
            ]
        )
        for key, counts in work.items()
    }
    keys = list(measured_ms)
    times_ms = np.maximum([measured_ms[key] for key in keys], _LEAST_MS)
    counted = np.array([rows[key] for key in keys])
    # Every term explains an equal share at first.
    begin = times_ms.sum() / np.maximum(counted.sum(0), 1e-9) / counted.shape[1]
    of_all = begin * factors_near_one(
        counted * begin / times_ms[:, None], _PULL_OF_ALL * math.sqrt(len(keys))
    )
    of_all = np.maximum(of_all, _LEAST_SHARE * begin)
    found = {}
    for kind in {kind_of(key) for key in work}:
        at = [number for number, key in enumerate(keys) if kind_of(key) == kind]
        factors = factors_near_one(counted[at] * of_all / times_ms[at, None], _PULL_OF_KIND)
        found |= {
            key: float(row @ (of_all * factors))
            for key, row in rows.items()
            if kind_of(key) == kind
        }
    return {key: float(measured_ms.get(key, found[key])) for key in work}
