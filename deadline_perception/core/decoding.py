"""Values of JSON or YAML as the typed records that annotations describe; msgspec checks types and ranges.

What lies in front of it, `untrusted_file.py`, limits sizes, depths and digits.
"""

from __future__ import annotations

import re
import sys
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from deadline_perception.core.errors import printable
from deadline_perception.core.number import told_value
from deadline_perception.core.untrusted_file import FileRefused

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Finite = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
Number = int | Finite  # an integer stays one, as hashes of what was read need it
_ERROR = re.compile(r'(.*?)(?: - at (?:`key` in )?`\$(.*)`)?', re.DOTALL)
_STEP = re.compile(r'\.(\w+)|\[(\d+)\]')


def decode(content: object, kind: Any, name: str) -> Any:
    """A value of a file as a record or container; strict: no text becomes a number, no truth value an integer.

    Args:
        content: as `read_json` or `read_yaml` gives it.
        kind: a dataclass, or a type such as `dict[str, Count]`.
        name: what it is called, for the error message.

    Raises:
        FileRefused: it is something else, or a record has a field that its type does not know. Says the place, the
            value and what is expected.
    """
    if isinstance(content, dict):  # tables apart, as msgspec does not say which key
        if get_origin(kind) is dict:
            of_values = get_args(kind)[1]
            content = {
                key: decode(value, of_values, f'{name}[{told_value(key)}]')
                for key, value in content.items()
            }
        elif isinstance(kind, type) and is_dataclass(kind):
            hints = _hints(kind)
            tables = {key for key in content if get_origin(hints.get(key)) is dict}
            content = content | {
                key: decode(content[key], hints[key], f'{name}.{key}') for key in tables
            }
    try:
        record = msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        parts = _ERROR.fullmatch(str(error))
        assert parts is not None
        words, place = parts.groups(default='')
        if error.__cause__ is not None:  # what the record itself refuses
            raise FileRefused(f'{name}{place}: {error.__cause__}') from error
        value: Any = content
        for key, index in _STEP.findall(place.partition('[...]')[0]):
            value = value[key] if key else value[int(index)]
        expected = printable(words.replace('`', ''), 200)
        raise FileRefused(
            f'{name}{place} is {told_value(value)}, {expected[:1].lower()}{expected[1:]}'
        ) from None
    _check_names(content, record, name)
    return record


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _check_names(content: Any, record: Any, name: str) -> None:
    """Refuses fields that records of any depth do not know, which msgspec passes over."""
    if is_dataclass(record) and isinstance(content, dict):
        known = [field.name for field in fields(record)]
        for key, value in content.items():
            if key not in known:
                raise FileRefused(f'{name} has {told_value(key)}, expected {", ".join(known)}')
            _check_names(value, getattr(record, key), f'{name}.{key}')
    elif isinstance(record, (list, tuple)):
        for number, (value, item) in enumerate(zip(content, record)):
            _check_names(value, item, f'{name}[{number}]')
