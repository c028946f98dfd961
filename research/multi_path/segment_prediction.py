"""Times of all segments of the engine in use from those of some: expected ones, and longest executions.

The interval model of a layer (multi-path paper, section IV) holds for a segment too, whose layers run one after the
other: counts add up, and so do the terms that are linear in them. It is fitted to what segments took in the engine that
runs them, whatever that engine makes of the layers.

- `predict_times`: assumption 1 with the calls of kernels as a further term, fitted to what was measured. Coefficients
  of a kind of segment (stage, head, ...) are those of all kinds times factors near 1, so that a kind of which little
  was measured is described by the others. A profile of another device is one more term where there is one.
- `worst_execution`: worst execution times without interruptions: of a segment that was measured often its own, of
  others that of the interval model that covers the measured ones of its kind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from interval_fit import FEWEST_LAYERS, FitNotFound, MeasuredLayer, covering_model
from interval_model import IntervalModel, LayerCounts, Processor
from segment_work import SegmentWork

from deadline_perception.timing.path_bound import factors_near_one, kind_of
from deadline_perception.timing.quantiles import Quantiles
from deadline_perception.timing.wcet.segment_model import EXECUTION

TERMS = ('operations', 'load_bytes', 'store_bytes', 'calls')
_PULL_OF_ALL, _PULL_OF_KIND = (
    0.05,
    0.1,
)  # measured: wcet_bounds.py; weight of a factor's distance from 1
_LEAST_SHARE = 1e-3  # of a term's share at the start: one that explains nothing of all kinds may explain one of them
_LEAST_MS = 1e-4
_OWN_SAMPLES = 10  # from which a segment's own quantile is believed


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


def fit_segment_model(
    work: Mapping[str, SegmentWork], worst_ms: Mapping[str, float], processor: Processor
) -> dict[str, IntervalModel]:
    """The interval model of each kind of segment, which covers the longest executions of all that were measured.

    Returns:
        By kind; none of a kind of which fewer than three segments were measured, or that nothing covers.
    """
    models = {}
    for kind in {kind_of(key) for key in worst_ms}:
        layers = [
            MeasuredLayer(
                LayerCounts.of(work[key], processor),
                max(time_ms, _LEAST_MS),
                max(time_ms, _LEAST_MS),
            )
            for key, time_ms in worst_ms.items()
            if kind_of(key) == kind
        ]
        if len(layers) >= FEWEST_LAYERS:
            try:
                models[kind] = covering_model(layers, processor)
            except FitNotFound:
                continue
    return models


def worst_execution(
    work: Mapping[str, SegmentWork],
    expected_ms: Mapping[str, float],
    measured: Mapping[str, Quantiles],
    processor: Processor,
) -> dict[str, float]:
    """Longest execution in ms of every segment, without interruptions, of which some were measured."""
    own_ms = {key: getattr(times, EXECUTION) for key, times in measured.items()}
    models = fit_segment_model(work, own_ms, processor)
    # Where the interval model has too little to go by: the most that a measured segment exceeded what was expected.
    most = max(
        (worst / expected_ms[key] for key, worst in own_ms.items() if expected_ms[key] > 0.0),
        default=1.0,
    )
    found = {}
    for key, counts in work.items():
        if key in measured and measured[key].count >= _OWN_SAMPLES:
            found[key] = own_ms[key]
        elif kind_of(key) in models:
            covered_ms = models[kind_of(key)].wcet_ms(LayerCounts.of(counts, processor))
            found[key] = min(max(covered_ms, expected_ms[key]), most * expected_ms[key])
        else:
            found[key] = most * expected_ms[key]
    return {key: max(value, own_ms.get(key, 0.0)) for key, value in found.items()}
