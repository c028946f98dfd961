"""What the numbers mean that an exported detector gives: names, as a command or a program takes them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from deadline_perception.core.untrusted_file import (
    MOST_TEXT_BYTES,
    FileRefused,
    read_json,
    read_text,
)
from deadline_perception.extras.data.records import check_class_names
from deadline_perception.extras.external_models.exported.coco_names import COCO_NAMES
from deadline_perception.extras.external_models.exported.stated_facts import names_by_number
from deadline_perception.extras.plain_yaml import read_yaml
from deadline_perception.networks.kinds import SET_SUFFIXES

COCO = 'coco'
CLASSES_HELP = (
    'what the numbers mean that the models give: names with commas, a file of names (one a line, a JSON or '
    'YAML list, or the data.yaml of a YOLO), or coco; once for all models, or once for each that needs it, '
    'in their order; not needed where the file names them or has as many as COCO'
)


def read_classes(given: str | Sequence[str], told_as: str = 'classes') -> tuple[str, ...]:
    """The names that are meant, one for each number that a model gives.

    Args:
        given: names, or a text: names with commas, a file of them, or `coco`.
        told_as: what errors call it.

    Raises:
        ValueError: a file holds anything else than names, or a name is none.
    """
    if given == COCO:
        return COCO_NAMES
    names: object = _names_of(given, told_as) if isinstance(given, str) else given
    if isinstance(names, Mapping):  # by number, as in the data.yaml of a YOLO
        names = names_by_number(names)
    elif not isinstance(names, list) and isinstance(names, Iterable):
        names = list(names)
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f'{told_as} is {given!r}, expected {CLASSES_HELP}')
    check_class_names(tuple(names))
    return tuple(names)


def _names_of(text: str, told_as: str) -> object:
    file = Path(os.path.expanduser(text))
    if file.is_file():
        return _names_in(file)
    if file.suffix and ',' not in text:
        raise ValueError(
            f'{told_as} is {text!r}, a file that does not exist; expected {CLASSES_HELP}'
        )
    return [name.strip() for name in text.split(',')]


def _names_in(file: Path) -> object:
    kind = file.suffix.lower()
    try:
        if kind not in ('.json', *SET_SUFFIXES):
            return [line.strip() for line in read_text(file).splitlines() if line.strip()]
        content = read_json(file, MOST_TEXT_BYTES) if kind == '.json' else read_yaml(file)
    except FileRefused as error:
        raise ValueError(f'{file} cannot be read: {error}; expected names of classes') from error
    return content.get('names', content) if isinstance(content, dict) else content
