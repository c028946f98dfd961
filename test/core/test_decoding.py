"""What a file of another kind holds is refused by place, value and expectation; nothing is taken for something else."""

import math
from dataclasses import dataclass

import pytest

from deadline_perception.core.decoding import Count, Finite, decode
from deadline_perception.core.untrusted_file import FileRefused


@dataclass(frozen=True)
class Part:
    count: Count
    name: str = ''

    def __post_init__(self) -> None:
        if self.name == 'none':
            raise ValueError(f'name is {self.name}, expected another')


@dataclass(frozen=True)
class Whole:
    size: tuple[int, int]
    parts: tuple[Part, ...] = ()
    share: Finite = 0.0


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'size': [1, 2, 3]}, r'whole.size is \[1, 2, 3\], expected array of length 2, got 3'),
        ({'size': [1, True]}, r'whole.size\[1\] is True, expected int, got bool'),
        ({'size': None}, 'whole.size is None, expected array, got null'),
        ({'share': math.nan}, 'whole.share is nan, expected float'),
        ({'parts': [{'count': 1, 'x\n': 1}]}, r'whole.parts\[0\] has .*, expected count, name'),
        ({'parts': [{'count': 1, 'name': 'none'}]}, r'whole.parts\[0\]: name is none, expected'),
        ({'other': 1}, "whole has 'other', expected size, parts, share"),
        ({'size': 'x' * 10**6}, 'whole.size is .{,40}, expected array'),
    ],
)
def test_another_type_range_or_name_is_refused_by_place_and_value(change, message):
    with pytest.raises(FileRefused, match=f'^{message}'):
        decode({'size': [1, 2]} | change, Whole, 'whole')
