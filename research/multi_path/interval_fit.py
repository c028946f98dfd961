"""Parameters of the interval model by constrained regression: the least total over-estimate that covers what was seen.

The multi-path paper (section IV-C) finds the parameters by linear regression over profiled layers. Here the regression
is a linear program whose constraints are the worst observations, so that the result is a bound on the measured layers.
Fitted are the four coefficients of assumption 1, and two shares of at most 1: of the lines that miss, and of the shared
accesses that conflict. What a request costs comes from the device. Where times do not tell execution from memory, the
memory gets as much as it can: of all fits that over-estimate next to least, the one with the largest share of misses.

For layers that were not measured, each measured one is left out in turn and bounded by the others, raised until they
cover it where they do not; the bound is the largest of all these fits. (One fit to all layers, raised by the worst of
those factors, would count an odd layer twice: in the fit and in the factor.) If a new layer is exchangeable with the n
measured ones, its worst time in as many runs exceeds the bound with a probability of at most 2 / (n + 1) (jackknife+,
Barber et al. 2021). That holds on average over choices of layers, not for a layer picked for being unlike them; and the
worst of so many runs is no worst case: which share of further runs it bounds, `sample_size.bounded_share` tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from interval_model import CoveringModel, IntervalModel, LayerCounts, Processor
from scipy.optimize import linprog, nnls

_BRANCH_ROUNDS = 8
# of the worst times on average: over-estimate accepted for a larger share of misses
_SPENT_ON_MISSES = 0.002


@dataclass(frozen=True)
class MeasuredLayer:
    """What was seen of one layer in one state of contention: its mean and its longest execution time."""

    counts: LayerCounts
    mean_ms: float
    worst_ms: float


def fit_interval_model(layers: Sequence[MeasuredLayer], processor: Processor) -> CoveringModel:
    """The model that bounds every measured layer's worst time with the least total relative over-estimate; of at least
    3 layers of one family.

    Raises:
        ValueError: no parameters cover the layers.
    """
    fits = [covering_model(layers, processor)]
    for left_out in range(len(layers)):
        others = covering_model(
            [layer for i, layer in enumerate(layers) if i != left_out], processor
        )
        bound_ms = others.wcet_ms(layers[left_out].counts)
        fits.append(
            replace(others, calibration_factor=max(1.0, layers[left_out].worst_ms / bound_ms))
        )
    return CoveringModel(tuple(fits))


def fit_oblivious_model(layers: Sequence[MeasuredLayer], processor: Processor) -> IntervalModel:
    """The baseline that knows no contention: assumption 1 alone, fitted to mean times by least squares."""
    means_ms = np.array([layer.mean_ms for layer in layers])
    columns = _columns(layers, processor)[:, :4] / means_ms[:, None]
    scale = columns.max(0)
    scale[scale == 0] = 1.0
    coefficients, _ = nnls(columns / scale, np.ones(len(layers)))
    return IntervalModel(processor, tuple((coefficients / scale).tolist()))


def _columns(layers: Sequence[MeasuredLayer], processor: Processor) -> np.ndarray:
    """Time in ms per unit of each parameter, `[N, 6]`: four of execution, all requests to the memory, all nearby."""
    request_cycles = processor.mshr_delay(1.0) + processor.dram_delay(1.0)
    rows = [
        [
            c.computations,
            c.loads,
            c.stores,
            1.0,
            request_cycles * (c.memory_loads + c.memory_stores),
            processor.near_latency_cycles * (c.near_loads + c.near_stores),
        ]
        for c in (layer.counts for layer in layers)
    ]
    return np.array(rows) * processor.ms(1.0) / processor.processors


def covering_model(layers: Sequence[MeasuredLayer], processor: Processor) -> IntervalModel:
    """One fit to all measured layers, without a calibration factor: it bounds these and promises nothing of others.

    The bound takes the larger of two memory delays, so that "bound above observation" is no linear constraint. It is
    one once it is settled which of the two is the larger for each layer: that is guessed, solved and put right until
    it stays; the best round counts. First guesses: for all, none, and half of the layers, those with
    the most requests nearby for one to the memory, the larger is the one for the shared memory.
    """
    best: tuple[float, IntervalModel] | None = None
    columns = _columns(layers, processor)
    tiny = np.finfo(float).tiny
    nearness = columns[:, 5] / np.maximum(columns[:, 4], tiny)
    for start in (np.inf, -np.inf, np.median(nearness)):
        near_dominates = nearness > start
        for _ in range(_BRANCH_ROUNDS):
            model = _model_for_branches(layers, processor, near_dominates)
            ratios = [model.wcet_ms(layer.counts) / layer.worst_ms for layer in layers]
            excess = sum(ratio - 1.0 for ratio in ratios)
            if best is None or excess < best[0] - 1e-9:
                best = excess, model
            now = columns[:, 5] * model.conflicting > columns[:, 4] * model.missing
            if (now == near_dominates).all():
                break
            near_dominates = now
    return best[1]


def _model_for_branches(
    layers: Sequence[MeasuredLayer], processor: Processor, near_dominates: np.ndarray
) -> IntervalModel:
    """Covers every layer by execution and the one memory delay that is taken to be its larger."""
    count = len(layers)
    worst_ms = np.array([layer.worst_ms for layer in layers])
    columns = _columns(layers, processor) / worst_ms[:, None]
    unit = columns.max(0)
    unit[unit == 0] = 1.0
    columns /= unit
    execution = columns[:, :4]
    memory = columns[:, 4:5]
    near = columns[:, 5:]
    nothing = np.zeros((count, 1))
    each = np.eye(count)
    of_near = near_dominates[:, None]
    # Unknown besides the 6 parameters: each layer's larger delay, which both delays bound from below.
    cover = np.hstack((execution, memory * ~of_near, near * of_near, 0 * each))
    of_memory = np.hstack((0 * execution, memory, nothing, -each))
    of_nearby = np.hstack((0 * execution, nothing, near, -each))
    rows = np.vstack((-cover, of_memory, of_nearby))
    limits = np.concatenate((-np.ones(count), np.zeros(2 * count)))
    of_execution = execution.sum(0)
    cost = np.concatenate((of_execution, np.zeros(2), np.ones(count)))
    free = (0, None)
    shares = [(0, unit[4]), (0, unit[5])]
    bounds = [free] * 4 + shares + [free] * count
    least = linprog(cost, A_ub=rows, b_ub=limits, bounds=bounds, method='highs')
    if least.x is None:
        raise ValueError(f'no parameters of the model cover {count} layers: {least.message}')
    most_misses = linprog(
        -np.eye(len(cost))[4],
        A_ub=np.vstack((rows, cost)),
        bounds=bounds,
        method='highs',
        b_ub=np.append(limits, least.fun + _SPENT_ON_MISSES * count),
    )
    solved = least if most_misses.x is None else most_misses
    found = np.maximum(solved.x[:6], 0.0) / unit
    execution_terms = tuple(found[:4].tolist())
    memory_shares = np.minimum(found[4:], 1.0).tolist()
    model = IntervalModel(processor, execution_terms, *memory_shares)
    # The solver keeps its constraints to a tolerance only.
    short_ms = max(0.0, *(layer.worst_ms - model.wcet_ms(layer.counts) for layer in layers))
    constant = model.execution[3] + short_ms / processor.ms(1.0) * processor.processors
    return replace(model, execution=(*model.execution[:3], constant))
