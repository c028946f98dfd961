from dataclasses import replace

import numpy as np
import pytest

from deadline_perception.extras.data.records import Frame, GroundTruth, Sequence


def frame(stamp_ns):
    return Frame(f'at {stamp_ns}', stamp_ns, lambda: np.zeros((2, 2, 3), np.uint8))


def test_names_hold_nothing_that_a_terminal_obeys_or_that_is_no_text():
    name = 'two  words\x1b[31m\n\udcff.jpg'
    harmless = 'two  words\\x1b[31m\\n\\udcff.jpg'
    one = replace(frame(0), name=name)
    assert one.name == replace(one, stamp_ns=1).name == harmless
    assert Sequence(name, ('a', 'b'), (one,)).name == harmless


@pytest.mark.parametrize(
    ('make', 'words'),
    [
        (lambda: GroundTruth([[1, 2, 3, 4]], [1, 2], [0]), '1 boxes with labels'),
        (lambda: GroundTruth([[1, 2, 3, 4]], [[1]], [0]), '1 boxes with labels'),
        (lambda: Sequence('s', (), ()), "'s' holds no frame"),
        (lambda: Sequence('s', (), (frame(5), frame(5))), 'is 5 ns, expected more than 5 ns'),
        (lambda: frame(-1), 'is -1 ns, expected at least 0'),
        (lambda: Sequence('s', (), (frame(0),), np.zeros((3, 4))), r'shape \(3, 4\)'),
    ],
)
def test_records_refuse_what_disagrees_and_what_is_not_in_order(make, words):
    with pytest.raises(ValueError, match=words):
        make()
