"""Prepares the segments of a network for `CompiledSegments`: converts, quantises, checks against eager ones, keeps
them.

Which form a segment takes is decided here, on the device that will run it, from images: 8 bit where it is accurate and
faster than the eager segment, else floating point compiled by OpenVINO where that is, else eager. On a CPU whose 8-bit
products saturate, the check shows it, and the weights are quantised to 7 bit of the same range.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import random
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from deadline_perception.core.execution_path import SCALE, SKIP, ExecutionPath, PathSpace
from deadline_perception.core.measurement_plan import covering_paths
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.engines.compiled_segments import Compiler
from deadline_perception.engines.eager import (
    ArrayCompute,
    Compute,
    Engine,
    Inputs,
    Values,
    as_arrays,
    as_tensors,
)
from deadline_perception.engines.openvino_library import Model, load_openvino, own_signal_stack
from deadline_perception.engines.segment_run import Network
from deadline_perception.engines.segment_store import Form
from deadline_perception.extras.preparation.channels_last import channels_last
from deadline_perception.extras.preparation.segment_models import SegmentModels
from deadline_perception.extras.preparation.store_writer import StoreWriter

CALIBRATION_IMAGES, CHECK_IMAGES = (
    12,
    4,
)  # ranges of a segment's values come from the first, its error from the others
_DEVICE_IMAGES = 2  # for models that were checked where they were made: to see that this processor runs them as well
_LEAST_IMAGES = 8  # altogether
# An error of a tenth of the signal's deviation. Those of `compact` reach 25 and more, and average precision shows no
# loss.
LEAST_SIGNAL_TO_ERROR_DB = 20.0  # measured: benchmarks/engines.py
_DEVICE_DB = 3.0  # less, for models that were checked where they were made: other images may lie so much lower
_LEAST_EXACT_DB = 80.0  # of what is to be exact: a twentieth of a pixel at 640
_EXACT_GAIN = (
    1.5  # of time, for which a compiled segment is worth the memory that it holds, some 3 MB
)
_LAYERS = {
    'Convolution',
    'GroupConvolution',
    'ConvolutionBackpropData',
    'GroupConvolutionBackpropData',
    'MatMul',
}
_LEAST_EXACT_MS = (
    1.0  # of the eager segment, below which compiling it exactly gains too little to be tried
)
_TIMINGS = 9
_FEW_TIMINGS, _CLEAR = (
    3,
    2.0,
)  # so few tell which form is faster, where one takes this many times what the other does
_SWEPT_BYTES = 4 << 20  # more than the caches of a core: in a frame each segment comes after others
_EXACT_DB = 200.0


@dataclass(frozen=True)
class Call:
    """One run of a segment: its function, what it read, and what it gave; and the same function on arrays, if any."""

    compute: Compute
    inputs: Inputs
    outputs: Values
    on_arrays: ArrayCompute | None = None

    @property
    def eager(self) -> Callable[[], object]:
        """What runs it where it is not compiled."""
        if self.on_arrays is None:
            return partial(self.compute, self.inputs)
        arrays = {name: as_arrays(values) for name, values in self.inputs.items()}
        return partial(self.on_arrays, arrays)

    @property
    def tensors(self) -> list[Tensor]:
        """What it read, in the order in which a compiled segment takes it."""
        return [value for values in self.inputs.values() for value in values]

    @property
    def arrays(self) -> list[np.ndarray]:
        """The same as a compiled segment takes it."""
        return list(as_arrays(tuple(self.tensors)))


class Recorder(Engine):
    """Computes eagerly, as `CompiledSegments` would be asked to, and keeps the calls of segments that are wanted."""

    def __init__(self) -> None:
        self.wanted: set[str] = set()
        self.calls: dict[str, list[Call]] = {}
        self.asked: set[str] = set()

    def joined(self, values: Values) -> Values:
        return (torch.cat([value.permute(0, 2, 3, 1).flatten(0, 2) for value in values]),)

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
        outputs = compute(inputs)
        self.asked.add(key)
        if key in self.wanted:
            self.calls.setdefault(key, []).append(Call(compute, inputs, outputs, on_arrays))
        return outputs


def check_images(images: Sequence[np.ndarray]) -> None:
    """Makes sure that there are images enough to prepare segments with.

    Raises:
        ValueError: there are not.
    """
    if len(images) < _LEAST_IMAGES:
        raise ValueError(
            f'{len(images)} images to prepare segments with, expected at least {_LEAST_IMAGES}; '
            f'an eager engine needs none'
        )


def prepare(
    network: Network,
    images: Sequence[np.ndarray],
    store: StoreWriter,
    threads: int,
    *,
    keys: Collection[str] | None = None,
    models: SegmentModels | None = None,
    progress: Callable[[str], None] | None = None,
) -> SegmentModels:
    """Completes a store, segment by segment; may be interrupted and called again. Blocks for a fraction of a second per
    segment whose model is at hand, for seconds otherwise.

    Args:
        network: on the CPU; see `engines/segment_run.py`. Its engine is another one meanwhile. Where its `quantises` is
            False, 8 bit is not tried.
        images: uint8 `[height, width, 3]`, varied, as those that will be seen. Sixteen are used, at least 8 are needed.
        store: of this network.
        threads: that one segment is distributed over.
        keys: of the segments that it is complete with; None for all of the network.
        models: of segments, as they were converted and quantised elsewhere; None where there are none.
        progress: called with the key of each segment that is done.

    Returns:
        the models of the segments that were converted or quantised here.

    Raises:
        ValueError: too few images.
        StoreError: OpenVINO cannot be loaded.
    """
    check_images(images)
    most = min(len(images), CALIBRATION_IMAGES + CHECK_IMAGES)
    images = [images[index * len(images) // most] for index in range(most)]
    random.Random(0).shuffle(images)  # those of the check come from all of the sequence
    models, done = models or SegmentModels(''), progress or (lambda key: None)
    maker = SegmentMaker(store, threads, models.weights_hash, quantises=network.quantises)
    space, asked = network.path_space, set(network.path_space.carriers() if keys is None else keys)
    wanted = set(asked)
    varied = (space.largest, *covering_paths(space, 1, random.Random(0)))
    middle = {key for path in _of_middle_size(space, varied) for key in space.keys(path)}
    sizes = (*_of_middle_size(space, varied), *varied)
    # What is at hand is only compiled. The rest is quantised on images of middle size first: it may serve all sizes.
    for at_hand, some, count in (
        (models, wanted, _DEVICE_IMAGES),
        (None, middle, len(images)),
        (maker.made, wanted, CHECK_IMAGES),
        (None, wanted, len(images)),
    ):
        left = {key for key in wanted & some if key not in store.segments}
        if at_hand is not None:
            left = {key for key in left if key in at_hand.forms or any(at_hand.of(key))}
        paths = _short_paths(space, left) if at_hand is models else sizes
        for key, calls in _recorded(network, images[-count:], left, paths):
            if not calls:
                wanted.remove(key)
            elif at_hand is None:
                maker.make(key, calls)
            else:
                maker.take(key, calls, at_hand)
            if not calls or key in store.segments:
                done(key)
    store.finish(asked)
    return maker.made


def _of_middle_size(space: PathSpace, paths: Iterable[ExecutionPath]) -> list[ExecutionPath]:
    """The paths with images of the size in the middle of those that they choose from."""
    sizes = {
        operator.name: operator.settings[len(operator.settings) // 2]
        for operator in space.operators
        if operator.kind == SCALE
    }
    return [path.replace(**sizes) for path in paths]


def _short_paths(space: PathSpace, keys: Collection[str]) -> list[ExecutionPath]:
    """For each of the keys the smallest path with it; those first that skip nothing, since they hold most keys."""
    skips = {place for place, operator in enumerate(space.operators) if operator.kind == SKIP}
    nothing = {place: space.sizes[place] - 1 for place in skips}
    needed = [needs for key, needs in space.carriers().items() if key in keys]
    return [
        with_settings(space.smallest, nothing | needs) for needs in needed if skips & needs.keys()
    ] + [with_settings(space.smallest, needs) for needs in needed]


def _recorded(
    network: Network,
    images: Sequence[np.ndarray],
    keys: Collection[str],
    paths: Sequence[ExecutionPath],
) -> Iterator[tuple[str, list[Call]]]:
    """Each of the keys with its calls on the images, none where the network computes it without an engine."""
    space, engine, left = network.path_space, network.engine, set(keys)
    network.engine = recorder = Recorder()
    try:
        for path in paths:
            recorder.wanted = left & set(space.keys(path))
            if not recorder.wanted:
                continue
            left -= recorder.wanted
            _record(network, path, images, recorder)
            for key in recorder.wanted - recorder.asked:
                yield key, []
            for key in list(recorder.calls):
                yield key, recorder.calls.pop(key)
    finally:
        network.engine = engine


def _record(
    network: Network, path: ExecutionPath, images: Sequence[np.ndarray], recorder: Recorder
) -> None:
    """Runs every image up to the last segment that is wanted; in every second one some skips of the path are taken, as
    they will be."""
    space, rng = path.space, random.Random(1)
    last = max(
        number
        for number in range(len(space.segments))
        if space.key(number, path) in recorder.wanted
    )
    skips = [operator.name for operator in space.operators if operator.kind == SKIP]
    for number, image in enumerate(images):
        taken = {
            name: space.operator(name).settings[0]
            for name in skips
            if number % 2 and rng.random() < 0.5
        }
        run = network.start(image, path.replace(**taken) if taken else path)
        while run.segment <= last:
            run.run_segment()


class SegmentMaker:
    """Makes the compiled form of one segment after another.

    Args:
        store: keeps what is made.
        threads: that one segment is distributed over.
        weights_hash: of the weights that they hold.
        quantises: 8 bit is tried.

    Attributes:
        made: the models that were made here and are accurate.

    Raises:
        StoreError: OpenVINO cannot be loaded.
    """

    def __init__(
        self, store: StoreWriter, threads: int, weights_hash: str = '', *, quantises: bool = True
    ) -> None:
        self._quantises = quantises
        self._compiler, self._store = Compiler(threads), store
        self.made = SegmentModels(weights_hash)

    @torch.inference_mode()
    def take(self, key: str, calls: list[Call], models: SegmentModels) -> None:
        """Finds the form of a segment among models at hand, and keeps it where one is accurate here.

        Args:
            key: of the segment.
            calls: on images, to check and time with.
            models: of this segment, or of its layers for images of another size.
        """
        forms = ((form, partial(models.model, name)) for form, name in models.of(key))
        with self._interruptible():
            if models.forms.get(key) == []:
                self._keep_eager(key, calls, {})
            else:
                self._choose(key, forms, calls, {}, makes=models is self.made)

    @torch.inference_mode()
    def make(self, key: str, calls: list[Call]) -> None:
        """Finds the form of a segment, converting and quantising it, and keeps it.

        Args:
            key: of the segment.
            calls: on images; the last quarter is for checking alone.
        """
        checks, reasons = calls[-max(1, len(calls) // 4) :], dict[Form, str]()
        forms = self._forms(key, calls[: -len(checks)] or calls)
        with self._interruptible():
            if self._choose(key, forms, checks, reasons, makes=True) is None:
                self._keep_eager(key, checks, reasons)
                self.made.forms.setdefault(key, [])

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:  # says nothing of the form that was being tried
            self._store.leave()
            raise

    def _choose(
        self,
        key: str,
        forms: Iterable[tuple[Form, Callable[[], Model]]],
        checks: list[Call],
        reasons: dict[Form, str],
        makes: bool = False,
    ) -> bool | None:
        """Keeps the first form that is accurate and faster than the eager segment.

        Args:
            key: of the segment.
            forms: what may run it, the fastest first, and what makes the model of each.
            checks: calls to compare and time with.
            reasons: gets why a form is not used.
            makes: the models are made here, and those that are accurate are noted in `made`.

        Returns:
            True where the form of the segment is kept: the compiled one, or, of models from elsewhere, the eager one
            where an exact form is right and no faster, since no other form was ever tried; None otherwise.
        """
        is_exact = False
        for form, make_model in forms:
            exact = form is Form.EXACT
            if exact and not makes and self._eager_ms(checks) < _LEAST_EXACT_MS:
                is_exact = True
                continue
            if not self._store.begin(key, form):
                reasons[form] = 'compiling it ended the process'
                continue
            try:
                model = make_model()
                compiled = self._compile(model, checks[0].tensors, exact)
                segment = self._compiler.load(compiled, exact)
                compare = peak_to_error_db if exact else signal_to_error_db
                error_db = min(
                    compare(check.outputs, as_tensors(segment(check.arrays))) for check in checks
                )
            except (
                Exception
            ) as error:  # of any kind: converter, quantiser and compiler meet layers of any network
                reasons[form] = (
                    f'{type(error).__name__} {(str(error).strip().splitlines() or [""])[-1][:200]}'
                )
                continue
            least_db = (
                _LEAST_EXACT_DB if exact else LEAST_SIGNAL_TO_ERROR_DB - _DEVICE_DB * (not makes)
            )
            if not error_db >= least_db:
                reasons[form] = f'{error_db:.1f} dB of signal to error, expected {least_db:.0f}'
                continue
            is_exact = is_exact or exact
            if makes:
                self.made.add(key, form, model)
            eager_ms, time_ms = times_ms(checks, segment)
            if exact and time_ms * _EXACT_GAIN >= eager_ms:
                continue
            if time_ms >= eager_ms:
                reasons[form] = f'{time_ms:.2f} ms, eager {eager_ms:.2f}'
                continue
            self._store.add(
                key,
                form,
                error_db=error_db,
                time_ms=time_ms,
                eager_ms=eager_ms,
                compiled=compiled,
                reason=reasons.get(Form.INT8, '') if form is not Form.INT8 else '',
            )
            return True
        if is_exact and not makes:
            self._keep_eager(key, checks, reasons)
            return True
        self._store.leave()  # no form that was tried has ended the process
        return None

    def _keep_eager(self, key: str, checks: list[Call], reasons: dict[Form, str]) -> None:
        eager_ms = self._eager_ms(checks)
        self._store.add(
            key,
            Form.EAGER,
            error_db=0.0,
            time_ms=eager_ms,
            eager_ms=eager_ms,
            reason='; '.join(f'{form.value} {reason}' for form, reason in reasons.items()),
        )

    def _eager_ms(self, calls: list[Call]) -> float:
        return times_ms(calls, lambda arrays: None)[0]

    def _forms(self, key: str, calls: list[Call]) -> Iterator[tuple[Form, Callable[[], Model]]]:
        """Forms to try, the fastest first, and what makes the model of each; a model that is converted serves them
        all."""
        for form, name in self.made.of(key):  # the same layers for another number of regions, often
            yield form, partial(self.made.model, name)
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
    def _convert(self, call: Call) -> Model:
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
            try:
                model = convert(program)
            except OpConversionFailure:
                model = convert(module, example_input=example)
        _fix_shapes(model, call.tensors)
        return model

    def _quantise(self, model: Model, calls: list[Call], saturating: bool) -> Model:
        logging.getLogger('torch.utils.cpp_extension').setLevel(
            logging.ERROR
        )  # it warns of GPUs that nobody asked for
        import nncf

        nncf.set_log_level(logging.ERROR)
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

    def _compile(self, model: Model, example: list[Tensor], exact: bool = False) -> bytes:
        """A model with the shapes of an example; values of four dimensions come and go channels last."""
        model = model.clone()
        _fix_shapes(model, example)
        return self._compiler.compile(channels_last(model), exact)


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


def signal_to_error_db(expected: Values, found: Values) -> float:
    """Of the worst of several tensors: the variance of what is expected over the mean square of the error, in dB.

    Infinite values and shapes that differ count as no signal at all.
    """
    worst = _EXACT_DB
    for right, value in zip(expected, found, strict=True):
        if right.shape != value.shape:
            return -_EXACT_DB
        error = float((value.double() - right.double()).square().mean())
        signal = float(right.double().var(correction=0))
        if not math.isfinite(error) or (error > 0.0 and signal == 0.0):
            return -_EXACT_DB
        if error > 0.0:
            worst = min(worst, 10.0 * math.log10(signal / error))
    return worst


def peak_to_error_db(expected: Values, found: Values) -> float:
    """Of the worst of several tensors: the square of its largest value over that of the largest error, in dB.

    NaN and shapes that differ count as no signal at all.
    """
    worst = _EXACT_DB
    for right, value in zip(expected, found, strict=True):
        if right.shape != value.shape:
            return -_EXACT_DB
        if not right.numel():
            continue
        error, peak = (
            float(part.double().abs().max()) for part in (value.double() - right.double(), right)
        )
        if not math.isfinite(error) or (error > 0.0 and peak == 0.0):
            return -_EXACT_DB
        if error > 0.0:
            worst = min(worst, 20.0 * math.log10(peak / error))
    return worst


def times_ms(
    calls: list[Call], segment: Callable[[list[np.ndarray]], object]
) -> tuple[float, float]:
    """Shortest times of the eager and the other form of a segment, by turns and with swept caches, in ms; others
    lengthen neither. Few runs are enough where they differ much."""
    eager, other = list[float](), list[float]()
    swept = np.zeros(_SWEPT_BYTES, np.uint8)
    for number in range(_TIMINGS):
        call = calls[number % len(calls)]
        for run, times in (
            (call.eager, eager),
            (partial(segment, call.arrays), other),
        ):
            swept += 1
            started = now_ms()
            run()
            times.append(now_ms() - started)
        shorter_ms, longer_ms = sorted((min(eager), min(other)))
        if number + 1 >= _FEW_TIMINGS and shorter_ms * _CLEAR <= longer_ms:
            break
    return min(eager), min(other)


def _refuse(error: Exception) -> None:
    raise error


def _fix_shapes(model: Model, example: list[Tensor]) -> None:
    model.reshape({index: list(tensor.shape) for index, tensor in enumerate(example)})


def with_settings(path: ExecutionPath, needed: dict[int, int]) -> ExecutionPath:
    """The path with some settings given by the place of their operator."""
    return ExecutionPath(
        tuple(needed.get(at, index) for at, index in enumerate(path.settings)), path.space
    )
