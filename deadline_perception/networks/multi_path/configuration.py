"""The shapes of this package's own detectors: `street`, those of other families by name, and others from a file."""

from __future__ import annotations

from pkgutil import resolve_name

from deadline_perception.core.decoding import decode
from deadline_perception.core.untrusted_file import parse_json
from deadline_perception.networks.multi_path.dense.configuration import STREET, DenseConfig
from deadline_perception.networks.multi_path.shape import DetectorShape, Shape
from deadline_perception.networks.yolox.configuration import YoloxConfig

# The extra that has the shapes without a family; the suite imports none.
_FASTER_RCNN = 'deadline_perception.extras.faster_rcnn.configuration'
# Of the others, by an attribute that they alone have.
_KINDS = {'family': DenseConfig, 'sources': YoloxConfig}


def configurations() -> dict[str, DetectorShape]:
    """The built-in shapes by their names."""
    return {**resolve_name(f'{_FASTER_RCNN}:CONFIGURATIONS'), STREET.name: STREET}


def stored_shape(text: str) -> Shape:
    """The configuration that a weights file states: all of it as JSON, or the name of a built-in one.

    Raises:
        ValueError: it is neither.
    """
    if text.lstrip().startswith('{'):
        return read_shape(parse_json(text))
    known = configurations()
    if text not in known:
        raise ValueError(
            f'configuration is {text[:40]!r}, expected one of {", ".join(known)} or a whole one'
        )
    return known[text]


def read_shape(record: object) -> Shape:
    """The configuration, of whatever kind, that plain dicts, lists and numbers describe.

    Raises:
        FileRefused: an attribute is missing, unknown, of another type or outside its range.
    """
    for attribute, kind in _KINDS.items():
        if isinstance(record, dict) and attribute in record:
            return decode(record, kind, 'configuration')
    return decode(record, resolve_name(f'{_FASTER_RCNN}:DetectorConfig'), 'configuration')
