"""Values of the API that are no numbers, or lie outside their range, are refused in one line."""

import math

import pytest

from deadline_perception.runtime.loading import NetworkOptions
from deadline_perception.runtime.pipeline import FrameRules


@pytest.mark.parametrize(
    'name, value, said',
    [
        ('min_score', '0.5', r"min_score is '0.5', expected a number in \[0, 1\]"),
        ('min_score', None, 'min_score is None, expected'),
        ('min_score', math.nan, 'min_score is nan, expected'),
        ('max_coasted', '3', "max_coasted is '3', expected a number of at least 0"),
        ('max_coasted', 2.5, 'max_coasted is 2.5, expected'),
        ('max_coasted', -1, 'max_coasted is -1, expected'),
        ('late_policy', 'late', "late_policy is 'late', expected one of LatePolicy"),
    ],
)
def test_rules_of_frames_are_numbers_in_their_range(name, value, said):
    with pytest.raises(ValueError, match=said):
        FrameRules(**{name: value})


@pytest.mark.parametrize(
    'name, value, said',
    [
        ('threads', 'x', "threads is 'x', expected a number of at least 1"),
        ('threads', 0, 'threads is 0, expected'),
        ('target_miss_probability', '0.01', 'target_miss_probability is .0.01., expected'),
        ('target_miss_probability', math.nan, r'expected a number in \(0, 1\)'),
    ],
)
def test_options_of_a_network_are_numbers_in_their_range(name, value, said):
    with pytest.raises(ValueError, match=said):
        NetworkOptions('street', **{name: value})
