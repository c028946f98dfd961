"""Runs single layers and times them, alone or beside a second process that does the same kind of work.

Loads PyTorch when called, not before.
"""
from __future__ import annotations

import itertools
import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deadline_perception.errors import DeadlinePerceptionError
from deadline_perception.latency.device import use_threads
from deadline_perception.latency.layers import (
    ConvolutionShape,
    ElementwiseShape,
    GroupNormShape,
    LayerShape,
    LinearShape,
    ResizeShape,
    SuppressionShape,
)
from deadline_perception.latency.stopwatch import now_ms, synchronise

VISIT_RUNS = 4
REPEATABLE = 1.5  # measured: benchmarks/layer_wcet.py; contention outlasts a layer and stretches it by less
_TENANT_PERIOD_S = 0.05
_TENANT_STARTS_S = 120.0
_TENANT_LAYERS = (ConvolutionShape(128, 128, 3, 1, 40, 64), GroupNormShape(128, 32, 80, 128),
                  ConvolutionShape(256, 128, 1, 1, 40, 64))
_COPY_BYTES = 2 ** 28
_COPIES = 5


class TenantNotStarted(DeadlinePerceptionError):
    """The second process did not get as far as running layers."""


@dataclass(frozen=True)
class LayerVisit:
    """Runs of a layer, one right after the other; none is the first of its visit.

    Attributes:
        times_ms: their times, at least two.

    Raises:
        ValueError: there are fewer than two times, or one is not positive.
    """

    times_ms: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.times_ms) < 2 or not all(0 < value < float('inf') for value in self.times_ms):
            raise ValueError(f'times of a visit are {self.times_ms} ms, expected at least two, all above 0 ms')

    @property
    def execution_ms(self) -> tuple[float, ...]:
        """The runs that were not interrupted.

        A run that takes much longer than another of its visit had the processor taken away: by the system, or by the
        machine beneath a virtual one. That is no execution time of the layer. Contention lasts longer than a visit and
        slows all of its runs.
        """
        return tuple(value for value in self.times_ms if value <= REPEATABLE * min(self.times_ms))

    @property
    def interruption_ms(self) -> float:
        """By how much the longest interrupted run exceeds the shortest run; 0 where none was interrupted."""
        interrupted = len(self.execution_ms) < len(self.times_ms)
        return max(self.times_ms) - min(self.times_ms) if interrupted else 0.0


def layer_call(shape: LayerShape, device: str) -> Callable[[], object]:
    """A function that runs a layer of this shape on random values, channels last.

    Args:
        shape: any but region features, whose kernel belongs to the network.
        device: `cpu`, `cuda` or `cuda:INDEX`.

    Raises:
        ValueError: the shape is of another kind.
    """
    import torch
    from torch.nn import functional as F

    def image(channels: int, height: int, width: int, batch: int) -> torch.Tensor:
        return torch.randn(batch, channels, height, width, device=device).contiguous(memory_format=torch.channels_last)

    if isinstance(shape, ConvolutionShape):
        x = image(shape.in_channels, shape.height, shape.width, shape.batch)
        weight = image(shape.in_channels, shape.kernel, shape.kernel, shape.out_channels)
        return lambda: F.conv2d(x, weight, None, shape.stride, shape.kernel // 2)
    if isinstance(shape, GroupNormShape):
        x = image(shape.channels, shape.height, shape.width, shape.batch)
        scale, shift = torch.randn(2, shape.channels, device=device)
        return lambda: F.group_norm(x, shape.groups, scale, shift)
    if isinstance(shape, LinearShape):
        x, weight = (torch.randn(rows, shape.inputs, device=device) for rows in (shape.rows, shape.outputs))
        return lambda: F.linear(x, weight)
    if isinstance(shape, SuppressionShape):
        from torchvision.ops import nms

        low = torch.rand(shape.boxes, 2, device=device) * 500.0
        boxes, scores = torch.cat((low, low + 40.0), 1), torch.rand(shape.boxes, device=device)
        return lambda: nms(boxes, scores, 0.7)
    if isinstance(shape, ResizeShape):
        # One row of pixels a channel would be another kernel: as near a square as the number of values allows.
        factor = round((shape.out_elements / shape.in_elements) ** 0.5, 3)
        side = max(4, round((shape.in_elements / 64) ** 0.5))
        x = image(64, side, side, 1)
        return lambda: F.interpolate(x, scale_factor=factor, mode='nearest' if shape.taps == 1 else 'bilinear')
    if isinstance(shape, ElementwiseShape):
        tensors = [torch.randn(shape.elements, device=device) for _ in range(shape.inputs)]
        return (lambda: F.relu_(tensors[0])) if shape.inputs == 1 else lambda: tensors[0] + tensors[1]
    raise ValueError(f'layer is {shape}, expected a kind that runs by itself')


def visit_layer(call: Callable[[], object], device: str) -> LayerVisit:
    """Runs a layer five times and times the last four; on a GPU by its own events, free of launch gaps."""
    import torch

    with torch.inference_mode():
        call()
        if device.startswith('cuda'):
            marks = [torch.cuda.Event(enable_timing=True) for _ in range(VISIT_RUNS + 1)]
            marks[0].record()
            for mark in marks[1:]:
                call()
                mark.record()
            synchronise(device)
            return LayerVisit(tuple(before.elapsed_time(after) for before, after in itertools.pairwise(marks)))
        clock_ms = [now_ms()]
        for _ in range(VISIT_RUNS):
            call()
            clock_ms.append(now_ms())
        return LayerVisit(tuple(after - before for before, after in itertools.pairwise(clock_ms)))


def measure_bandwidth_gb_s(device: str) -> float:
    """Bandwidth of the device's memory, GB/s: the fastest of a few copies of 256 MiB, read and written."""
    import torch

    source = torch.ones(_COPY_BYTES // 4, device=device)
    target = torch.empty_like(source)
    times_ms = []
    for _ in range(_COPIES):
        synchronise(device)
        started = now_ms()
        target.copy_(source)
        synchronise(device)
        times_ms.append(now_ms() - started)
    return 2 * _COPY_BYTES / min(times_ms) / 1e6


class SecondTenant:
    """A second process that runs layers on the same device for a set part of the time. Use as a context.

    Args:
        device: `cpu`, `cuda` or `cuda:INDEX`.
        threads: CPU threads that its layers are spread over.

    Raises:
        TenantNotStarted: on entering, the process does not get ready.
    """

    def __init__(self, device: str, threads: int = 1) -> None:
        context = multiprocessing.get_context('spawn')  # a forked process cannot use CUDA
        self._device = device
        self._utilisation = context.Value('d', 0.0)
        self._busy_s = context.Value('d', 0.0)
        self._ready = context.Event()
        self._process = context.Process(target=_run_tenant, daemon=True,
                                        args=(device, threads, self._utilisation, self._busy_s, self._ready))

    @property
    def busy_s(self) -> float:
        """CPU time that it had used after its last layer, s; 0 before its first."""
        return self._busy_s.value

    def __enter__(self) -> SecondTenant:
        self._process.start()
        if not self._ready.wait(_TENANT_STARTS_S):
            self._process.terminate()
            raise TenantNotStarted(f'the second tenant was not ready on {self._device} within {_TENANT_STARTS_S:.0f} s')
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.join()

    def use(self, utilisation: float) -> None:
        """Sets the part of the time that it works, and waits until it does.

        Args:
            utilisation: 0 to 1.

        Raises:
            ValueError: the part lies outside.
        """
        if not 0 <= utilisation <= 1:
            raise ValueError(f'utilisation is {utilisation}, expected a part of the time, 0 to 1')
        self._utilisation.value = utilisation
        time.sleep(2 * _TENANT_PERIOD_S)


def _run_tenant(device: str, threads: int, utilisation, busy_s, ready) -> None:
    import torch

    use_threads(threads)
    calls: Sequence[Callable[[], object]] = [layer_call(shape, device) for shape in _TENANT_LAYERS]
    with torch.inference_mode():
        for call in calls:
            call()
        synchronise(device)
        ready.set()
        parent, turns = multiprocessing.parent_process(), itertools.cycle(calls)
        while parent.is_alive():
            started = time.monotonic()
            work_s = utilisation.value * _TENANT_PERIOD_S
            while time.monotonic() - started < work_s:
                next(turns)()
                synchronise(device)
                busy_s.value = time.process_time()
            time.sleep(max(0.0, _TENANT_PERIOD_S - (time.monotonic() - started)))
