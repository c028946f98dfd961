"""Parameters of the interval model by constrained regression: the least total over-estimate that covers what was seen.

The multi-path paper (section IV-C) finds the parameters by linear regression over profiled layers. Here the regression
is a linear program whose constraints are the worst observations, so that the result is a bound on the measured layers.
For layers that were not measured, each measured one is left out in turn and bounded by the others; where it exceeds
that bound, the fit without it, stretched until it covers it, joins in, and the bound is the largest of all these. (One
fit to all layers, stretched by the worst of those factors, would count an odd layer twice: in the fit and in the
factor.) A new layer like the measured ones then exceeds its bound with a probability of about 1 / (layers + 1).
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linprog, nnls

from deadline_perception.errors import DeadlinePerceptionError
from deadline_perception.latency.interval_model import CoveringModel, IntervalModel, LayerCounts, Processor

FEWEST_LAYERS = 3
_BRANCH_ROUNDS = 8


class FitNotFound(DeadlinePerceptionError):
    """No parameters of the model cover the observations."""


@dataclass(frozen=True)
class MeasuredLayer:
    """What was seen of one layer in one state of contention.

    Attributes:
        counts: its instructions.
        mean_ms: mean execution time.
        worst_ms: longest execution time.

    Raises:
        ValueError: the times are not positive, or the mean is above the worst.
    """

    counts: LayerCounts
    mean_ms: float
    worst_ms: float

    def __post_init__(self) -> None:
        if not 0 < self.mean_ms <= self.worst_ms < float('inf'):
            raise ValueError(f'execution time of layer is {self.mean_ms} ms on average and {self.worst_ms} ms at worst, '
                             f'expected 0 < mean <= worst')


def fit_interval_model(layers: Sequence[MeasuredLayer], processor: Processor) -> CoveringModel:
    """The model that bounds every measured layer's worst time with the least total relative over-estimate.

    Args:
        layers: measured layers of one family, at least 3.
        processor: ran them; its L_M and L_S are the worst-case values.

    Raises:
        ValueError: fewer than 3 layers.
        FitNotFound: the solver found none.
    """
    _check_enough(layers)
    fits = [_covering_model(layers, processor)]
    for left_out in range(len(layers)):
        others = _covering_model([layer for i, layer in enumerate(layers) if i != left_out], processor)
        bound_ms = others.wcet_ms(layers[left_out].counts)
        if 0 < bound_ms < layers[left_out].worst_ms:
            fits.append(replace(others, margin=layers[left_out].worst_ms / bound_ms))
    return CoveringModel(tuple(fits))


def fit_oblivious_model(layers: Sequence[MeasuredLayer], processor: Processor) -> IntervalModel:
    """The baseline that knows no contention: assumption 1 alone, fitted to mean times by least squares.

    Args:
        layers: measured layers of one family, at least 3.
        processor: ran them.

    Raises:
        ValueError: fewer than 3 layers.
    """
    _check_enough(layers)
    means_ms = np.array([layer.mean_ms for layer in layers])
    columns = _columns(layers, processor)[:, :4] / means_ms[:, None]
    scale = columns.max(0)
    scale[scale == 0] = 1.0
    coefficients, _ = nnls(columns / scale, np.ones(len(layers)))
    return IntervalModel(processor, tuple((coefficients / scale).tolist()))


def covering_weights(columns: np.ndarray, targets: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Weights `[K]` >= 0 with the least sum of (columns @ weights - targets) / scale that stays above the targets.

    Args:
        columns: features `[N, K]`, none negative.
        targets: `[N]`, may be negative.
        scale: `[N]`, above 0.

    Raises:
        FitNotFound: nothing covers the targets, or the solver gave up.
    """
    unit = columns.max(0)
    unit[unit == 0] = 1.0
    rows = columns / unit / scale[:, None]
    solution = linprog(rows.sum(0), A_ub=-rows, b_ub=-targets / scale, bounds=(0, None), method='highs')
    if solution.x is None:
        raise FitNotFound(f'no weights cover {len(targets)} observations: {solution.message}')
    return np.maximum(solution.x, 0.0) / unit


def _check_enough(layers: Sequence[MeasuredLayer]) -> None:
    if len(layers) < FEWEST_LAYERS:
        raise ValueError(f'{len(layers)} measured layers, expected at least {FEWEST_LAYERS} of a family')


def _columns(layers: Sequence[MeasuredLayer], processor: Processor) -> np.ndarray:
    """Time in ms per unit of each coefficient, `[N, 10]`: execution, memory requests, near requests."""
    request_cycles = processor.mshr_delay(1.0) + processor.dram_delay(1.0)
    rows = [[c.computations, c.loads, c.stores, 1.0,
             *(request_cycles * n for n in (c.memory_loads, c.memory_stores, 1.0)),
             *(processor.near_latency_cycles * n for n in (c.near_loads, c.near_stores, 1.0))]
            for c in (layer.counts for layer in layers)]
    return np.array(rows) * processor.ms(1.0) / processor.processors


def _covering_model(layers: Sequence[MeasuredLayer], processor: Processor) -> IntervalModel:
    """The fit without margin.

    The bound takes the larger of two memory delays, so that "bound above observation" is no linear constraint. It is
    one once it is settled which of the two is the larger for each layer: that is guessed, solved and put right until
    it stays; no round is worse than the one before. First guesses: for all, none, and half of the layers, those with
    the most requests nearby for one to the memory, the larger is the one for the shared memory.
    """
    best: tuple[float, IntervalModel] | None = None
    columns = _columns(layers, processor)
    nearness = columns[:, 7:9].sum(1) / np.maximum(columns[:, 4:6].sum(1), np.finfo(float).tiny)
    for start in (np.inf, -np.inf, np.median(nearness)):
        near_dominates = nearness > start
        for _ in range(_BRANCH_ROUNDS):
            model = _model_for_branches(layers, processor, near_dominates)
            excess = sum(model.wcet_ms(layer.counts) / layer.worst_ms - 1.0 for layer in layers)
            if best is None or excess < best[0] - 1e-9:
                best = excess, model
            now = columns[:, 7:] @ model.near > columns[:, 4:7] @ model.memory
            if (now == near_dominates).all():
                break
            near_dominates = now
    return best[1]


def _model_for_branches(layers: Sequence[MeasuredLayer], processor: Processor, near_dominates: np.ndarray) -> IntervalModel:
    """Covers every layer by execution and the one memory delay that is taken to be its larger."""
    worst_ms = np.array([layer.worst_ms for layer in layers])
    columns = _columns(layers, processor) / worst_ms[:, None]
    unit = columns.max(0)
    unit[unit == 0] = 1.0
    columns /= unit
    count = len(layers)
    nothing, each = np.zeros((count, 3)), np.eye(count)
    execution, memory, near = columns[:, :4], columns[:, 4:7], columns[:, 7:]
    # Unknown besides the 10 coefficients: each layer's larger delay, which both delays bound from below.
    cover = np.hstack((execution, np.where(near_dominates[:, None], nothing, memory),
                       np.where(near_dominates[:, None], near, nothing), 0 * each))
    larger = np.vstack((np.hstack((0 * execution, memory, nothing, -each)),
                        np.hstack((0 * execution, nothing, near, -each))))
    solution = linprog(np.concatenate((execution.sum(0), np.zeros(6), np.ones(count))),
                       A_ub=np.vstack((-cover, larger)), b_ub=np.concatenate((-np.ones(count), np.zeros(2 * count))),
                       bounds=(0, None), method='highs')
    if solution.x is None:
        raise FitNotFound(f'no parameters of the interval model cover {count} layers: {solution.message}')
    found = np.maximum(solution.x[:10], 0.0) / unit
    model = IntervalModel(processor, tuple(found[:4].tolist()), tuple(found[4:7].tolist()), tuple(found[7:].tolist()))
    # The solver keeps its constraints to a tolerance only.
    short = max(layer.worst_ms / model.wcet_ms(layer.counts) for layer in layers)
    return replace(model, **{name: tuple(value * max(1.0, short) for value in getattr(model, name))
                             for name in ('execution', 'memory', 'near')})
