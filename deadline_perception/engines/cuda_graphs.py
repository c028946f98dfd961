"""Segments recorded once and replayed: on a GPU, one launch in place of hundreds.

A segment of one key always does the same work on the same shapes, so a CUDA graph of it can be replayed for every
frame, provided that it finds its inputs where they lay when it was captured. Hence every value that passes from segment
to segment has a buffer of its own, outside the graphs' memory; a segment reads the buffers of earlier ones and its last
step copies its outputs to theirs. Each buffer belongs to one kind of value at one width or number of regions, so which
buffers a segment reads follows from its key, whatever path the frame took there.

What depends on the data stays as it is: reading the image, selecting proposals and the final decoding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import torch

from deadline_perception.engines.eager import (
    ArrayCompute,
    Arrays,
    Compute,
    Engine,
    Inputs,
    Values,
    as_tensors,
)

Replay: TypeAlias = Callable[[], None]

_WARM_UPS = 2  # first calls choose kernels and allocate workspaces, which may not be captured
_TOLERANCE = 0.01  # of the largest value: far above what another order of sums changes


class CudaGraphs(Engine):
    """The recorded segments of one network, for one frame at a time.

    Each segment is recorded as it first runs, and must then give what it gave before; one that cannot be recorded, or
    gives something else, is computed in every frame. Valid as long as the weights stay where they are.

    Args:
        device: processor that holds the buffers, such as `cuda:0`.
        record: makes a replay of a function without side effects: it computes anew from the same tensors and writes
            the outputs into the given buffers. Does not write while recording. Raises RuntimeError when it cannot.

    Attributes:
        failures: why segments are not replayed, by their keys.
    """

    identity = 'cuda_graphs'
    reuses_buffers = True

    def __init__(
        self, device: str, record: Callable[[Callable[[], Values], Values], Replay]
    ) -> None:
        self._device = device
        self.failures: dict[str, str] = {}
        self._record = record
        self._buffers: dict[object, Values] = {}
        self._pinned: dict[object, Values] = {}
        self._stream = torch.cuda.Stream(device, priority=-1) if device.startswith('cuda') else None
        self._recorded: dict[str, tuple[Replay, Values]] = {}
        self._frame = 0

    def __len__(self) -> int:
        """Number of segments that are replayed."""
        return len(self._recorded)

    @property
    def notice(self) -> str:  # type: ignore[override]  # nobody assigns it
        """Why segments are not replayed; empty when all are."""
        if not self.failures:
            return ''
        key, reason = next(iter(self.failures.items()))
        return (
            f'{len(self.failures)} of {len(self.failures) + len(self)} segments run without a CUDA graph, '
            f'{key} because: {reason}'
        )

    def clear(self) -> None:
        """Forgets all, because the weights are about to move; the frame that is running cannot go on."""
        self.failures.clear()
        self._buffers.clear()
        self._pinned.clear()
        self._recorded.clear()
        self._frame += 1

    def begin_frame(self) -> int:
        """Gives the buffers to a new frame, whose thread works on a stream of its own, ahead of others of this process;
        returns its number."""
        if self._stream is not None:
            if torch.cuda.current_stream(self._device) != self._stream:
                self._stream.wait_stream(
                    torch.cuda.current_stream(self._device)
                )  # such as weights on their way
                torch.cuda.set_stream(self._stream)
        self._frame += 1
        return self._frame

    def check_frame(self, number: int) -> None:
        if number != self._frame:
            raise ValueError(
                'another frame has begun since or the weights have moved, expected one frame at a time'
            )

    def hold(self, name: str, values: Values | Arrays) -> Values:
        """Copies values to where recorded segments look for them; returns their buffers.

        Values of the host pass through pinned memory, from where the GPU fetches them itself while the processor goes
        on; the segment's end is waited for before the next frame writes there.
        """
        values = as_tensors(values)
        buffers = self._buffers_of(name, values)
        if self._device.startswith('cuda') and all(value.device.type == 'cpu' for value in values):
            kind = (name, *(value.shape for value in values))
            if kind not in self._pinned:
                self._pinned[kind] = tuple(
                    torch.empty_like(value, pin_memory=True) for value in values
                )
            _write(self._pinned[kind], values)
            for buffer, value in zip(buffers, self._pinned[kind]):
                buffer.copy_(value, non_blocking=True)
            return buffers
        _write(buffers, values)
        return buffers

    def run(
        self,
        key: str,
        name: str,
        compute: Compute,
        inputs: Inputs,
        *,
        is_selection: bool = False,
        on_arrays: ArrayCompute | None = None,
    ) -> Values:
        """Replays a segment, or computes it; returns the buffers that hold its outputs."""
        if is_selection:
            return self.hold(name, compute(inputs)) if name else compute(inputs)
        if key in self._recorded:
            replay, buffers = self._recorded[key]
            replay()
            return buffers
        values = compute(inputs)
        if key in self.failures:
            return self.hold(name, values)
        buffers = self._buffers_of(name, values)
        try:
            replay = self._record(partial(compute, inputs), buffers)
            replay()
            if not _agree(buffers, values):
                raise RuntimeError('its replay gives other values')
        except RuntimeError as error:  # what PyTorch raises for whatever cannot be captured
            self.failures[key] = (str(error).splitlines() or [type(error).__name__])[0]
            return self.hold(name, values)
        self._recorded[key] = replay, buffers
        return buffers

    def _buffers_of(self, name: str, values: Values) -> Values:
        kind = (name, *(value.shape for value in values))
        if kind not in self._buffers:
            self._buffers[kind] = tuple(
                torch.zeros_like(value, device=self._device) for value in values
            )
        return self._buffers[kind]


class CudaRecorder:
    """Captures CUDA graphs; those of one recorder share the memory of what they compute in between.

    That is safe in any order of replays because nothing that outlives a replay lies in this memory: outputs go to
    buffers, and inputs, weights and constants are allocated before the capture.

    Args:
        device: `cuda` or `cuda:INDEX`.
    """

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)
        self._stream = torch.cuda.Stream(self._device)
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, compute: Callable[[], Values], buffers: Values) -> Replay:
        """See `CudaGraphs`. Blocks until the device is idle."""
        with torch.cuda.device(self._device):
            current = torch.cuda.current_stream()
            graph = torch.cuda.CUDAGraph()
            try:
                self._stream.wait_stream(current)
                with torch.cuda.stream(self._stream):
                    for _ in range(_WARM_UPS):
                        compute()
                # Another thread may run frames of another network meanwhile, and what it does would spoil the capture.
                with torch.cuda.graph(
                    graph, pool=self._pool, stream=self._stream, capture_error_mode='thread_local'
                ):
                    _write(buffers, compute())
            except RuntimeError:
                # A capture that failed may leave its stream current, and its pool as if still in use.
                torch.cuda.set_stream(current)
                self._pool = torch.cuda.graph_pool_handle()
                raise
        return graph.replay


def _write(buffers: Values, values: Values) -> None:
    for buffer, value in zip(buffers, values):
        buffer.copy_(value)


def _agree(values: Values, expected: Values) -> bool:
    return all(
        bool((value.float() - right.float()).abs().max() <= _TOLERANCE * right.float().abs().max())
        for value, right in zip(values, expected)
    )
