"""Tries forms of a segment against its reference on this device, and keeps the one that is to run it. Needs no torch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from deadline_perception.engines.compiled_segments import CompiledSegment, Compiler
from deadline_perception.engines.openvino_library import Model
from deadline_perception.engines.segment_store import Form
from deadline_perception.extras.preparation.channels_last import channels_last
from deadline_perception.extras.preparation.segment_calls import Call
from deadline_perception.extras.preparation.segment_check import (
    peak_to_error_db,
    signal_to_error_db,
    times_ms,
)
from deadline_perception.extras.preparation.store_writer import StoreWriter

LEAST_EXACT_DB = 80.0  # of what is to be exact: a twentieth of a pixel at 640
EXACT_GAIN = (
    1.5  # of time, for which a compiled segment is worth the memory that it holds, some 3 MB
)
# Of the reference, below which compiling it exactly gains too little to be tried.
LEAST_EXACT_MS = 1.0


@dataclass(frozen=True)
class Trial:
    """A form of a segment that is accurate here.

    Attributes:
        form: which.
        model: of it.
        compiled: the same, as a store keeps it.
        error_db: see `PreparedSegment`.
        reference_ms, time_ms: shortest times of the reference and of this form.
    """

    form: Form
    model: Model
    compiled: bytes
    error_db: float
    reference_ms: float
    time_ms: float


class SegmentChoice:
    """Tries forms, and writes into a store which was chosen.

    Args:
        store: keeps the segments.
        threads: that one segment is distributed over.

    Raises:
        StoreError: OpenVINO cannot be loaded.
    """

    def __init__(self, store: StoreWriter, threads: int) -> None:
        self.compiler, self._store = Compiler(threads), store

    def trial(
        self,
        key: str,
        form: Form,
        make_model: Callable[[], Model],
        calls: Sequence[Call],
        least_db: float,
        reasons: dict[Form, str],
    ) -> Trial | None:
        """Tries a form.

        Args:
            key: of the segment.
            form: which.
            make_model: makes its model.
            calls: to compare and time with.
            least_db: that its worst output must have; of an exact form, `LEAST_EXACT_DB` counts.
            reasons: gets why the form cannot be used.

        Returns:
            None where it cannot be compiled, or is not accurate.
        """
        exact = form is Form.EXACT
        if not self._store.begin(key, form):
            reasons[form] = 'compiling it ended the process'
            return None
        try:
            model = make_model()
            compiled = self.compile(model, calls[0].arrays, exact)
            segment = self.compiler.load(compiled, exact)
            compare = peak_to_error_db if exact else signal_to_error_db
            error_db = min(compare(call.outputs, segment(call.arrays)) for call in calls)
        # Of any kind: converter, quantiser and compiler meet layers of any network.
        except Exception as error:
            reasons[form] = (
                f'{type(error).__name__} {(str(error).strip().splitlines() or [""])[-1][:200]}'
            )
            return None
        least_db = LEAST_EXACT_DB if exact else least_db
        if not error_db >= least_db:
            reasons[form] = f'{error_db:.1f} dB of signal to error, expected {least_db:.0f}'
            return None
        reference_ms, time_ms = times_ms(calls, segment)
        return Trial(form, model, compiled, error_db, reference_ms, time_ms)

    def keep(self, key: str, trial: Trial, reason: str = '') -> None:
        """Keeps a form; the reason is why no faster one is used."""
        self._store.add(
            key,
            trial.form,
            error_db=trial.error_db,
            time_ms=trial.time_ms,
            eager_ms=trial.reference_ms,
            compiled=trial.compiled,
            reason=reason,
        )

    def keep_eager(self, key: str, calls: Sequence[Call], reasons: dict[Form, str]) -> None:
        """Leaves a segment to whoever computes it without an engine."""
        time_ms = self.reference_ms(calls)
        self._store.add(
            key,
            Form.EAGER,
            error_db=0.0,
            time_ms=time_ms,
            eager_ms=time_ms,
            reason='; '.join(f'{form.value} {reason}' for form, reason in reasons.items()),
        )

    def reference_ms(self, calls: Sequence[Call]) -> float:
        """Shortest time of the reference."""
        return times_ms(calls, lambda arrays: None)[0]

    def leave(self) -> None:
        """Says that no form that was tried has ended the process."""
        self._store.leave()

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """While a form is tried: that a user interrupts says nothing of it."""
        try:
            yield
        except KeyboardInterrupt:
            self._store.leave()
            raise

    def compile(self, model: Model, arrays: Sequence[np.ndarray], exact: bool = False) -> bytes:
        """A model with the shapes of what it reads; values of four dimensions come and go channels last."""
        model = model.clone()
        fix_shapes(model, arrays)
        return self.compiler.compile(channels_last(model), exact)

    def load(self, model: Model, arrays: Sequence[np.ndarray]) -> CompiledSegment:
        """The same in float32 throughout, ready to run."""
        return self.compiler.load(self.compile(model, arrays, exact=True), exact=True)


def fix_shapes(model: Model, arrays: Sequence[np.ndarray]) -> None:
    """Gives the inputs of a model, `[N, C, H, W]`, the shapes of arrays with the channels last."""
    shapes = (list(array.shape) for array in arrays)
    model.reshape(
        {
            index: [shape[axis] for axis in (0, 3, 1, 2)] if len(shape) == 4 else shape
            for index, shape in enumerate(shapes)
        }
    )
