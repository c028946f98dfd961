import math
from functools import partial

import pytest

from deadline_perception.runtime.loading import NetworkOptions
from deadline_perception.runtime.pipeline import FrameRules

OPTIONS = partial(NetworkOptions, 'street')


@pytest.mark.parametrize(
    'make, name, value, said',
    [
        (FrameRules, 'min_score', '0.5', r"min_score is '0.5', expected a number in \[0, 1\]"),
        (FrameRules, 'min_score', math.nan, 'min_score is nan, expected'),
        (FrameRules, 'late_policy', 'late', "late_policy is 'late', expected one of LatePolicy"),
        (OPTIONS, 'threads', 'x', "threads is 'x', expected a number of at least 1"),
        (OPTIONS, 'threads', 0, 'threads is 0, expected'),
        (OPTIONS, 'target_miss_probability', '0.01', 'target_miss_probability is .0.01., exp'),
        (OPTIONS, 'target_miss_probability', math.nan, r'expected a number in \(0, 1\)'),
    ],
)
def test_rules_and_options_are_numbers_in_their_range(make, name, value, said):
    with pytest.raises(ValueError, match=said):
        make(**{name: value})
