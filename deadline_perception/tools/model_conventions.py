"""Looks at the file of a detector, and finds how it is to be read, each in a process of its own: a file that hangs or
ends its process spoils nothing else."""

from __future__ import annotations

import math
import resource
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from deadline_perception.core.detections import Detections, pairwise_iou
from deadline_perception.engines.openvino_library import cpu_settings, openvino_core
from deadline_perception.extras.data.records import GroundTruth
from deadline_perception.extras.data.records import Sequence as DrivingSequence
from deadline_perception.extras.evaluation.average_precision import average_precision
from deadline_perception.extras.external_models.exported.conventions import (
    confidence,
    implausible,
    possible_readings,
    search,
)
from deadline_perception.extras.external_models.exported.exported_file import (
    openvino_message,
    read_exported,
    with_size,
)
from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.exported.pixels import (
    STRETCH,
    InputForm,
    place,
    placement,
    read_values,
)
from deadline_perception.extras.external_models.exported.suppression import suppress
from deadline_perception.extras.external_models.model_set.exported_model import (
    FileFacts,
    read_facts,
)
from deadline_perception.extras.external_models.model_set.onnx_detector import (
    check_finite,
    in_file,
    input_size,
)
from deadline_perception.extras.external_models.model_set.set_file import ModelSpec
from deadline_perception.tools.support.model_process import ask, serve

_MODULE = 'model_conventions'
_INSPECTION_LIMIT_S, _INSPECTION_PROCESSOR_S = (
    600.0,
    20,
)  # the latter on a machine that others use, too
_FIRST_RUN_PROCESSOR_S = 200  # of the layers, a large detector's on a slow board
_SEARCH_LIMIT_S = 3600.0  # of work for a minute, on a machine that others use, too
# Of annotated images, below which a detector that is sure of its boxes is read wrongly. A weak one, read rightly, has
# 0.027 (SSD MobileNet on dashcams); boxes or labels read wrongly give 0.001.
# measured: benchmarks/own_models.py of commit a7507dff
_LEAST_AP = 0.02
_SURE_BOXES = 20  # that such a detector has at least
_CONFIDENT = 0.3
_TRIAL_IMAGES = 20  # that conventions are found on


@dataclass(frozen=True)
class FoundConventions:
    """How a file is to be read.

    Attributes:
        spec: the detector with its conventions filled in.
        words: the conventions.
        tried: words and values, see `_Evaluation`, of all that were tried on all images, the best first.
        ap: of the best on annotated images; None without.
    """

    spec: ModelSpec
    words: str
    tried: tuple[tuple[str, float], ...]
    ap: float | None


@dataclass(frozen=True, eq=False)
class TrialImages:
    """Images that conventions are tried on.

    Attributes:
        images_bgr: uint8 `[H, W, 3]` each.
        ground_truths: objects of each image as rows `[N, 6]` of corners in px, label and crowd; None where nothing is
            annotated.
        class_names: that the labels index.
    """

    images_bgr: Sequence[np.ndarray]
    ground_truths: Sequence[np.ndarray] | None = None
    class_names: tuple[str, ...] = ()

    @classmethod
    def of(cls, sequence: DrivingSequence) -> TrialImages:
        """Some 20 images of a sequence, evenly spaced; where some are annotated, those with most objects."""
        frames = [frame for frame in sequence.frames if frame.ground_truth is not None] or list(
            sequence.frames
        )
        share = max(1, math.ceil(len(frames) / _TRIAL_IMAGES))
        chosen = [
            max(frames[begin : begin + share], key=lambda frame: len(frame.ground_truth or ()))
            for begin in range(0, len(frames), share)
        ]
        images = [frame.load_bgr() for frame in chosen]
        if chosen[0].ground_truth is None:
            return cls(images)
        rows = [
            np.column_stack((known.boxes_xyxy_px, known.labels, known.crowd))
            for known in (frame.ground_truth for frame in chosen)
        ]
        return cls(images, rows, sequence.class_names)


def inspect_file(
    file: Path, size: tuple[int, int] | None = None, stated: str = '', classes: int | None = None
) -> FileFacts:
    """`read_facts` in a process of its own, which a file may hang or end, and a first run of its layers, where its size
    is known. Takes a second or two, and no torch.

    Raises:
        ModelError: it is no detector that can be read and run; says what was found.
    """
    order = {'task': 'inspect', 'file': file, 'size': size, 'stated': stated, 'classes': classes}
    return FileFacts(**ask(_MODULE, order, {}, str(file), _INSPECTION_LIMIT_S))


def find_conventions(spec: ModelSpec, images: TrialImages, least: int = 0) -> FoundConventions:
    """Tries how a file may be read on some 20 images. Blocks for some 10 s.

    Args:
        spec: the detector.
        images: that it is tried on.
        least: see `search`.

    Raises:
        ModelError: no convention gives plausible objects; says what was tried.
    """
    order = {'task': 'search', 'spec': spec, 'class_names': images.class_names, 'least': least}
    arrays = {'images': images.images_bgr, 'objects': images.ground_truths or ()}
    answer = ask(_MODULE, order, arrays, spec.name, _SEARCH_LIMIT_S)
    return FoundConventions(
        **{**answer, 'spec': ModelSpec(**{**answer['spec'], 'file': spec.file})}
    )


def _work(order: dict, arrays: dict[str, list[np.ndarray]]) -> dict:
    if order['task'] == 'inspect':
        return _inspect(Path(order['file']), order['size'], order['stated'], order['classes'])
    return _search(
        ModelSpec(**order['spec']),
        arrays['images'],
        arrays['objects'],
        order['class_names'],
        order['least'],
    )


def _inspect(file: Path, size: tuple[int, int] | None, stated: str, classes: int | None) -> dict:
    _limit_processor(_INSPECTION_PROCESSOR_S)
    facts = read_facts(file, size, stated, classes)
    size = size or facts.size or facts.stated_size
    if size is not None:
        _limit_processor(_INSPECTION_PROCESSOR_S + _FIRST_RUN_PROCESSOR_S)
        _check_first_run(file, size)
    return asdict(facts)


def _limit_processor(seconds: int) -> None:
    """Ends this process by SIGXCPU once it has taken so much processor time, or what was allowed to it before."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(
        resource.RLIMIT_CPU,
        (seconds if most == resource.RLIM_INFINITY else min(seconds, most), most),
    )


def _check_first_run(file: Path, size: tuple[int, int]) -> None:
    """Runs the layers on one image of all levels of grey.

    Raises:
        ModelError: they cannot be run, or their outputs say nothing, whatever the image.
    """
    exported = read_exported(file)
    with_size(exported, size, file)
    levels = np.linspace(0, 255, size[0] * size[1]).astype(np.uint8).reshape(*size, 1)
    try:
        values = _Layers(exported, [levels.repeat(3, axis=2)]).run(InputForm(size, STRETCH), 0)
    except RuntimeError as error:
        raise ModelError(f'{file} cannot be run: {openvino_message(error)}') from error
    check_finite(values, str(file))
    same = [float(value.flat[0]) for value in values if value.size > 1 and np.ptp(value) == 0]
    if len(same) == len(values) and not any(
        value.is_integer() for value in same
    ):  # 0 or -1 may fill unused rows
        raise ModelError(
            f'each output of {file} holds one value only, {same[0]:.3g} in all places; expected boxes and '
            f'scores'
        )


def _search(
    spec: ModelSpec,
    images: list[np.ndarray],
    objects: list[np.ndarray],
    class_names: tuple[str, ...],
    least: int,
) -> dict:
    exported = read_exported(spec.file)
    size = input_size(exported, InputForm(spec.input_size), spec.file)
    given = with_size(exported, size, spec.file)
    readings = in_file(
        spec.file,
        lambda: possible_readings(
            given, spec.classes, size, spec.outputs or exported.stated.outputs
        ),
    )
    layers = _Layers(exported, images)
    if not set(spec.classes) & set(class_names):  # nothing of what is annotated can be found
        objects = []
    evaluation = _Evaluation(images, objects, class_names, size)
    resize, channels, known_range = readings[0][0].usual
    best, trials = search(
        layers.run,
        InputForm.of_range(size, resize, channels, known_range),
        readings,
        evaluation.value,
        len(images),
        is_8_bit=layers.is_8_bit,
        least=least,
    )
    chosen = best.conventions
    found = [
        evaluation.thinned(chosen, chosen.head.decode(layers.run(chosen.form, number)))
        for number in range(len(images))
    ]
    wrong = implausible(found, size)
    sure = sum(int((one.scores >= _CONFIDENT).sum()) for one in found)
    ap = evaluation.ap(chosen, found) if objects else None
    if not wrong and ap is not None and ap < _LEAST_AP and sure >= _SURE_BOXES:
        wrong = (
            f'it is sure of {sure} boxes, and their AP on {len(images)} annotated images is {100 * ap:.1f} %, '
            f'expected at least {100 * _LEAST_AP:.0f} %'
        )
    if wrong:
        tried = '; '.join(f'{trial.conventions.words} ({trial.value:.3f})' for trial in trials[:5])
        raise ModelError(
            f'{spec.file.name} was tried in {len(trials)} ways, and in the best of them {wrong}. Tried: '
            f"{tried}. Name the classes in the model's order (--classes), or state what is known in the "
            f'set file'
        )
    form = chosen.form
    filled = replace(
        spec,
        classes=chosen.names,
        outputs=chosen.head.name,
        resize=form.resize,
        channels=form.channels,
        mean=form.mean,
        deviation=form.deviation,
        input_size=size if exported.is_open else spec.input_size,
    )
    tried = [(trial.conventions.words, trial.value) for trial in trials]
    return {'spec': filled, 'words': chosen.words, 'tried': tried, 'ap': ap}


class _Layers:
    """A file that runs on pixels of any form, each image once per form."""

    def __init__(self, exported, images: Sequence[np.ndarray]) -> None:
        compiled = openvino_core().compile_model(exported.model, 'CPU', cpu_settings(1))
        self._request, self._count = compiled.create_infer_request(), len(compiled.outputs)
        self._kind = exported.model.inputs[0].get_element_type().to_dtype()
        self._by_planes, self._images = exported.by_planes, images
        self.is_8_bit = self._kind == np.uint8

    def run(self, form, number: int) -> list[np.ndarray]:
        """Outputs of one image."""
        pixels = place(self._images[number], form.size, form.resize)
        if self.is_8_bit:
            values = pixels if form.channels == 'bgr' else pixels[..., ::-1]
        else:
            values = read_values(pixels, form)
        values = values.transpose(2, 0, 1) if self._by_planes else values
        self._request.infer([np.ascontiguousarray(values[None], self._kind)])
        return [
            self._request.get_output_tensor(number).data.copy() for number in range(self._count)
        ]


class _Evaluation:
    """What conventions reach: on annotated images the geometric mean of two figures that err differently, AP and how
    sure the detector is of what it finds; else how sure it is of boxes that can be boxes."""

    def __init__(
        self,
        images: Sequence[np.ndarray],
        objects: Sequence[np.ndarray],
        class_names: tuple[str, ...],
        size: tuple[int, int],
    ) -> None:
        self._sizes = [image.shape[:2] for image in images]
        self._input_size, self._class_names = size, class_names
        self._known = [GroundTruth(rows[:, :4], rows[:, 4], rows[:, 5] > 0) for rows in objects]

    @staticmethod
    def thinned(conventions, found):
        """The objects of one image after suppression, where their head needs it."""
        return suppress(found) if conventions.head.overlapping else found

    def value(self, conventions, found) -> float:
        """See the class; `found` are those of the first images, or all."""
        found = [self.thinned(conventions, one) for one in found]
        if not self._known:
            return confidence(found, self._input_size)
        return float(np.sqrt(self.ap(conventions, found) * self._certainty(conventions, found)))

    def ap(self, conventions, found) -> float:
        """AP of the classes that the model and the data share, each weighing as its objects do."""
        detections = [
            self._detections(conventions, one, number) for number, one in enumerate(found)
        ]
        scores = average_precision(
            detections, self._known[: len(found)], self._class_names
        ).per_class
        shared = [scores[name] for name in set(conventions.names) & set(self._class_names)]
        objects = sum(score.ground_truths for score in shared)
        return sum((score.ap or 0.0) * score.ground_truths for score in shared) / max(1, objects)

    def _certainty(self, conventions, found) -> float:
        """Mean over objects of the highest product of score and overlap among the boxes of its class."""
        best = []
        for number, one in enumerate(found):
            detections, known = self._detections(conventions, one, number), self._known[number]
            overlap = pairwise_iou(known.boxes_xyxy_px[~known.crowd], detections.boxes_xyxy_px)
            same = known.labels[~known.crowd][:, None] == detections.labels
            best += (
                np.where(same, overlap * detections.scores, 0.0).max(axis=1, initial=0.0).tolist()
            )
        return math.fsum(best) / max(1, len(best))

    def _detections(self, conventions, found, number: int):
        size = self._sizes[number]
        numbers = {name: label for label, name in enumerate(self._class_names)}
        labels = np.array([numbers.get(name, -1) for name in conventions.names], np.int64)
        usable = (
            (found.labels >= 0)
            & (found.labels < len(labels))
            & (found.scores >= 0)
            & (found.scores <= 1)
        )
        usable &= np.isfinite(found.boxes).all(1)
        known = np.where(usable, labels[np.where(usable, found.labels, 0)], -1)
        order = np.argsort(-found.scores, kind='stable')
        order = order[known[order] >= 0]
        at = placement(size, self._input_size, conventions.form.resize)
        boxes = at.to_image(found.boxes[order], size).clip(0.0, (size[1], size[0]) * 2)
        return Detections(boxes, found.scores[order], known[order])


if __name__ == '__main__':
    serve(_work)
