import re
from pathlib import Path

OURS = sorted((Path(__file__).parents[1] / 'msg').glob('*.msg'))
_FIELD = re.compile(r'^(?P<kind>\S+)\s+[a-z]\w*\s*# *\S.{4,}$')
_BOUNDED = re.compile(r'string<=[1-9]\d{0,2}0(\[<=\d+\])?|[A-Z]\w+\[<=\d+\]')


def test_every_field_is_explained_and_bounded() -> None:
    assert len(OURS) == 9
    for file in OURS:
        first, *lines = file.read_text(encoding='utf-8').splitlines()
        assert first.startswith('# '), 'the first line says what the message is for'
        lines = [line for line in lines if line.strip() and not line.startswith('#')]
        fields = [line for line in lines if not re.search(r'[\w\s]=', line.split('#')[0])]
        assert fields
        for line in fields:
            found = _FIELD.match(line)
            assert found, f'{file.name}: {line} is not explained'
            kind = found['kind']
            is_open = kind.startswith('string') or '[' in kind
            assert not is_open or _BOUNDED.fullmatch(kind), f'{file.name}: {line}'
