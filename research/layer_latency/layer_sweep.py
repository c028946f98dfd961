"""How long a convolution takes inside a network, measured over sweeps of one of its dimensions.

A layer is timed as the middle one of three, because the first and the last of a network also take over what begins and
ends it (Jetson paper, section 3.3.1). Measurements go round over all layers, a few runs each time, in an order that is
drawn anew in every round: what drifts with time reaches all layers alike. A layer is left out once the confidence
interval of its median is narrow enough. Weights stay in the caches between the runs of a layer, as far as they fit.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from layers import ConvolutionShape

from deadline_perception.core.device import check_device
from deadline_perception.core.stopwatch import ms_from_ns, now_ms, now_ns

_VISIT_MS = 4.0  # of measured runs in a visit: one long run, or the median of several short ones
_MOST_RUNS = 7
_OUTER_CHANNELS = 4  # of the layers around the measured one: few, so that they cost little
HEAD_START_CYCLES = 4_000_000  # about 2 ms, in which the CPU hands all runs of a visit to the GPU
_Z_95 = 1.96


@dataclass(frozen=True)
class Sweep:
    """Convolutions that differ in one dimension alone.

    Attributes:
        name: what a reader calls it.
        dimension: which attribute of the shape is swept: `in_channels`, `out_channels` or `width`.
        layer: the shape that the values are put into.
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


@dataclass(frozen=True)
class MeasuredLayers:
    """Durations of layers on one device.

    Attributes:
        samples_ms: layer to its durations in ms, in the order of their measurement; added to while measuring.
    """

    samples_ms: dict[ConvolutionShape, list[float]]

    def median_ms(self, shape: ConvolutionShape) -> float:
        """Median duration of a layer in ms.

        Raises:
            ValueError: the layer was not measured.
        """
        if not self.samples_ms.get(shape):
            raise ValueError(f'{shape} was not measured')
        return statistics.median(self.samples_ms[shape])


@dataclass(frozen=True)
class Repetition:
    """When a layer has been run often enough.

    Attributes:
        accuracy: half the width of the 95 % confidence interval of the median, relative to it, that is narrow enough.
        least, most: runs that are made whatever the interval.
    """

    accuracy: float = 0.01
    least: int = 9
    most: int = 60

    def enough(self, samples_ms: Sequence[float]) -> bool:
        """Whether the median of these durations is known well enough, or will not be."""
        if len(samples_ms) < self.least:
            return False
        return len(samples_ms) >= self.most or median_uncertainty(samples_ms) <= self.accuracy


def median_uncertainty(samples_ms: Sequence[float]) -> float:
    """Half the width of the 95 % confidence interval of the median, relative to the median.

    The interval runs between two order statistics, so nothing is assumed of the distribution; infinite below six
    samples, which bound no median with that confidence.
    """
    count = len(samples_ms)
    if count < 6:
        return math.inf
    ordered = sorted(samples_ms)
    rank = max(0, math.floor((count - 1 - _Z_95 * math.sqrt(count)) / 2))
    return (ordered[count - 1 - rank] - ordered[rank]) / (2.0 * statistics.median(ordered))


class LayerTimer:
    """Times convolutions on one device, each as the middle layer of three. Channels last, as the detector runs them.

    Raises:
        DeviceNotFound: the device is not in this machine.
        ValueError: the device has another name.
    """

    def __init__(self, device: str = 'cpu') -> None:
        check_device(device)
        self._device = device
        self._noise: Any = None

    def time_layer(self, shape: ConvolutionShape, runs: int) -> list[float]:
        """Runs the network, once or more, and returns what the middle layer took in each run, ms.

        Before them come up to two runs that are not measured: they prepare the kernels and fill the caches.
        """
        import torch
        from torch.nn.functional import conv2d

        before = self._weight(shape.in_channels, _OUTER_CHANNELS, 1)
        weight = self._weight(shape.out_channels, shape.in_channels, shape.kernel)
        after = self._weight(_OUTER_CHANNELS, shape.out_channels, 1)
        image = torch.rand(
            shape.batch, _OUTER_CHANNELS, shape.height, shape.width, device=self._device
        )
        image = image.contiguous(memory_format=torch.channels_last)
        warm_up = min(runs, 2)
        marks = []
        device_in_use = nullcontext() if self._device == 'cpu' else torch.cuda.device(self._device)
        with torch.inference_mode(), device_in_use:
            for run in range(-warm_up, runs):
                if run == 0 and self._device != 'cpu':
                    torch.cuda._sleep(
                        HEAD_START_CYCLES
                    )  # else a short layer is timed by how fast it is launched
                features = conv2d(image, before)
                started = self._mark()
                features = conv2d(features, weight, None, shape.stride, shape.kernel // 2)
                ended = self._mark()
                conv2d(features, after)
                marks.append((started, ended))
        return self._durations(marks[warm_up:])

    def _weight(self, out_channels: int, in_channels: int, kernel: int):
        """Random weights; all layers share their memory."""
        import torch

        size = out_channels * in_channels * kernel**2
        if self._noise is None or len(self._noise) < size:
            self._noise = torch.rand(size, device=self._device) - 0.5
        return (
            self._noise[:size].view(out_channels, kernel, kernel, in_channels).permute(0, 3, 1, 2)
        )

    def _mark(self):
        if self._device == 'cpu':
            return now_ns()
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def _durations(self, marks: list[tuple]) -> list[float]:
        if self._device == 'cpu':
            return [ms_from_ns(ended - started) for started, ended in marks]
        marks[-1][1].synchronize()
        return [started.elapsed_time(ended) for started, ended in marks]


def measure_layers(
    samples_ms: dict[ConvolutionShape, list[float]],
    timer: LayerTimer,
    repetition: Repetition,
    rng: random.Random,
) -> Iterator[int]:
    """Adds durations to every layer until they are enough; may be left at any time.

    Args:
        samples_ms: layer to its durations so far; added to in place.
        timer, repetition: run the layers, and say when that was often enough.
        rng: draws the order of every round.

    Yields:
        After every visit of a layer, how many layers are done.
    """
    open_layers = [shape for shape, samples in samples_ms.items() if not repetition.enough(samples)]
    while open_layers:
        rng.shuffle(open_layers)
        left = []
        for number, shape in enumerate(open_layers):
            samples = samples_ms[shape]
            runs = round(_VISIT_MS / samples[-1]) if samples else 1
            samples.append(
                statistics.median(timer.time_layer(shape, min(max(runs, 1), _MOST_RUNS)))
            )
            if not repetition.enough(samples):
                left.append(shape)
            yield len(samples_ms) - len(left) - (len(open_layers) - number - 1)
        open_layers = left


def measure_for(
    shapes: Iterable[ConvolutionShape], timer: LayerTimer, repetition: Repetition, limit_ms: float
) -> MeasuredLayers:
    """Measures layers until all are known well enough, or the time is over; blocks."""
    measured = MeasuredLayers({shape: [] for shape in shapes})
    until_ms = now_ms() + limit_ms
    for _ in measure_layers(measured.samples_ms, timer, repetition, random.Random(0)):
        if now_ms() > until_ms:
            break
    return measured
