"""Runs single layers and times them, alone or beside a second process that does the same kind of work.

Loads PyTorch when called, not before.
"""

from __future__ import annotations

import itertools
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deadline_perception.core.device import use_threads
from deadline_perception.core.stopwatch import now_ms, synchronise

sys.path.append(str(Path(__file__).resolve().parents[1] / 'layer_latency'))
from layers import ConvolutionShape, GroupNormShape, LayerShape

VISIT_RUNS = 4
HEAD_START_CYCLES = 4_000_000  # about 2 ms, in which the CPU hands all runs of a visit to the GPU
REPEATABLE = 1.5  # assumed: alone, only what takes the processor away makes a run take so much longer than the next
_CO_RUNNER_PERIOD_S = 0.05
_CO_RUNNER_STARTS_S = 120.0
_CO_RUNNER_LAYERS = (
    ConvolutionShape(128, 128, 3, 1, 40, 64),
    GroupNormShape(128, 32, 80, 128),
    ConvolutionShape(256, 128, 1, 1, 40, 64),
)


@dataclass(frozen=True)
class LayerVisit:
    """Runs of a layer, one right after the other; none is the first of its visit.

    Attributes:
        times_ms: their times, at least two.
        switches: how often the system took the processor from this process in each run; on a GPU 0.
    """

    times_ms: tuple[float, ...]
    switches: tuple[int, ...]

    def execution_ms(self, alone: bool) -> tuple[float, ...]:
        """The runs that were not interrupted, and the fastest in any case.

        A run was interrupted where the system took the processor away. The machine beneath a virtual one does so
        unseen: `alone`, without a co-runner, a run that takes much longer than another of its visit counts as
        interrupted as well. Beside one it does not, since that may have begun to work in the middle of the visit.
        """
        return tuple(
            value
            for value, interrupted in zip(self.times_ms, self._interrupted(alone))
            if not interrupted
        )

    def interruption_ms(self, alone: bool) -> float:
        """By how much the longest interrupted run exceeds the fastest run, 0 where none was; see `execution_ms`."""
        return max(
            (
                value - min(self.times_ms)
                for value, interrupted in zip(self.times_ms, self._interrupted(alone))
                if interrupted
            ),
            default=0.0,
        )

    def _interrupted(self, alone: bool) -> tuple[bool, ...]:
        fastest = min(self.times_ms)
        longest = REPEATABLE * fastest if alone else float('inf')
        return tuple(
            value > fastest and (switches > 0 or value > longest)
            for value, switches in zip(self.times_ms, self.switches)
        )


def layer_call(shape: LayerShape, device: str) -> Callable[[], object]:
    """A function that runs a layer of this shape on random values, channels last."""
    import torch
    from torch.nn import functional as F

    def image(*size: int) -> torch.Tensor:
        return torch.randn(size, device=device).contiguous(memory_format=torch.channels_last)

    if isinstance(shape, ConvolutionShape):
        x = image(1, shape.in_channels, shape.height, shape.width)
        weight = image(shape.out_channels, shape.in_channels, shape.kernel, shape.kernel)
        return lambda: F.conv2d(x, weight, None, shape.stride, shape.kernel // 2)
    x = image(1, shape.channels, shape.height, shape.width)
    scale, shift = torch.randn(2, shape.channels, device=device)
    return lambda: F.group_norm(x, shape.groups, scale, shift)


def visit_layer(call: Callable[[], object], device: str) -> LayerVisit:
    """Runs a layer five times and times the last four; on a GPU by its own events, launched ahead of their
    execution."""
    import torch

    with torch.inference_mode():
        call()
        if device.startswith('cuda'):
            with torch.cuda.device(device):
                marks = [torch.cuda.Event(enable_timing=True) for _ in range(VISIT_RUNS + 1)]
                # Else a short layer is timed by how fast it is launched.
                torch.cuda._sleep(HEAD_START_CYCLES)
                marks[0].record()
                for mark in marks[1:]:
                    call()
                    mark.record()
                synchronise(device)
            return LayerVisit(
                tuple(before.elapsed_time(after) for before, after in itertools.pairwise(marks)),
                (0,) * VISIT_RUNS,
            )
        switches = [_switches()]
        clock_ms = [now_ms()]
        for _ in range(VISIT_RUNS):
            call()
            clock_ms.append(now_ms())
            switches.append(_switches())
        return LayerVisit(
            tuple(after - before for before, after in itertools.pairwise(clock_ms)),
            tuple(after - before for before, after in itertools.pairwise(switches)),
        )


def _switches() -> int:
    """How often the system has taken the processor from a thread of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


class CoRunner:
    """A second process that runs layers on the same device for a set part of the time. Use as a context."""

    def __init__(self, device: str, threads: int = 1) -> None:
        context = multiprocessing.get_context('spawn')  # a forked process cannot use CUDA
        self._device = device
        self._utilisation = context.Value('d', 0.0)
        self._worked_s = context.Value('d', 0.0)
        self._ready = context.Event()
        self._process = context.Process(
            target=_run_co_runner,
            daemon=True,
            args=(device, threads, self._utilisation, self._worked_s, self._ready),
        )

    @property
    def worked_s(self) -> float:
        """Time for which layers of it had run after its last one, s; 0 before its first."""
        return self._worked_s.value

    def __enter__(self) -> CoRunner:
        self._process.start()
        if not self._ready.wait(_CO_RUNNER_STARTS_S):
            self._process.terminate()
            raise RuntimeError(f'no co-runner on {self._device} in {_CO_RUNNER_STARTS_S:g} s')
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.join()

    def use(self, utilisation: float) -> None:
        """Sets the part of the time that it works, 0 to 1, and waits until it does; RuntimeError where it has ended."""
        if not self._process.is_alive():
            raise RuntimeError(f'the co-runner on {self._device} has ended')
        self._utilisation.value = utilisation
        time.sleep(2 * _CO_RUNNER_PERIOD_S)


def _run_co_runner(device: str, threads: int, utilisation, worked_s, ready) -> None:
    import torch

    use_threads(threads)
    calls = [layer_call(shape, device) for shape in _CO_RUNNER_LAYERS]
    with torch.inference_mode():
        for call in calls:
            call()
        synchronise(device)
        ready.set()
        parent = multiprocessing.parent_process()
        turns = itertools.cycle(calls)
        while parent.is_alive():
            part = utilisation.value
            started = time.monotonic()
            ended = time.monotonic()
            while ended - started < part * _CO_RUNNER_PERIOD_S:
                before = ended
                next(turns)()
                synchronise(device)
                ended = time.monotonic()
                worked_s.value += ended - before
            # The last layer outlasts its time; so does the pause then.
            time.sleep((ended - started) * (1 - part) / part if part else _CO_RUNNER_PERIOD_S)
