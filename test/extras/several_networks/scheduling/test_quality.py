"""Total accuracy against enumeration, Monte Carlo and hand-computed cases."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadline_perception.extras.several_networks.scheduling.quality import (
    SLOWEST_MPS,
    AccuracyTable,
    Approach,
    DetectedInTime,
    QualityFileError,
    TotalAccuracy,
    majority_probability,
)

TABLE = AccuracyTable(('1/8', '1'), (8.0, 32.0), ((0.4, 0.7), (0.6, 0.95)))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.integers(1, 40)), min_size=1, max_size=6))
def test_majority_equals_the_sum_over_all_outcomes(trials):
    accuracies, weights = zip(*trials)
    expected = sum(
        np.prod([a if won else 1 - a for a, won in zip(accuracies, outcome)])
        for outcome in itertools.product((False, True), repeat=len(trials))
        if 2 * sum(w for w, won in zip(weights, outcome) if won) > sum(weights)
    )
    assert majority_probability(accuracies, weights) == pytest.approx(expected, abs=1e-12)


def test_hand_computed_qualities():
    approach = Approach(distance_m=10.0, size_px_m=40.0, largest_px=32)
    assert approach.widths_px(250.0, 10.0) == [4, 5, 8, 16, 32]  # from 10, 7.5, 5, 2.5 and 0 m
    assert approach.widths_px(2000.0, 10.0) == [4]
    assert approach.widths_px(250.0, 0.0) == approach.widths_px(250.0, SLOWEST_MPS)
    quality = TotalAccuracy(TABLE, Approach(distance_m=10.0, size_px_m=160.0, largest_px=32))
    # Looks from 10, 5 and 0 m: 16, 32 and 32 px, so the two near ones outweigh each other but for the far one.
    far, near = 0.4 + 0.3 / 3, 0.7
    expected = near * near + 2 * near * (1 - near) * far
    assert quality.quality(0, 500.0, 10.0) == pytest.approx(expected)
    quality = DetectedInTime((0.5, 0.8), distance_m=5.0, correlation=1e-7)
    assert quality.quality(0, 250.0, 10.0) == pytest.approx(1 - 0.5**2)
    # half of the phases have a third look
    assert quality.quality(0, 200.0, 10.0) == pytest.approx(1 - 0.5**2 * 0.75)
    assert quality.quality(0, 1000.0, 10.0) == pytest.approx(0.25)


def test_file_round_trip_and_what_is_wrong_with_others(tmp_path):
    file = tmp_path / 'accuracy.json'
    accuracy = [[0.4, 0.7], [0.6, 0.95]]
    facts = {'levels': ['1/8', '1'], 'sizes_px': [8, 32], 'accuracy': accuracy, 'images': 1234}
    file.write_text(json.dumps(facts))
    assert AccuracyTable.load(file) == TABLE
    for content, words in (
        ({}, "'levels' is missing"),
        ({'levels': ['a'], 'sizes_px': [8], 'accuracy': [[1.5]]}, 'in .0, 1.'),
        ({'levels': ['a'], 'sizes_px': [8, 4], 'accuracy': [[0.5, 0.5]]}, 'ascending'),
        ({'levels': ['a', 'b'], 'sizes_px': [8], 'accuracy': [[0.5]]}, '1 rows of accuracy'),
        ({'levels': ['a'], 'sizes_px': [8], 'accuracy': [['x']]}, 'could not convert'),
    ):
        file.write_text(json.dumps(content))
        with pytest.raises(QualityFileError, match=words):
            AccuracyTable.load(file)
