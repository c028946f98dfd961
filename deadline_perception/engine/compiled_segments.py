"""Segments compiled by OpenVINO: the layers of most in 8 bit, those that lose by it in floating point or eagerly.

What is compiled comes from a `SegmentStore`, which `preparation.py` fills. Values pass from segment to segment as they
do eagerly, as tensors of their own: features as float32, channels last, as eager kernels read them. So a segment that
stays eager costs no conversion, a redirected frame meets nothing special, and several runs can go on from one frame.
What that costs at the borders, `channels_last.py` keeps down.

Hundreds of segments are compiled and few run in a frame, so each holds as little as it can: its working memory only while
it runs, and the weights of its file, which it has laid out anew, as pages that the system reads again if ever asked.
"""
from __future__ import annotations

import contextlib
import math
import mmap

import numpy as np
import torch
from torch import Tensor

from deadline_perception.engine.eager import Compute, Eager, Inputs, Values, padded
from deadline_perception.engine.openvino_library import cpu_settings, load_openvino, openvino_core
from deadline_perception.engine.segment_store import LIBRARIES, Form, SegmentStore


class CompiledSegments(Eager):
    """Runs the segments of a store. Valid for one thread at a time, and as long as the weights stay as they are.

    Each segment is compiled as it first runs, in some tens of ms; one that the store lacks, or has as eager, is
    computed eagerly.

    Args:
        store: the prepared segments.
        threads: that one segment is spread over; with one, it is computed on the thread that asks for it.

    Attributes:
        identity: see `Eager`.

    Raises:
        StoreError: OpenVINO cannot be loaded, or the store is not whole.
    """

    layers_alone = True

    def __init__(self, store: SegmentStore, threads: int) -> None:
        store.check()
        self.identity = ' '.join(f'{package} {store.origin[f"{name} version"]}' for name, package in LIBRARIES.items())
        self._store, self._compiler = store, Compiler(threads)
        self._compiled: dict[str, CompiledSegment | None] = {}
        self._refused: dict[str, str] = {}
        self._stale = False

    @property
    def forms(self) -> dict[str, str]:
        """See `Eager`."""
        if self._stale:
            return {}
        return {key: segment.form.value for key, segment in self._store.segments.items() if key not in self._refused}

    @property
    def notice(self) -> str:
        """See `Eager`."""
        if self._stale:
            return 'the weights have changed since the segments were compiled: all run eagerly'
        slow = {key: f'{key} ({segment.form.value}) because: {segment.reason}'
                for key, segment in self._store.segments.items() if segment.form is not Form.INT8}
        slow |= {key: f'{key} (eager) because: {reason}' for key, reason in self._refused.items()}
        if not slow:
            return ''
        told = next(iter((self._refused or slow)))
        return f'{len(slow)} of {len(self._store.segments)} segments do not run in 8 bit, such as {slow[told]}'

    def clear(self) -> None:
        """Forgets what was compiled, because the weights are about to change; from now on all is eager."""
        self._stale = True
        self._compiled.clear()
        self._refused.clear()

    def hold(self, name: str, values: Values, rows: int | None = None) -> Values:
        """See `Eager`."""
        return padded(values, rows)

    def run(self, key: str, name: str, compute: Compute, inputs: Inputs) -> Values:
        """Runs a compiled segment, or computes it."""
        if key not in self._compiled:
            self._compiled[key] = self._compile(key)
        compiled = self._compiled[key]
        if compiled is None:
            return compute(inputs)
        return compiled([value for values in inputs.values() for value in values])

    def _compile(self, key: str) -> CompiledSegment | None:
        segment = None if self._stale else self._store.segments.get(key)
        if segment is None or segment.form is Form.EAGER:
            return None
        try:
            return self._compiler.load(self._store.mapped(key))
        except (RuntimeError, OSError) as error:
            self._refused[key] = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            return None


class Compiler:
    """Compiles for this CPU.

    Args:
        threads: see `CompiledSegments`.

    Raises:
        StoreError: OpenVINO cannot be loaded.
    """

    def __init__(self, threads: int) -> None:
        self._openvino = load_openvino()
        self._core = openvino_core()
        self._settings = cpu_settings(threads)

    def compile(self, model) -> bytes:
        """The compiled form of an `openvino.Model` with fixed shapes.

        Raises:
            RuntimeError: the compiler refuses it.
        """
        return self._core.compile_model(model, 'CPU', self._settings).export_model().getvalue()

    def load(self, compiled: bytes | mmap.mmap) -> CompiledSegment:
        """What `compile` gave, ready to run. A mapped file is referred to as long as the segment is.

        Raises:
            RuntimeError: it is not what `compile` gave.
        """
        if not isinstance(compiled, mmap.mmap):
            return CompiledSegment(self._openvino, self._core.import_model(compiled, 'CPU', self._settings))
        content = self._openvino.Tensor(np.frombuffer(compiled, np.uint8), shared_memory=True)
        segment = CompiledSegment(self._openvino, self._core.import_model(content, 'CPU', self._settings), content)
        with contextlib.suppress(OSError):  # locked memory stays
            compiled.madvise(mmap.MADV_DONTNEED)  # of 100 MB for all paths, a fifth is read again as they first run
        return segment


class CompiledSegment:
    """One segment, called with the tensors that it reads. Values of four dimensions pass channels last.

    Args:
        openvino: the module.
        compiled: the `openvino.CompiledModel`.
        content: what must live as long as the segment.
    """

    def __init__(self, openvino, compiled, content: object = None) -> None:
        self._tensor = openvino.Tensor
        self._request = compiled.create_infer_request()
        self._release = compiled.release_memory
        self._shapes = [tuple(output.shape) for output in compiled.outputs]
        self._sizes = [math.prod(shape) for shape in self._shapes]
        self._content = content  # the last attribute, so that it is the last to go

    def __call__(self, inputs: list[Tensor]) -> Values:
        """Raises RuntimeError when a tensor has another shape or type than the segment reads."""
        laid_out = [_rows(value).numpy() for value in inputs]  # referred to until all is computed
        for index, array in enumerate(laid_out):
            self._request.set_input_tensor(index, self._tensor(array, shared_memory=True))
        # One after the other in one piece of memory, so that who reads them all needs no copy.
        outputs = [part.view(shape) for part, shape in zip(torch.empty(sum(self._sizes)).split(self._sizes), self._shapes)]
        for index, output in enumerate(outputs):
            self._request.set_output_tensor(index, self._tensor(output.numpy(), shared_memory=True))
        self._request.infer()
        self._release()  # 3 us; what one segment worked in is there for the next, still in the cache
        return tuple(output.permute(0, 3, 1, 2) if output.dim() == 4 else output for output in outputs)


def _rows(value: Tensor) -> Tensor:
    """The value as it lies in memory: rows one after the other, channels last."""
    return (value.permute(0, 2, 3, 1) if value.dim() == 4 else value).contiguous()
