"""The sentences at the top of the report say what the figures say."""
from __future__ import annotations

import pytest

from deadline_perception.evaluation.headline import numbers, verdict

SPREAD = {'p50': 60.4, 'p95': 80.0, 'p99': 90.0, 'max': 99.0}
SUMMARY = {'frames_delivered': 300, 'frames_age_unknown': 0, 'frames_lost': 0, 'deadline_misses': 5,
           'deadline_miss_ratio': 5 / 300,
           'feasible_frames': 290, 'feasible_misses': 3, 'feasible_miss_ratio': 3 / 290, 'feasible_miss_upper_95': 0.027,
           'infeasible_ratio': 10 / 300, 'ap50': 0.56, 'distinct_paths': 11, 'path_switches': 40,
           'replanned_frames': 12, 'latency_ms': SPREAD, 'overhead_ms': SPREAD, 'decision_us': SPREAD}


@pytest.mark.parametrize(('changes', 'grade', 'words'), [
    ({}, 'good', '295 of 300 delivered frames came in time'),
    ({}, 'good', '1.0 % of 290 frames missed; on 10 no bound fitted, and 2 of those missed. No image was lost.'),
    ({'deadline_misses': 12, 'deadline_miss_ratio': 0.04}, 'fair', 'on 10 no bound fitted, and 9 of those missed'),
    ({'feasible_miss_ratio': 0.02}, 'bad', '2.0 % of 290 frames missed'),
    ({'frames_lost': 2}, 'bad', '2 images were lost'),
    ({'frames_lost': 1}, 'bad', '1 image was lost'),
    ({'frames_age_unknown': 5}, 'good', '295 delivered frames came in time.</b> 5 further ones had no valid stamp'),
    ({'frames_age_unknown': 10}, 'good', '1.0 % of 290 frames missed. No image'),
    ({'frames_age_unknown': 300, 'deadline_misses': 0}, 'bad', 'no deadline can be judged'),
    ({'feasible_miss_ratio': None}, 'bad', 'too short for even the cheapest path on every frame'),
])
def test_verdict_is_good_only_below_two_percent_and_without_loss(changes, grade, words):
    found, sentence = verdict(SUMMARY | changes)
    assert found == grade and words in sentence


def test_numbers_are_explained_and_missing_ones_shown_as_a_dash():
    values = {label: (value, plain) for label, value, plain in numbers(SUMMARY)}
    assert values['Missed although possible'][0] == '1.0 %'
    assert '3 of 290' in values['Missed although possible'][1] and '2.7 %' in values['Missed although possible'][1]
    assert values['Accuracy (AP50)'][0] == '56.0' and values['Latency'][0] == '60 ms'
    assert '8 of these 10 were in time all the same' in values['No promise possible'][1]
    unknown = {label: value for label, value, _ in numbers(SUMMARY | {'ap50': None, 'feasible_miss_ratio': None})}
    assert unknown['Accuracy (AP50)'] == unknown['Missed although possible'] == '–'
