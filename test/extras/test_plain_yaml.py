"""YAML of settings is read, whatever else is refused."""

import pytest

from deadline_perception.core.untrusted_file import FileRefused
from deadline_perception.extras.plain_yaml import parse_yaml

BOMB = 'a0: &a0 [x, x]\n' + ''.join(f'a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n' for n in range(1, 40))


@pytest.mark.parametrize(
    'text, words',
    [
        (BOMB, 'line 1 is an alias or an anchor'),
        ('a: *b', 'is an alias'),
        ('<<: {a: 1}', 'is a merge key'),
        ('a: 1\nb: {c: 1, c: 2}', "line 2 is the key 'c' again"),
        ('a: 1:30', "'1:30', which YAML reads as a number in base"),
        ('a: ' + '9' * 5000, 'a number of 5000 characters'),
        ('[' * 100_000, 'nested too deeply'),
        ('- ' * 50_000, 'nested too deeply'),
        ('!!python/object/apply:os.system [ls]', 'has the tag'),
        ('? [a]\n: 1', 'as a key'),
        ('a: [', 'it is no YAML'),
        ('a: \x1b[31m', 'it is no YAML'),
        ('a\n---\nb', 'it is no YAML'),
    ],
)
def test_yaml_beyond_plain_settings_is_refused(text, words):
    with pytest.raises(FileRefused, match='^[ -~]{1,400}$') as refused:
        parse_yaml(text)
    assert words in str(refused.value)


def test_yaml_of_settings_is_read():
    text = 'a: [1, -2.5, .inf, yes, null, "1:30"]\nb: {c: 2001-01-01, 7: 0x10}\nd: ""'
    values = [1, -2.5, float('inf'), True, None, '1:30']
    assert parse_yaml(text) == {'a': values, 'b': {'c': '2001-01-01', 7: 16}, 'd': ''}
    assert parse_yaml('') is None
