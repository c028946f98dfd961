"""Makes the models of segments from the layers of a network: converts, quantises, and checks them against eager ones.

A segment takes 8 bit where it is accurate and faster than the eager one, else floating point compiled by OpenVINO where
that is, else it stays eager. On a CPU whose 8-bit products saturate, the check shows it, and the weights are quantised to
7 bit of the same range.
"""

from __future__ import annotations

import contextlib
import io
import logging
import random
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor, nn

from deadline_perception.core.measurement_plan import covering_paths
from deadline_perception.engines.eager import (
    ArrayCompute,
    Arrays,
    Compute,
    Inputs,
    Values,
    as_arrays,
)
from deadline_perception.engines.openvino_library import Model, load_openvino, own_signal_stack
from deadline_perception.engines.segment_run import Network
from deadline_perception.engines.segment_store import Form
from deadline_perception.extras.preparation.segment_calls import (
    Recorder,
    of_middle_size,
    recorded,
)
from deadline_perception.extras.preparation.segment_choice import (
    EXACT_GAIN,
    SegmentChoice,
    Trial,
    fix_shapes,
)
from deadline_perception.extras.preparation.segment_models import SegmentModels

_CHECK_IMAGES = 4  # for models that were made of the same layers, for images of another size
# An error of a tenth of the signal's deviation. Those of `compact` reach 25 and more, and average precision shows no
# loss.
LEAST_SIGNAL_TO_ERROR_DB = 20.0  # measured: benchmarks/engines.py of commit a7507dff
_LAYERS = {
    'Convolution',
    'GroupConvolution',
    'ConvolutionBackpropData',
    'GroupConvolutionBackpropData',
    'MatMul',
}


@dataclass(frozen=True)
class TensorCall:
    """See `Call`: a segment's function, what it read, and what it gave; and the same function on arrays, if any."""

    compute: Compute
    inputs: Inputs
    values: Values
    on_arrays: ArrayCompute | None = None

    @property
    def tensors(self) -> list[Tensor]:
        """What it read, in the order in which a compiled segment takes it."""
        return [value for values in self.inputs.values() for value in values]

    @property
    def arrays(self) -> list[np.ndarray]:
        """See `Call`."""
        return list(as_arrays(tuple(self.tensors)))

    @property
    def outputs(self) -> Arrays:
        """See `Call`."""
        return as_arrays(self.values)

    @cached_property
    def _inputs(self) -> dict[str, Arrays]:
        return {name: as_arrays(values) for name, values in self.inputs.items()}

    @torch.inference_mode()
    def run(self) -> object:
        """Runs it where it is not compiled."""
        return self.compute(self.inputs) if self.on_arrays is None else self.on_arrays(self._inputs)


class EagerRecorder(Recorder[TensorCall]):
    """Computes by the layers of the network."""

    def joined(self, values: Values) -> Values:
        """See `Engine`."""
        return (torch.cat([value.permute(0, 2, 3, 1).flatten(0, 2) for value in values]),)

    def call(
        self, key: str, compute: Compute, inputs: Inputs, on_arrays: ArrayCompute | None
    ) -> tuple[TensorCall, Values]:
        """See `Recorder`."""
        values = compute(inputs)
        return TensorCall(compute, inputs, values, on_arrays), values


def make_segments(
    network: Network,
    images: Sequence[np.ndarray],
    keys: Collection[str],
    choice: SegmentChoice,
    made: SegmentModels,
    done: Callable[[str], None],
) -> None:
    """Makes the segments of some keys.

    Args:
        network: on the CPU. Where its `quantises` is False, 8 bit is not tried.
        images: uint8 `[height, width, 3]`, varied; the last quarter is for checking alone.
        keys: of segments.
        choice: keeps the segments.
        made: gets the models that are accurate.
        done: called with the key of each segment that is done.
    """
    maker = SegmentMaker(choice, made, quantises=network.quantises)
    space, left = network.path_space, set(keys)
    varied = (space.largest, *covering_paths(space, 1, random.Random(0)))
    of_middle = of_middle_size(space, varied)
    middle = {key for path in of_middle for key in space.keys(path)}
    # Quantised on images of middle size first: the models may serve all sizes.
    for takes, some, count in (
        (False, middle, len(images)),
        (True, left, _CHECK_IMAGES),
        (False, left, len(images)),
    ):
        some = {key for key in left & some if not takes or any(made.of(key))}
        for key, calls in recorded(
            network, EagerRecorder(), images[-count:], some, (*of_middle, *varied)
        ):
            if not calls or (maker.take if takes else maker.make)(key, calls):
                left.remove(key)
                done(key)


class SegmentMaker:
    """Makes the compiled form of one segment after another.

    Args:
        choice: keeps what is made.
        made: gets the models that were made here and are accurate.
        quantises: 8 bit is tried.
    """

    def __init__(
        self, choice: SegmentChoice, made: SegmentModels, *, quantises: bool = True
    ) -> None:
        self._quantises, self._choice, self._made = quantises, choice, made

    def take(self, key: str, calls: list[TensorCall]) -> bool:
        """Finds the form of a segment among models of its layers for images of another size; True where one is accurate
        and faster."""
        forms = ((form, partial(self._made.model, name)) for form, name in self._made.of(key))
        with self._choice.interruptible():
            return self._choose(key, forms, calls, {}) is not None

    def make(self, key: str, calls: list[TensorCall]) -> bool:
        """Finds the form of a segment, converting and quantising it, and keeps it; returns True.

        Args:
            key: of the segment.
            calls: on images; the last quarter is for checking alone.
        """
        checks, reasons = calls[-max(1, len(calls) // 4) :], dict[Form, str]()
        forms = self._forms(key, calls[: -len(checks)] or calls)
        with self._choice.interruptible():
            if self._choose(key, forms, checks, reasons) is None:
                self._choice.keep_eager(key, checks, reasons)
                self._made.forms.setdefault(key, [])
        return True

    def _choose(
        self,
        key: str,
        forms: Iterable[tuple[Form, Callable[[], Model]]],
        checks: list[TensorCall],
        reasons: dict[Form, str],
    ) -> Trial | None:
        """Keeps the first form that is accurate and faster than the eager segment.

        Args:
            key: of the segment.
            forms: what may run it, the fastest first, and what makes the model of each.
            checks: calls to compare and time with.
            reasons: gets why a form is not used.
        """
        for form, make_model in forms:
            trial = self._choice.trial(
                key, form, make_model, checks, LEAST_SIGNAL_TO_ERROR_DB, reasons
            )
            if trial is None:
                continue
            self._made.add(key, form, trial.model)
            if form is Form.EXACT and trial.time_ms * EXACT_GAIN >= trial.reference_ms:
                continue
            if trial.time_ms >= trial.reference_ms:
                reasons[form] = f'{trial.time_ms:.2f} ms, eager {trial.reference_ms:.2f}'
                continue
            is_slower = form is not Form.INT8
            self._choice.keep(key, trial, reasons.get(Form.INT8, '') if is_slower else '')
            return trial
        self._choice.leave()
        return None

    def _forms(
        self, key: str, calls: list[TensorCall]
    ) -> Iterator[tuple[Form, Callable[[], Model]]]:
        """Forms to try, the fastest first, and what makes the model of each; a model that is converted serves them
        all."""
        for form, name in self._made.of(
            key
        ):  # the same layers for another number of regions, often
            yield form, partial(self._made.model, name)
        try:
            converted = self._convert(calls[0])
        except Exception as error:  # of any kind, as above
            yield Form.FLOAT, partial(_refuse, error)
            return
        if not any(operation.get_type_name() in _LAYERS for operation in converted.get_ops()):
            yield Form.EXACT, lambda: converted
            return
        if self._quantises:
            for saturating in (False, True):
                yield Form.INT8, partial(self._quantise, converted, calls, saturating)
        yield Form.FLOAT, lambda: converted

    @torch.inference_mode(False)
    @torch.no_grad()
    def _convert(self, call: TensorCall) -> Model:
        """A model of what a segment computes, with the shapes of a call.

        Of what PyTorch exports OpenVINO knows most operators, of what it traces some more, such as suppression. What
        cannot be exported is not traced either: its way may depend on values, and a trace would keep that of one image.
        """
        counts = {name: len(values) for name, values in call.inputs.items()}
        module = _Positional(call.compute, counts).eval()
        example = tuple(tensor.clone() for tensor in call.tensors)
        import torchvision  # noqa: F401 (its operators cannot be exported without its Python)
        from openvino.frontend import OpConversionFailure

        with warnings.catch_warnings():
            warnings.simplefilter(
                'ignore'
            )  # tracing fixes sizes, as is meant here; exporting tells of names to come
            program = torch.export.export(module, example, strict=False)
            convert = load_openvino().convert_model
            root = logging.getLogger()
            level = root.level
            try:
                model = convert(program)
            except OpConversionFailure:
                model = convert(module, example_input=example)
            finally:
                root.setLevel(level)  # where it fails it stays at ERROR, for the whole process
        fix_shapes(model, call.arrays)
        return model

    def _quantise(self, model: Model, calls: list[TensorCall], saturating: bool) -> Model:
        logging.getLogger('torch.utils.cpp_extension').setLevel(
            logging.ERROR
        )  # it warns of GPUs that nobody asked for
        import nncf

        # Its own function would also quieten handlers that others have put there.
        logging.getLogger('nncf').setLevel(logging.ERROR)
        fix = nncf.OverflowFix.ENABLE if saturating else nncf.OverflowFix.DISABLE
        data = nncf.Dataset(
            [dict(enumerate(tensor.numpy() for tensor in call.tensors)) for call in calls]
        )
        with (
            own_signal_stack(),
            contextlib.redirect_stdout(io.StringIO()),
        ):  # it draws bars of its own
            found = nncf.quantize(
                model,
                data,
                subset_size=len(calls),
                target_device=nncf.TargetDevice.CPU,
                fast_bias_correction=False,  # the thorough one gains some 4 dB
                advanced_parameters=nncf.AdvancedQuantizationParameters(overflow_fix=fix),
            )
        return found


class _Positional(nn.Module):
    """A segment's function as a module, its values one by one."""

    def __init__(self, compute: Compute, counts: dict[str, int]) -> None:
        super().__init__()
        self._compute, self._counts = compute, counts

    def forward(self, *tensors: Tensor) -> Values:
        left = iter(tensors)
        return self._compute(
            {name: tuple(next(left) for _ in range(count)) for name, count in self._counts.items()}
        )


def _refuse(error: Exception) -> None:
    raise error
