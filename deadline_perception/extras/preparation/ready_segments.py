"""Prepares segments whose models lie beside the weights: compiles them, and checks on images that they are right here.
Needs no torch.

What a segment in 8 bit is checked against is the same model without its rounding of values, in float32: a processor whose
8-bit products saturate shows in the difference. That a model is right at all was checked where it was made, against the
layers themselves (`segments.py`), and its name is a hash of its content (`segment_models.py`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial

import numpy as np

from deadline_perception.core.measurement_plan import fewest_covering
from deadline_perception.engines.eager import (
    ArrayCompute,
    Arrays,
    Compute,
    Held,
    as_arrays,
    as_tensors,
)
from deadline_perception.engines.openvino_library import Model
from deadline_perception.engines.segment_run import Network
from deadline_perception.engines.segment_store import Form
from deadline_perception.extras.preparation.segment_calls import (
    Recorder,
    recorded,
)
from deadline_perception.extras.preparation.segment_choice import (
    EXACT_GAIN,
    LEAST_EXACT_MS,
    SegmentChoice,
)
from deadline_perception.extras.preparation.segment_models import SegmentModels

_IMAGES = 2  # to see that this processor runs the models as the one did that they were checked on
# Lower than where models are made, since these images may lie so much lower.
LEAST_READY_DB = 17.0


@dataclass(frozen=True)
class ArrayCall:
    """See `Call`.

    Attributes:
        on_arrays: the reference is the network's own form on arrays, which runs without an engine.
    """

    arrays: list[np.ndarray]
    outputs: Arrays
    run: Callable[[], object]
    on_arrays: bool


class ReferenceRecorder(Recorder[ArrayCall]):
    """Computes segments by their models in float32, or as the network does it on arrays.

    Args:
        models: of the segments; one without a model is computed by the network's layers, which needs torch.
        choice: compiles them.
    """

    def __init__(self, models: SegmentModels, choice: SegmentChoice) -> None:
        super().__init__()
        self._models, self._choice = models, choice
        self._compiled: dict[str, Callable[[list[np.ndarray]], Arrays] | None] = {}

    def hold(self, name: str, values: Held) -> Arrays:
        """See `Engine`."""
        return as_arrays(values)

    def joined(self, values: Arrays) -> Arrays:
        """See `Engine`."""
        return (np.concatenate([value.reshape(-1, value.shape[-1]) for value in values]),)

    def call(
        self, key: str, compute: Compute, inputs: dict[str, Held], on_arrays: ArrayCompute | None
    ) -> tuple[ArrayCall, Arrays]:
        """See `Recorder`."""
        arrays = [value for values in inputs.values() for value in values]
        if on_arrays is None and key not in self._compiled:
            self._compiled[key] = self._reference(key, arrays)
        reference = self._compiled.get(key)
        if on_arrays is not None:
            run: Callable[[], Arrays] = partial(on_arrays, inputs)
        elif reference is not None:
            run = partial(reference, arrays)
        else:
            run = partial(_by_layers, compute, inputs)
        outputs = run()
        return ArrayCall(arrays, outputs, run, on_arrays is not None), outputs

    def _reference(
        self, key: str, arrays: list[np.ndarray]
    ) -> Callable[[list[np.ndarray]], Arrays] | None:
        """The first of the key's models that takes these shapes; None where none does."""
        for _, name in self._models.of(key):
            with contextlib.suppress(RuntimeError):
                return self._choice.load(unrounded(self._models.model(name)), arrays)
        return None


def _by_layers(compute: Compute, inputs: dict[str, Arrays]) -> Arrays:
    import torch

    with torch.inference_mode():
        return as_arrays(compute({read: as_tensors(values) for read, values in inputs.items()}))


def prepare_ready(
    network: Network,
    images: Sequence[np.ndarray],
    keys: Collection[str],
    asked: Set[str],
    models: SegmentModels,
    choice: SegmentChoice,
    is_last: bool,
) -> Iterator[str]:
    """Gives each of the keys that are prepared now, or that the network computes without an engine.

    Args:
        network: on the CPU.
        images: uint8 `[height, width, 3]`; the last two are used.
        keys: of segments.
        asked: these and others, by which paths are run as far as they lead to all of `keys`.
        models: some of them may have none.
        choice: keeps the segments.
        is_last: nothing else prepares those whose models are wrong here, so that they run in floating point.
    """
    space, recorder = network.path_space, ReferenceRecorder(models, choice)
    within = [path for path in space if asked.issuperset(space.keys(path))]
    paths = (*fewest_covering(within, keys), *fewest_covering(space, keys))
    for key, calls in recorded(network, recorder, images[-_IMAGES:], keys, paths):
        if not calls:
            yield key
            continue
        with choice.interruptible():
            if _take(key, calls, models, choice, is_last):
                yield key


def _take(
    key: str,
    calls: Sequence[ArrayCall],
    models: SegmentModels,
    choice: SegmentChoice,
    is_last: bool,
) -> bool:
    """Keeps the form of a segment; False where none is right here."""
    reasons: dict[Form, str] = {}
    forms = list(models.of(key))
    is_short = calls[0].on_arrays and choice.reference_ms(calls) < LEAST_EXACT_MS
    if models.forms.get(key) == [] or is_short or (calls[0].on_arrays and is_last and not forms):
        choice.keep_eager(key, calls, reasons)
        return True
    for form, name in forms:
        trial = choice.trial(key, form, partial(models.model, name), calls, LEAST_READY_DB, reasons)
        if trial is None:
            continue
        if form is Form.EXACT and trial.time_ms * EXACT_GAIN >= trial.reference_ms:
            choice.keep_eager(key, calls, reasons)
            return True
        if form is not Form.INT8 or trial.time_ms < trial.reference_ms:
            choice.keep(key, trial, '' if form is Form.INT8 else reasons.get(Form.INT8, ''))
            return True
        reasons[form] = f'{trial.time_ms:.2f} ms, in floating point {trial.reference_ms:.2f}'
        is_last = True  # it is right, and slower
        break
    if is_last and Form.INT8 in reasons:
        model = partial(_unrounded, models, forms[0][1])
        trial = choice.trial(key, Form.FLOAT, model, calls, LEAST_READY_DB, reasons)
        if trial is not None:
            choice.keep(key, trial, reasons[Form.INT8])
            return True
    choice.leave()
    return False


def _unrounded(models: SegmentModels, name: str) -> Model:
    return unrounded(models.model(name))


def unrounded(model: Model) -> Model:
    """The model, whose values between layers are no longer rounded to 8 bit; weights stay as they were rounded."""
    for node in model.get_ordered_ops():
        if node.get_type_name() != 'FakeQuantize':
            continue
        if node.input_value(0).get_node().get_type_name() != 'Constant':
            for reader in list(node.output(0).get_target_inputs()):
                reader.replace_source_output(node.input_value(0))
    return model
