"""Shapes of multi-path detectors by their names, and in JSON files of their own."""

from __future__ import annotations

from pathlib import Path

from deadline_perception.core.json_file import JsonFileError, read_object
from deadline_perception.core.replaced_file import replace_file
from deadline_perception.extras.faster_rcnn.configuration import CONFIGURATIONS
from deadline_perception.networks.multi_path.configuration import read_shape
from deadline_perception.networks.multi_path.dense.configuration import STREET
from deadline_perception.networks.multi_path.shape import DetectorShape


def find_configuration(name: str) -> DetectorShape:
    """The built-in configuration of a name, or the one that a JSON file holds.

    Raises:
        ValueError: it is no built-in name, and no file lies there.
        JsonFileError: the file is no configuration.
    """
    known = {**CONFIGURATIONS, STREET.name: STREET}
    if name in known:
        return known[name]
    if not Path(name).is_file():
        raise ValueError(
            f'configuration is {name!r}, expected one of {", ".join(known)} or a JSON file'
        )
    record = read_object(Path(name), 'configuration')
    try:
        shape = read_shape(record)
    except ValueError as error:
        raise JsonFileError(f'configuration {name} cannot be used: {error}') from error
    if not isinstance(shape, DetectorShape):
        raise JsonFileError(f'configuration {name} is {shape.name}, expected a multi-path detector')
    return shape


def save_configuration(config: DetectorShape, file: Path) -> None:
    """Writes a configuration as JSON, whole or not at all; `find_configuration` reads it."""
    replace_file(file, config.to_json())
