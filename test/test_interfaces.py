"""The message types: every field is explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

OURS = sorted((Path(__file__).parents[1] / 'msg').glob('*.msg'))
_FIELD = re.compile(r'^[\w/]+(?:<=\d+)?(?:\[(?:<=)?\d*\])?\s+[a-z]\w*\s*(?P<comment>#.*)?$')


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
