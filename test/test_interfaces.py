"""The message types: every field is explained, and the generated classes have exactly the declared fields."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
OURS = sorted((REPOSITORY / 'msg').glob('*.msg'))
BOXES = sorted((REPOSITORY / 'third_party/vision_msgs/msg').glob('*.msg'))
_FIELD = re.compile(
    r'^(?P<type>[\w/]+(?:<=\d+)?(?:\[(?:<=)?\d*\])?)\s+(?P<name>[a-z]\w*)\s*(?P<comment>#.*)?$'
)


def declared(file: Path) -> dict[str, str]:
    """Field name -> type as written, in order."""
    matches = (_FIELD.match(line) for line in file.read_text(encoding='utf-8').splitlines())
    return {match['name']: match['type'] for match in matches if match}


def full_type(written: str, package: str) -> str:
    """A written type as rclpy names it: strings and arrays as sequences, messages with their package."""
    element, bracket, most = written.partition('[')
    element = re.sub(r'^string<=(\d+)$', r'string<\1>', element)
    simple = re.fullmatch(r'bool|byte|char|u?int\d+|float\d+|string(<\d+>)?', element)
    named = (
        {'float64': 'double', 'float32': 'float', 'bool': 'boolean'}.get(element, element)
        if simple
        else (element if '/' in element else f'{package}/{element}')
    )
    bound = f', {most[2:-1]}' if most.startswith('<=') else ''
    return f'sequence<{named}{bound}>' if bracket else named


@pytest.mark.parametrize('file', OURS, ids=lambda file: file.stem)
def test_every_field_is_explained(file: Path) -> None:
    lines = file.read_text(encoding='utf-8').splitlines()
    assert lines[0].startswith('# '), 'the first line says what the message is for'
    fields = [
        line
        for line in lines
        if line.strip()
        and not line.startswith('#')
        and not re.search(r'[\w\s]=', line.split('#')[0])
    ]
    assert fields and all(_FIELD.match(line) for line in fields)
    assert [
        line for line in fields if len((_FIELD.match(line)['comment'] or '').strip('# ')) < 5
    ] == []


@pytest.mark.parametrize('file', OURS + BOXES, ids=lambda file: file.stem)
def test_generated_class_has_the_declared_fields(file: Path) -> None:
    package = 'vision_msgs' if file in BOXES else 'deadline_perception'
    message = getattr(importlib.import_module(f'{package}.msg'), file.stem)
    expected = {name: full_type(written, package) for name, written in declared(file).items()}
    assert expected, f'{file.name} declares no field'
    assert message.get_fields_and_field_types() == expected
    assert list(message.get_fields_and_field_types()) == list(expected), (
        'the order is part of the type'
    )
