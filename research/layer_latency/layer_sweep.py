"""How long a convolution takes inside a network, measured over sweeps of one of its dimensions.

A layer is timed as the middle one of three, because the first and the last of a network also take over what begins and
ends it (Jetson paper, section 3.3.1). Measurements go round over all layers, a few runs each time, in an order that is
drawn anew in every round: what drifts with time reaches all layers alike. Weights stay in the caches between the runs
of a layer, as far as they fit.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from layers import ConvolutionShape
from scipy.stats import quantile_test
from step_latency import StepModel, fit_step_model
from torch.nn.functional import conv2d

from deadline_perception.core.stopwatch import ms_from_ns, now_ms, now_ns

_VISIT_MS = 4.0  # of measured runs in a visit: one long run, or the median of several short ones
_MOST_RUNS = 7
_OUTER_CHANNELS = 4  # of the layers around the measured one: few, so that they cost little
Samples = dict[ConvolutionShape, list[float]]


@dataclass(frozen=True)
class Sweep:
    """Convolutions that differ in one dimension alone.

    Attributes:
        dimension: which attribute of the shape is swept: `in_channels`, `out_channels` or `width`.
        values: ascending, at least 1.
    """

    name: str
    dimension: str
    layer: ConvolutionShape
    values: tuple[int, ...]

    @property
    def shapes(self) -> tuple[ConvolutionShape, ...]:
        """The layer with each of the values."""
        return tuple(replace(self.layer, **{self.dimension: value}) for value in self.values)


def median_uncertainty(samples_ms: Sequence[float]) -> float:
    """Half the width of the 95 % confidence interval of the median, relative to the median; infinite below six samples,
    which bound no median with that confidence."""
    interval = quantile_test(samples_ms, p=0.5).confidence_interval(0.95)
    width = interval.high - interval.low
    return math.inf if math.isnan(width) else width / (2.0 * statistics.median(samples_ms))


class LayerTimer:
    """Times convolutions on the CPU, each as the middle layer of three. Channels last, as the detector runs them."""

    def __init__(self) -> None:
        self._noise = torch.empty(0)

    def time_layer(self, shape: ConvolutionShape, runs: int) -> list[float]:
        """Runs the network, once or more, and returns what the middle layer took in each run, ms.

        Before them come up to two runs that are not measured: they prepare the kernels and fill the caches.
        """
        before = self._weight(shape.in_channels, _OUTER_CHANNELS, 1)
        weight = self._weight(shape.out_channels, shape.in_channels, shape.kernel)
        after = self._weight(_OUTER_CHANNELS, shape.out_channels, 1)
        image = torch.rand(1, _OUTER_CHANNELS, shape.height, shape.width)
        image = image.contiguous(memory_format=torch.channels_last)
        warm_up = min(runs, 2)
        times_ms = []
        with torch.inference_mode():
            for _ in range(warm_up + runs):
                features = conv2d(image, before)
                begun_ns = now_ns()
                features = conv2d(features, weight, None, shape.stride, shape.kernel // 2)
                times_ms.append(ms_from_ns(now_ns() - begun_ns))
                conv2d(features, after)
        return times_ms[warm_up:]

    def _weight(self, out_channels: int, in_channels: int, kernel: int) -> torch.Tensor:
        """Random weights; all layers share their memory."""
        size = out_channels * in_channels * kernel**2
        if len(self._noise) < size:
            self._noise = torch.rand(size) - 0.5
        values = self._noise[:size].view(out_channels, kernel, kernel, in_channels)
        return values.permute(0, 3, 1, 2)


def measure_layers(shapes: Iterable[ConvolutionShape], limit_ms: float) -> Samples:
    """Durations of layers in ms, measured until the time is over; blocks."""
    timer = LayerTimer()
    samples_ms = {shape: [] for shape in shapes}
    until_ms = now_ms() + limit_ms
    rng = random.Random(0)
    while True:
        for shape in rng.sample(list(samples_ms), len(samples_ms)):
            samples = samples_ms[shape]
            runs = round(_VISIT_MS / samples[-1]) if samples else 1
            times_ms = timer.time_layer(shape, min(max(runs, 1), _MOST_RUNS))
            samples.append(statistics.median(times_ms))
            if now_ms() > until_ms:
                return samples_ms


@dataclass(frozen=True)
class SweepResult:
    """A measured sweep and what was predicted for it.

    Attributes:
        count: values of the sweep that were measured.
        model: fitted to all of them.
        few: the same steps, with bounds from four of them.
        few_values: those four.
        few_error: mean absolute percentage error of `few` over the other values, as a share.
    """

    sweep: Sweep
    count: int
    model: StepModel
    few: StepModel
    few_values: tuple[int, ...]
    few_error: float


def evaluate_sweep(sweep: Sweep, measured: Samples, steps: StepModel | None = None) -> SweepResult:
    """Fits a sweep, without the values that were not reached, and predicts it from four of its measurements; `steps`
    has depth and period found elsewhere on the same device, None: those of this sweep."""
    reached = {
        value: statistics.median(measured[shape])
        for value, shape in zip(sweep.values, sweep.shapes)
        if measured[shape]
    }
    model = fit_step_model(list(reached), list(reached.values()))
    shape = steps or model
    chosen = shape.choose_values(list(reached))
    few = shape.with_bounds(chosen, [reached[value] for value in chosen])
    others = [value for value in reached if value not in chosen]
    seen_ms = np.array([reached[value] for value in others])
    errors = few.predict(np.array(others)) / seen_ms - 1.0
    error = float(np.abs(errors).mean())
    return SweepResult(sweep, len(reached), model, few, chosen, error)
