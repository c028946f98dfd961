"""What a command is given of the user's own detectors: the models and their classes, in words and files."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from deadline_perception.extras.data.class_maps import read_map
from deadline_perception.extras.data.class_names import with_mapping
from deadline_perception.extras.data.records import Sequence as DrivingSequence
from deadline_perception.extras.external_models.exported.class_list import (
    CLASSES_HELP,
    read_classes,
)
from deadline_perception.extras.external_models.exported.coco_names import COCO_NAMES
from deadline_perception.extras.external_models.exported.families import NAMES
from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.model_set.exported_model import (
    exported_spec,
    plain_name,
)
from deadline_perception.extras.external_models.model_set.set_file import ModelSpec, SetFile
from deadline_perception.networks.model_reference import (
    ModelKind,
    ModelNotFound,
    ModelReference,
    find_weights,
)
from deadline_perception.tools.model_conventions import inspect_file

MODEL_HELP = (
    'an exported detector (ONNX, OpenVINO IR, TensorFlow Lite); a detection model of torchvision and its '
    'weights as ARCHITECTURE:FILE; weights of this package, or WEIGHTS:PATH for one of their paths; or a set '
    'file, for the models in it'
)
_TORCH_SUFFIXES = (
    '.pt',
    '.pth',
)  # of no weights of this package, and of torchvision's only behind an architecture
_NEEDING = (ModelKind.EXPORT, ModelKind.TORCHVISION)  # classes


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares what a command is given of models beside their names, `models`."""
    parser.add_argument(
        '--classes', action='append', default=[], metavar='NAMES|FILE|coco', help=CLASSES_HELP
    )
    parser.add_argument(
        '--rename',
        type=Path,
        metavar='NAME|FILE',
        help='a shipped class map (kitti, coco, ...) or a JSON or YAML file that brings the classes '
        'of models and data together: name to new name, or to null to leave it out',
    )
    parser.add_argument(
        '--input-size',
        type=int,
        nargs=2,
        metavar=('HEIGHT', 'WIDTH'),
        help='px, for a file that leaves it open, or to resize images for a torchvision model',
    )
    parser.add_argument(
        '--outputs',
        choices=NAMES,
        default='',
        help="form of an ONNX file's outputs, where it is not recognised",
    )


def read_models(args: argparse.Namespace) -> list[ModelSpec]:
    """The detectors that the arguments mean, with the classes renamed.

    Raises:
        ModelError: one is of no known kind, or has no classes or several lists of them.
        ValueError: a file of names holds anything else.
    """
    given = [read_classes(text, '--classes') for text in args.classes]
    specs: list[ModelSpec] = []
    needing = sum(ModelReference.parse(word).kind in _NEEDING for word in args.models)
    if len(given) not in (0, 1, needing):
        raise ModelError(
            f'--classes is given {len(given)} times, expected once, or once for each of {needing} models '
            f'that need it'
        )
    lists = iter(given * needing if len(given) == 1 else given or [None] * needing)
    for word in args.models:
        specs += _read(word, lists, args)
    mapping = {} if args.rename is None else read_map(args.rename)
    named: dict[str, ModelSpec] = {}
    for spec in specs:
        name, number = spec.name, 2
        while name in named:
            name, number = f'{spec.name}_{number}', number + 1
        renamed = tuple(
            None if known is None else mapping.get(known, known) for known in spec.classes
        )
        named[name] = replace(spec, name=name, classes=renamed)
    return list(named.values())


def _read(word: str, lists, args: argparse.Namespace) -> list[ModelSpec]:
    reference = ModelReference.parse(word)
    kind, file = reference.kind, reference.file
    if kind is ModelKind.SET:
        return list(SetFile.load(file).models)
    if kind is ModelKind.WEIGHTS and file.suffix not in _TORCH_SUFFIXES:
        try:
            file = find_weights(file)
        except ModelNotFound as error:
            raise ModelError(f'model is {word!r}, expected {MODEL_HELP}') from error
        name = f'{file.stem}.{reference.detail}' if reference.detail else file.stem
        return [ModelSpec(plain_name(name), 'multi-path', file, path=reference.detail)]
    if kind not in _NEEDING:
        raise ModelError(f'model is {word!r}, expected {MODEL_HELP}')
    classes = next(lists)
    size = tuple(args.input_size) if args.input_size else None
    if kind is ModelKind.EXPORT:
        return [exported_spec(file, classes, size, args.outputs, inspect_file)]
    if classes is None:
        raise ModelError(
            f'the classes of {word} are not known: name them with --classes ({CLASSES_HELP})'
        )
    if classes == COCO_NAMES:  # torchvision's models of COCO have 91 places
        classes = _coco_places() if _has_coco_places(reference.detail, file) else classes
    return [
        ModelSpec(
            plain_name(file.stem),
            'torchvision',
            file,
            classes,
            architecture=reference.detail,
            input_size=size,
        )
    ]


def _coco_places() -> tuple[str, ...]:
    """Those of torchvision's models, with a background and the numbers that no class has (`N/A`)."""
    from torchvision.models.detection import FasterRCNN_ResNet50_FPN_Weights

    return tuple(FasterRCNN_ResNet50_FPN_Weights.COCO_V1.meta['categories'])


def _has_coco_places(architecture: str, file: Path) -> bool:
    from deadline_perception.extras.external_models.model_set.torchvision_detector import fits

    return fits(architecture, file, len(_coco_places()))


def renamed(sequence: DrivingSequence, mapping: Mapping[str, str | None]) -> DrivingSequence:
    """Data with those of their classes renamed that `--rename` names, as those of the models are."""
    return with_mapping(sequence, mapping) if set(mapping) & set(sequence.class_names) else sequence


def classes_of_set(models: Sequence[Sequence[str]], known: Sequence[str]) -> tuple[str, ...]:
    """The classes of a set: those of the data first, in their order, then those that models find beside."""
    found = dict.fromkeys(name for names in models for name in names)
    return (
        *(name for name in known if name in found),
        *(name for name in found if name not in known),
    )
