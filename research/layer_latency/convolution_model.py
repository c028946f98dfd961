"""Latency of any convolution, from measured ones and the steps that were found in sweeps of single dimensions.

Beyond the Jetson paper, which leaves the combination of its dimensions to later work. A convolution costs what its
operations cost, counted with every dimension rounded up to the blocks in which the device works; the values that it
reads and writes, more for those that no cache holds; and a constant. The cost of each is found by least squares on the
relative error, none below zero. Libraries choose between kernels by thresholds of the shape (kernel side, stride,
size), so there are several cost models, found by splitting the measured layers in two wherever that lowers the error
enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from layers import FLOAT_BYTES, ConvolutionShape
from scipy.optimize import nnls
from step_latency import StepModel

_LEAST_LEAF = 20  # layers that share a cost model; fewer would not pin it down
_DEEPEST = 3
_REWEIGHTINGS = 8
_REWEIGHTINGS_OF_SEARCH = 3
_SMALL_ERROR = 0.005  # relative; errors below weigh alike, so that a perfect fit of some layers does not decide all
_CACHES_BYTES = tuple(2**power for power in range(17, 26))  # 128 KiB to 32 MiB
_ATTRIBUTES: dict[str, Callable[[ConvolutionShape], int]] = {
    'pointwise': lambda shape: int(
        shape.kernel == 1 and shape.stride == 1
    ),  # a plain matrix product
    'kernel': lambda shape: shape.kernel,
    'stride': lambda shape: shape.stride,
    'input values': lambda shape: _input_values(shape),
}


@dataclass(frozen=True)
class CostModel:
    """Cost of each unit of a convolution's work, in ms; the units are those of `_units`."""

    costs_ms: tuple[float, ...]


@dataclass(frozen=True)
class Split:
    """Layers whose attribute is at most the threshold are predicted by `low`, others by `high`."""

    attribute: str
    threshold: float
    low: CostModel | Split
    high: CostModel | Split


@dataclass(frozen=True)
class ConvolutionModel:
    """Predicts the latency of convolutions on one device.

    Attributes:
        blocks: dimension to the sizes that it is rounded up to: its step depth and its period.
        cache_bytes: bytes above which what is read and written no longer stays near the processor.
        cost: one cost model, or a choice between several.
    """

    blocks: Mapping[str, tuple[int, int]]
    cache_bytes: int
    cost: CostModel | Split

    def predict(self, shape: ConvolutionShape) -> float:
        """Latency of a convolution in ms."""
        node = self.cost
        while isinstance(node, Split):
            node = node.low if _ATTRIBUTES[node.attribute](shape) <= node.threshold else node.high
        return float(np.dot(_units(shape, self.blocks, self.cache_bytes), node.costs_ms))

    @property
    def cost_models(self) -> int:
        """How many cost models were found."""

        def count(node: CostModel | Split) -> int:
            return 1 if isinstance(node, CostModel) else count(node.low) + count(node.high)

        return count(self.cost)


def fit_convolution_model(
    shapes: Sequence[ConvolutionShape],
    latencies_ms: Sequence[float],
    steps: Mapping[str, StepModel],
) -> ConvolutionModel:
    """Finds the costs that explain measured convolutions best.

    Args:
        shapes: measured convolutions, best drawn at random from those that are to be predicted.
        latencies_ms: their latencies, each above 0 ms.
        steps: the steps found in sweeps, for `in_channels`, `out_channels` and `width`; none for a missing one.
    """
    latencies = np.asarray(latencies_ms, float)
    blocks = {name: (model.depth, model.period) for name, model in steps.items()}
    attributes = {
        name: np.array([read(shape) for shape in shapes], float)
        for name, read in _ATTRIBUTES.items()
    }
    best = None
    for cache_bytes in _CACHES_BYTES:
        units = np.array([_units(shape, blocks, cache_bytes) for shape in shapes])
        error = _fit_costs(units, latencies)[1]
        if best is None or error < best[0]:
            best = error, cache_bytes, units
    _, cache_bytes, units = best
    return ConvolutionModel(blocks, cache_bytes, _grow(units, latencies, attributes, _DEEPEST))


def _input_values(shape: ConvolutionShape) -> int:
    return shape.in_channels * shape.height * shape.width


def _units(
    shape: ConvolutionShape, blocks: Mapping[str, tuple[int, int]], cache_bytes: int
) -> list[float]:
    """What a convolution is charged for.

    A call; operations: plain, in whole steps and in whole periods; a pass over the inputs of every position, and one
    more for every power of two in which the output channels beyond the last whole step are done; operations on values
    that fit no cache; values read and written; weights, and bytes of those that fit no cache.
    """
    sizes = {
        'in_channels': shape.in_channels,
        'out_channels': shape.out_channels,
        'width': shape.out_width,
    }
    rounded = [
        shape.out_height
        * shape.kernel**2
        * math.prod(
            -(-size // blocks.get(name, (1, 1))[level]) * blocks.get(name, (1, 1))[level]
            for name, size in sizes.items()
        )
        for level in (0, 1)
    ]
    values_in = _input_values(shape)
    values_out = shape.store_bytes // FLOAT_BYTES
    passes = shape.positions * shape.in_channels * shape.kernel**2
    rest = shape.out_channels % blocks.get('out_channels', (1, 1))[0]
    uncached = FLOAT_BYTES * (values_in + values_out) > cache_bytes
    return [
        1.0,
        shape.operations,
        *rounded,
        passes,
        passes * rest.bit_count(),
        shape.operations * uncached,
        values_in,
        values_out,
        shape.weights,
        max(0.0, FLOAT_BYTES * shape.weights - cache_bytes),
    ]


def _fit_costs(
    units: np.ndarray, latencies: np.ndarray, reweightings: int = _REWEIGHTINGS
) -> tuple[CostModel, float]:
    """Costs of least mean absolute relative error, by reweighted least squares, and that error."""
    scale = np.maximum(units.max(axis=0), 1e-12)
    relative = units / scale / latencies[:, None]
    weights = np.ones(len(latencies))
    best = None
    least = math.inf
    for _ in range(reweightings):
        solution = nnls(relative * weights[:, None], weights)[0]
        errors = np.abs(relative @ solution - 1.0)
        if errors.mean() < least:
            best = solution
            least = errors.mean()
        weights = 1.0 / np.sqrt(np.maximum(errors, _SMALL_ERROR))
    return CostModel(tuple(float(cost) for cost in best / scale)), float(least)


def _grow(
    units: np.ndarray, latencies: np.ndarray, attributes: dict[str, np.ndarray], depth: int
) -> CostModel | Split:
    """Splits the layers as the best arrangement of up to two splits begins, then each part of them in turn."""
    split = _best_arrangement(units, latencies, attributes, min(depth, 2))[1]
    if split is None:
        return _fit_costs(units, latencies)[0]
    name, threshold = split
    threshold = _refine(units, latencies, attributes, name, threshold, min(depth, 2) - 1)
    low = attributes[name] <= threshold
    branches = [
        _grow(units[part], latencies[part], _select(attributes, part), depth - 1)
        for part in (low, ~low)
    ]
    return Split(name, threshold, *branches)


def _best_arrangement(
    units: np.ndarray, latencies: np.ndarray, attributes: dict[str, np.ndarray], splits: int
) -> tuple[float, tuple[str, float] | None]:
    """Criterion of the best cost models that so many levels of splits can give, and the first split (None: one model).

    It is the sum of absolute relative errors on a logarithmic scale plus what the costs' freedom must earn
    (Bayesian information criterion). Two levels are looked at together, because a library's choice often hangs on two
    attributes, and then neither alone tells much.
    """
    best = _criterion(_fit_costs(units, latencies, _REWEIGHTINGS_OF_SEARCH)[1], units), None
    for name, values in attributes.items():
        for threshold in _thresholds(values) if splits else ():
            low = values <= threshold
            if min(low.sum(), len(values) - low.sum()) < _LEAST_LEAF:
                continue
            cost = sum(
                _best_arrangement(
                    units[part], latencies[part], _select(attributes, part), splits - 1
                )[0]
                for part in (low, ~low)
            )
            if cost < best[0]:
                best = cost, (name, threshold)
    return best


def _refine(
    units: np.ndarray,
    latencies: np.ndarray,
    attributes: dict[str, np.ndarray],
    name: str,
    threshold: float,
    splits: int,
) -> float:
    """The best threshold among the measured values around one that was chosen from a few."""
    values = attributes[name]
    coarse = _thresholds(values)
    place = coarse.index(threshold)
    least = coarse[place - 1] if place else -math.inf
    most = coarse[place + 1] if place + 1 < len(coarse) else math.inf
    best = math.inf, threshold
    for option in np.unique(values[(values >= least) & (values <= most)]):
        low = values <= option
        if min(low.sum(), len(values) - low.sum()) >= _LEAST_LEAF:
            cost = sum(
                _best_arrangement(units[part], latencies[part], _select(attributes, part), splits)[
                    0
                ]
                for part in (low, ~low)
            )
            best = min(best, (cost, float(option)))
    return best[1]


def _criterion(error: float, units: np.ndarray) -> float:
    return 2.0 * len(units) * math.log(max(error, _SMALL_ERROR)) + (units.shape[1] + 1) * math.log(
        len(units)
    )


def _select(attributes: dict[str, np.ndarray], part: np.ndarray) -> dict[str, np.ndarray]:
    return {name: values[part] for name, values in attributes.items()}


def _thresholds(values: np.ndarray) -> list[float]:
    """Values between which layers may be split: all where there are few, else at their quantiles."""
    distinct = np.unique(values)
    if len(distinct) <= 9:
        return list(distinct[:-1])
    return list(np.quantile(values, np.linspace(0.05, 0.95, 19)))
