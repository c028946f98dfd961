"""Texts and lists of the package's own messages are bounded, and nodes keep within these bounds."""

import re

import pytest
from deadline_perception.msg import TimeBudget

from deadline_perception.nodes.messages import MOST_TEXT_BYTES, bounded


def test_every_text_and_list_of_the_own_messages_is_bounded(repository):
    files = sorted((repository / 'msg').glob('*.msg'))
    assert len(files) == 9
    for file in files:
        for line in file.read_text().splitlines():
            kind = line.split('#')[0].split()[:1]
            if kind and (kind[0].startswith('string') or '[' in kind[0]):
                assert re.fullmatch(
                    r'string<=[1-9]\d{0,2}0(\[<=\d+\])?|[A-Z]\w+\[<=\d+\]', kind[0]
                ), f'{file.name}: {line}'


@pytest.mark.parametrize(
    'text', ['', 'short', 'a' * 2000, 'ä' * 999, '\ud800 half', 'a' + '€' * 400]
)
def test_own_texts_are_cut_where_a_character_ends(text):
    cut = bounded(text)
    assert len(cut.encode()) <= MOST_TEXT_BYTES
    assert text.startswith(cut) or '?' in cut
    assert TimeBudget(reason=cut).reason == cut
