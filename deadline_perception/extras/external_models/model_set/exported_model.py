"""A single exported detector as a network: what its file says of itself, and what that leaves to be known."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from deadline_perception.extras.external_models.exported.class_list import read_classes
from deadline_perception.extras.external_models.exported.coco_names import COCO_LABELS, COCO_NAMES
from deadline_perception.extras.external_models.exported.conventions import (
    Names,
    label_lists,
    possible_readings,
)
from deadline_perception.extras.external_models.exported.exported_file import (
    read_exported,
    with_size,
)
from deadline_perception.extras.external_models.exported.families import recognise
from deadline_perception.extras.external_models.exported.head import Head
from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.exported.pixels import InputForm
from deadline_perception.extras.external_models.exported.stated_facts import unnamed
from deadline_perception.extras.external_models.model_set.model_set import ModelSet
from deadline_perception.extras.external_models.model_set.onnx_detector import in_file
from deadline_perception.extras.external_models.model_set.set_file import ModelSpec, load_model

_LOG = logging.getLogger('deadline_perception')
_USUAL_SIZE = (640, 640)  # px, of a file that leaves its size open and states none


@dataclass(frozen=True)
class FileFacts:
    """What a file says of itself.

    Attributes:
        class_names: that it states; empty without.
        labels: numbers of labels that its outputs may give; empty where they do not say.
        size: height and width in px that it reads; None where it leaves them open.
        stated_size: height and width in px that it was made for, where it is open and says so.
        usual: how such a detector mostly takes images, see `Head.usual`; empty where its size is not known.
    """

    class_names: tuple[str, ...]
    labels: tuple[int, ...]
    size: tuple[int, int] | None
    stated_size: tuple[int, int] | None
    usual: tuple[str, ...]


def read_facts(
    file: Path, size: tuple[int, int] | None = None, stated: str = '', classes: int | None = None
) -> FileFacts:
    """What a file says of itself, read in this process.

    Args:
        file: exported detector.
        size: height and width in px for a file that leaves them open.
        stated: see `families.recognise`.
        classes: how many it is to give, which then has to fit; None where that is not known.

    Raises:
        ModelError: it is no detector that can be read; says what was found.
    """
    exported = read_exported(file)
    size = size or (exported.stated.size if exported.is_open else exported.size)
    labels: set[int] = set()
    usual: tuple[str, ...] = ()
    if size is not None:
        given = with_size(exported, size, file)
        known, names = stated or exported.stated.outputs, exported.stated.class_names
        heads = in_file(file, lambda: _heads(given, size, known, classes, len(names)))
        labels = {head.labels for head in heads if head.labels}
        usual = heads[0].usual
        if classes is None and names:
            labels |= _labels_of_as_many(given, size, known, len(names))
    return FileFacts(
        exported.stated.class_names,
        tuple(sorted(labels)),
        None if exported.is_open else exported.size,
        exported.stated.size,
        usual,
    )


def _heads(
    outputs, size: tuple[int, int], stated: str, classes: int | None, named: int
) -> list[Head]:
    """What outputs may be read as, the likeliest first; at least one. Those of one or two classes need to be known by as
    many names, if the file has some."""
    if classes is None:
        try:
            return recognise(outputs, None, size, stated)
        except ModelError:
            if not named:
                raise
        classes = named
    names = tuple(map(str, range(classes)))
    return [head for head, _ in possible_readings(outputs, names, size, stated)]


def _labels_of_as_many(outputs, size: tuple[int, int], stated: str, count: int) -> set[int]:
    """The number of names that a file states, where its outputs may be read as of as many classes."""
    try:
        heads = recognise(outputs, count, size, stated)
    except ModelError:
        return set()
    return {head.labels for head in heads if head.labels}


def exported_spec(
    file: Path,
    classes: tuple[str, ...] | None = None,
    size: tuple[int, int] | None = None,
    outputs: str = '',
    inspect: Callable[..., FileFacts] = read_facts,
) -> ModelSpec:
    """A file of its kind, refused at once where no detector is in it. What it does not say is left open.

    Args:
        file: exported detector.
        classes: what its labels mean; None: as it says, or COCO's where it gives as many.
        size: height and width in px, for a file that leaves them open; None: as it says, or a usual one.
        outputs: see `ModelSpec`.
        inspect: reads it, as `read_facts` does.

    Raises:
        ModelError: it is no detector that can be read, or its classes are not known.
    """
    count = None if classes is None else len(classes)
    facts = inspect(file, size, outputs, count)
    if facts.size is None and size is None:
        size = facts.stated_size or _USUAL_SIZE
        facts = inspect(file, size, outputs, count)
    if classes is None and facts.class_names:
        classes = _as_many(facts.class_names, facts.labels, file)
    elif classes is None and set(facts.labels) & set(COCO_LABELS):
        classes = COCO_NAMES
    if classes is None:
        raise ModelError(
            f'the classes of {file} are not known: name them with --classes (in Python classes=), in the order of its '
            f'labels: car,bus,person for three; a file of names; or coco'
        )
    return ModelSpec(plain_name(file.stem), 'onnx', file, classes, input_size=size, outputs=outputs)


def _as_many(names: tuple[str, ...], labels: tuple[int, ...], file: Path) -> tuple[str, ...]:
    """Names that a file states, brought to the number of labels that its outputs have, which its names may miss."""
    if not labels or len(names) in labels:
        return names
    count = min(labels, key=lambda known: abs(known - len(names)))
    _LOG.warning(
        '%s names %d classes and its outputs are of %d: names are taken by their number; say them with `classes`',
        file.name,
        len(names),
        count,
    )
    return names[:count] + tuple(unnamed(label) for label in range(len(names), count))


def load_exported(file: Path, device: str = 'cpu', classes: str | Sequence[str] = ()) -> ModelSet:
    """The network of a file that says enough of itself, read in the likeliest way.

    What it leaves open, `deadline-perception adopt` finds out on images, and writes to a set file.

    Args:
        file: exported detector.
        device: that runs it.
        classes: see `read_classes`; empty: as it says.

    Raises:
        ValueError: the classes are none.
        ModelError: it cannot be used, or its classes are not known.
    """
    spec = exported_spec(file, read_classes(classes) if classes else None)
    facts = read_facts(file, spec.input_size, classes=len(spec.classes))
    spec = replace(spec, classes=_places(spec.classes, facts, file))
    if facts.usual:
        form = InputForm.of_range(spec.input_size, *facts.usual)
        spec = replace(
            spec,
            resize=form.resize,
            channels=form.channels,
            mean=form.mean,
            deviation=form.deviation,
        )
    return ModelSet(spec.name, {spec.name: load_model(spec, device)})


def _places(names: tuple[str, ...], facts: FileFacts, file: Path) -> Names:
    """The class of each label, where COCO's have the numbers of the data set, which leave gaps."""
    if names != COCO_NAMES or names == facts.class_names or len(names) in facts.labels:
        return names
    if not facts.labels:
        _LOG.warning(
            '%s gives numbers of classes, which are taken from 0 to 79; where they are those of COCO itself, to 90 with '
            'gaps, every object has a wrong name: `adopt` finds out on images',
            file.name,
        )
    fitting = (known for known in label_lists(names) if len(known) in facts.labels)
    return max(fitting, key=len, default=names)  # a background is a number that no class has


def plain_name(text: str) -> str:
    """As a model of a set can be called."""
    return re.sub(r'[^A-Za-z0-9_.]+', '_', text)
