import math
from dataclasses import asdict, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadline_perception.core.decoding import decode
from deadline_perception.timing.quantiles import Quantiles


def test_quantiles_of_101_durations_are_hand_computable():
    times = Quantiles.from_samples([float(value) for value in range(101)])
    assert times.values_ms == (5.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 100.0)
    assert times.count == 101


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=30))
def test_any_sample_gives_valid_quantiles_that_survive_a_round_trip(durations):
    times = Quantiles.from_samples(durations)
    assert decode(asdict(times), Quantiles, 'times') == times
    assert times.max == pytest.approx(max(durations), abs=1e-4)


@pytest.mark.parametrize('durations', [[1.0, math.nan], [math.inf], [-1.0]])
def test_impossible_samples_are_refused(durations):
    with pytest.raises(ValueError, match='expected'):
        Quantiles.from_samples(durations)


@pytest.mark.parametrize('change', [{'p25': 9.0}, {'p05': -1.0}, {'max': math.nan}])
def test_impossible_values_are_refused(change):
    times = Quantiles.from_samples([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match='expected'):
        replace(times, **change)
