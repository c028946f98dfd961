"""Segments compiled by OpenVINO: most in 8 bit, those that lose by it in floating point or eagerly.

What is compiled comes from a `SegmentStore`, which `extras/preparation` fills. Values pass from segment to segment as
arrays of their own: features as float32, channels last, as eager kernels read them. So a redirected frame meets nothing
special, and several runs can go on from one frame. What that costs at the borders, `channels_last.py` keeps down. They
are arrays of numpy because a small frame is made of calls, and NumPy's cost less than PyTorch's.

Hundreds of segments are compiled and few run in a frame, so each holds as little as it can: its working memory only
while it runs, and the weights of its file, which it has laid out anew, as pages that the system reads again if asked.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import mmap
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from deadline_perception.core.device import profile_command
from deadline_perception.core.errors import printable
from deadline_perception.engines.eager import (
    ArrayCompute,
    Arrays,
    Compute,
    Engine,
    Values,
    as_arrays,
    as_tensors,
)
from deadline_perception.engines.openvino_library import (
    Model,
    cpu_settings,
    load_openvino,
    openvino_core,
)
from deadline_perception.engines.segment_store import LIBRARIES, Form, SegmentStore


class CompiledSegments(Engine):
    """Runs the segments of a store. Valid for one thread at a time, and as long as the weights stay as they are.

    Each segment is compiled by `load`, or as it first runs, in some tens of ms; one that the store lacks, or has as
    eager, is computed eagerly.

    Args:
        store: the prepared segments.
        threads: that one segment is distributed over; with one, it is computed on the thread that asks for it.

    Attributes:
        identity, keys: see `Engine`.

    Raises:
        StoreError: OpenVINO cannot be loaded, or the store is not whole.
    """

    def __init__(self, store: SegmentStore, threads: int) -> None:
        store.check()
        self.identity = ' '.join(
            f'{package} {store.origin[f"{name} version"]}' for name, package in LIBRARIES.items()
        )
        self.keys = frozenset(store.done)
        self._store = store
        self._compiler = Compiler(threads)
        self._threads = threads
        self._compiled: dict[str, CompiledSegment | None] = {}
        self._refused: dict[str, str] = {}
        self._stale = False

    @property
    def forms(self) -> dict[str, str]:
        if self._stale:
            return {}
        return {
            key: segment.form.value
            for key, segment in self._store.segments.items()
            if key not in self._refused
        }

    @property
    def notice(self) -> str:  # type: ignore[override]  # nobody assigns it
        if self._stale:
            return 'the weights have changed since the segments were compiled: all run eagerly'
        if not self._refused:
            return ''
        key, reason = next(iter(self._refused.items()))
        return (
            f'{len(self._refused)} of {len(self._store.segments)} prepared segments cannot be used and run eagerly '
            f'instead, such as {key}: {reason}. Delete {self._store.folder} and prepare them anew: '
            f'{profile_command("WEIGHTS", "cpu", self._threads)}'
        )

    def load(self, keys: Iterable[str]) -> None:
        """See `Engine`. OpenVINO does it without Python's lock."""
        missing = [key for key in dict.fromkeys(keys) if key not in self._compiled]
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            self._compiled.update(zip(missing, pool.map(self._compile, missing)))

    def clear(self) -> None:
        """Forgets what was compiled, because the weights are about to change; from now on all is eager."""
        self._stale = True
        self._compiled.clear()
        self._refused.clear()

    def hold(self, name: str, values: Values) -> Arrays:
        return as_arrays(values)

    def run(
        self,
        key: str,
        name: str,
        compute: Compute,
        inputs: dict[str, Arrays],
        *,
        is_selection: bool = False,
        on_arrays: ArrayCompute | None = None,
    ) -> Arrays:
        """Runs a compiled segment, or computes it."""
        if key not in self._compiled:
            self._compiled[key] = self._compile(key)
        compiled = self._compiled[key]
        if compiled is None and on_arrays is not None:
            return on_arrays(inputs)
        if compiled is None:
            return as_arrays(compute({read: as_tensors(values) for read, values in inputs.items()}))
        return compiled([value for values in inputs.values() for value in values])

    def joined(self, values: Arrays) -> Arrays:
        """See `Engine`: what one segment gave lies in one piece."""
        whole = values[0].base
        channels = values[0].shape[-1]
        if (
            whole is None
            or whole.size != sum(value.size for value in values)
            or any(value.base is not whole or value.shape[-1] != channels for value in values)
        ):
            return (np.concatenate([value.reshape(-1, channels) for value in values]),)
        return (whole.reshape(-1, channels),)

    def arrays(self, values: Arrays) -> Arrays:
        return values

    def _compile(self, key: str) -> CompiledSegment | None:
        segment = None if self._stale else self._store.segments.get(key)
        if segment is None or segment.form is Form.EAGER:
            return None
        try:
            return self._compiler.load(self._store.mapped(key), exact=segment.form is Form.EXACT)
        except (
            RuntimeError,
            OSError,
            ValueError,
        ) as error:  # the latter where its file holds texts that are none
            self._refused[key] = printable(
                (str(error).strip().splitlines() or [type(error).__name__])[-1]
            )
            return None


class Compiler:
    """Compiles for this CPU.

    Args:
        threads: see `CompiledSegments`.

    Raises:
        StoreError: OpenVINO cannot be loaded.
    """

    def __init__(self, threads: int) -> None:
        self._core = openvino_core()
        self._settings = {
            exact: cpu_settings(threads) | ({'INFERENCE_PRECISION_HINT': 'f32'} if exact else {})
            for exact in (False, True)
        }

    def compile(self, model: Model, exact: bool = False) -> bytes:
        """The compiled form of a model with fixed shapes; in float32 throughout where it is to be exact.

        Raises:
            RuntimeError: the compiler refuses it.
        """
        return (
            self._core.compile_model(model, 'CPU', self._settings[exact]).export_model().getvalue()
        )

    def load(self, compiled: bytes | mmap.mmap, exact: bool = False) -> CompiledSegment:
        """What `compile` gave, ready to run. A mapped file is referred to as long as the segment is.

        Raises:
            RuntimeError: it is not what `compile` gave.
        """
        settings = self._settings[exact]
        if not isinstance(compiled, mmap.mmap):
            return CompiledSegment(self._core.import_model(compiled, 'CPU', settings))
        content = load_openvino().Tensor(np.frombuffer(compiled, np.uint8), shared_memory=True)
        segment = CompiledSegment(self._core.import_model(content, 'CPU', settings), content)
        with contextlib.suppress(OSError):  # locked memory stays
            compiled.madvise(
                mmap.MADV_DONTNEED
            )  # of 100 MB for all paths, a fifth is read again as they first run
        return segment


class CompiledSegment:
    """One segment, called with the arrays that it reads. Values of four dimensions pass channels last.

    Args:
        compiled: the `openvino.CompiledModel`; outputs of one shape are float32.
        content: what must live as long as the segment.
    """

    def __init__(self, compiled: Model, content: object = None) -> None:
        self._tensor = load_openvino().Tensor
        self._request = compiled.create_infer_request()
        self._release = compiled.release_memory
        self._is_fixed = all(not output.partial_shape.is_dynamic for output in compiled.outputs)
        self._shapes = (
            [tuple(output.shape) for output in compiled.outputs] if self._is_fixed else []
        )
        ends = list(itertools.accumulate(map(math.prod, self._shapes), initial=0))
        self._parts = [slice(*ends[number : number + 2]) for number in range(len(self._shapes))]
        self._size = ends[-1]
        self._outputs = range(len(compiled.outputs))
        self._content = content  # the last attribute, so that it is the last to go
        self._release()  # else loading holds what each segment works in, and frames find its memory in pieces

    def __call__(self, inputs: list[np.ndarray]) -> Arrays:
        """Raises RuntimeError when an array has another shape or type than the segment reads."""
        request = self._request
        tensor = self._tensor
        for index, array in enumerate(inputs):
            request.set_input_tensor(index, tensor(array, shared_memory=True))
        outputs: Arrays = ()
        if self._is_fixed:
            # One after the other in one piece of memory, so that who reads them all needs no copy.
            memory = np.empty(self._size, np.float32)
            outputs = tuple(
                memory[part].reshape(shape) for part, shape in zip(self._parts, self._shapes)
            )
            for index, output in enumerate(outputs):
                request.set_output_tensor(index, tensor(output, shared_memory=True))
        request.infer(share_outputs=True)  # without, every output is copied once more
        if not self._is_fixed:
            outputs = tuple(request.get_output_tensor(index).data.copy() for index in self._outputs)
        self._release()  # 3 us; what one segment worked in is there for the next, still in the cache
        return outputs
