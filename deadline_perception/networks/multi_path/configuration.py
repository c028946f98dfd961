"""The shapes that a multi-path detector can take: `street`, those of other families by name, and others from a file."""

from __future__ import annotations

from deadline_perception.core.decoding import decode
from deadline_perception.core.named import named
from deadline_perception.core.untrusted_file import parse_json
from deadline_perception.networks.multi_path.dense.configuration import STREET, DenseConfig
from deadline_perception.networks.multi_path.shape import DetectorShape

# The extra that has the shapes without a family; the suite imports none.
_FASTER_RCNN = 'deadline_perception.extras.faster_rcnn.configuration'


def configurations() -> dict[str, DetectorShape]:
    """The built-in shapes by their names."""
    return {**named(f'{_FASTER_RCNN}:CONFIGURATIONS'), STREET.name: STREET}


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
