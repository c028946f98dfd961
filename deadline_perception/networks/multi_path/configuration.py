"""The shapes of this package's own detectors, as files hold them."""

from __future__ import annotations

from pkgutil import resolve_name

from deadline_perception.core.decoding import decode
from deadline_perception.networks.multi_path.dense.configuration import DenseConfig
from deadline_perception.networks.multi_path.shape import Shape
from deadline_perception.networks.yolox.configuration import YoloxConfig

# The extra that has the shapes without a family; the suite imports none.
_FASTER_RCNN = 'deadline_perception.extras.faster_rcnn.configuration'
# Of the others, by an attribute that they alone have.
_KINDS = {'family': DenseConfig, 'sources': YoloxConfig}


def read_shape(record: object) -> Shape:
    """The configuration, of whatever kind, that plain dicts, lists and numbers describe.

    Raises:
        FileRefused: an attribute is missing, unknown, of another type or outside its range.
    """
    for attribute, kind in _KINDS.items():
        if isinstance(record, dict) and attribute in record:
            return decode(record, kind, 'configuration')
    return decode(record, resolve_name(f'{_FASTER_RCNN}:DetectorConfig'), 'configuration')
