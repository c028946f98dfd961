"""The shapes that a multi-path detector can take: `street`, those of other families by name, and others from a file."""

from __future__ import annotations

from pathlib import Path

from deadline_perception.core.decoding import decode
from deadline_perception.core.json_file import JsonFileError, read_object
from deadline_perception.core.named import named
from deadline_perception.core.replaced_file import replace_file
from deadline_perception.core.untrusted_file import parse_json
from deadline_perception.networks.multi_path.dense.configuration import STREET, DenseConfig
from deadline_perception.networks.multi_path.shape import DetectorShape

# The extra that has the shapes without a family; the suite imports none.
_FASTER_RCNN = 'deadline_perception.extras.faster_rcnn.configuration'


def configurations() -> dict[str, DetectorShape]:
    """The built-in shapes by their names."""
    return {**named(f'{_FASTER_RCNN}:CONFIGURATIONS'), STREET.name: STREET}


def find_configuration(name: str) -> DetectorShape:
    """The built-in configuration of a name, or the one that a JSON file holds.

    Raises:
        ValueError: it is no built-in name, and no file lies there.
        JsonFileError: the file is no configuration.
    """
    known = configurations()
    if name in known:
        return known[name]
    if not Path(name).is_file():
        raise ValueError(
            f'configuration is {name!r}, expected one of {", ".join(known)} or a JSON file'
        )
    record = read_object(Path(name), 'configuration')
    try:
        return read_shape(record)
    except ValueError as error:
        raise JsonFileError(f'configuration {name} cannot be used: {error}') from error


def stored_shape(text: str) -> DetectorShape:
    """The configuration that a weights file states: all of it as JSON, or the name of a built-in one.

    Raises:
        ValueError: it is neither.
    """
    if text.lstrip().startswith('{'):
        return read_shape(parse_json(text))
    return configurations().get(text) or read_shape(parse_json(text))


def read_shape(record: object) -> DetectorShape:
    """The configuration, of whatever family, that plain dicts, lists and numbers describe.

    Raises:
        FileRefused: an attribute is missing, unknown, of another type or outside its range.
    """
    is_dense = isinstance(record, dict) and 'family' in record
    kind = DenseConfig if is_dense else named(f'{_FASTER_RCNN}:DetectorConfig')
    return decode(record, kind, 'configuration')


def save_configuration(config: DetectorShape, file: Path) -> None:
    """Writes a configuration as JSON, whole or not at all; `find_configuration` reads it."""
    replace_file(file, config.to_json())
