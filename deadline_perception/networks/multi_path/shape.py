"""What the shapes of all families of networks have in common: a name, and a record that JSON can hold."""

from __future__ import annotations

import json
import math
import re
import reprlib
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from deadline_perception.core.execution_path import PathSpace

_NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]{0,99}')  # it becomes part of file names


def check_name(name: object) -> None:
    """Makes sure that a name can be part of those of files.

    Raises:
        ValueError: it cannot.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            f'name of the configuration is {reprlib.repr(name)}, expected at most 100 letters, digits and '
            f'. _ -'
        )


class Shape:
    """The base of the frozen records that decide a network's shape.

    Attributes:
        name: what it is called, also in the names of files; letters, digits, dots, dashes and underscores.
        input_size: height and width in px of its largest input.
        path_space: the legal execution paths.
        identity: all that execution times depend on, as JSON can hold it.
    """

    name: str
    input_size: tuple[int, int]
    path_space: PathSpace
    identity: dict[str, Any]

    @property
    def record(self) -> dict[str, Any]:
        """All attributes as plain dicts, lists and numbers."""
        return asdict(self)

    def to_json(self) -> str:
        """One JSON object with a line per attribute; `from_record` reads it."""
        lines = [
            f'  {json.dumps(name)}: {json.dumps(value)}' for name, value in self.record.items()
        ]
        return '{\n' + ',\n'.join(lines) + '\n}\n'

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Shape:
        """The configuration that plain dicts, lists and numbers describe.

        Raises:
            ValueError: an attribute is missing, unknown, of another kind or outside its range.
        """
        return _typed(record, cls, 'configuration')


@dataclass(frozen=True)
class HeadConfig:
    """One subnet of the switch.

    Attributes:
        convolutions: number of 3x3 convolutions before the fully connected layers.
        fully_connected: width of each fully connected layer, at least one.

    Raises:
        ValueError: there is no fully connected layer, or a count lies outside its range.
    """

    convolutions: int
    fully_connected: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.convolutions < 0:
            raise ValueError(f'convolutions of a head is {self.convolutions}, expected at least 0')
        if not self.fully_connected or min(self.fully_connected) < 1:
            raise ValueError(
                f'fully_connected of a head is {self.fully_connected}, expected widths of at least 1'
            )


def _typed(value: Any, kind: Any, name: str) -> Any:
    """A value from JSON as the kind that an annotation names: lists become tuples, dicts become records."""
    if is_dataclass(kind):
        known = {field.name for field in fields(kind)}
        required = {field.name for field in fields(kind) if field.default is MISSING}
        if not isinstance(value, dict) or not required <= set(value) <= known:
            found = (
                f'lacks or adds {reprlib.repr(sorted((set(value) - known) | (required - set(value))))}'
                if isinstance(value, dict)
                else f'is {reprlib.repr(value)}'
            )
            raise ValueError(f'{name} {found}, expected exactly {sorted(known)}')
        hints = get_type_hints(kind)
        return kind(**{key: _typed(value[key], hints[key], key) for key in value})
    if get_origin(kind) is tuple:
        parts = get_args(kind)
        if not isinstance(value, list) or (parts[-1] is not Ellipsis and len(value) != len(parts)):
            raise ValueError(
                f'{name} is {reprlib.repr(value)}, expected a list'
                + ('' if Ellipsis in parts else f' of {len(parts)}')
            )
        return tuple(_typed(item, parts[0], name) for item in value)
    fits = type(value) in (int, float) if kind is float else type(value) is kind
    if not fits or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f'{name} is {reprlib.repr(value)}, expected {kind.__name__}')
    return value
