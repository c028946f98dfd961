from __future__ import annotations

import math
import random
from dataclasses import asdict, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadline_perception.latency.quantiles import Quantiles, bounded_share, samples_needed


def test_quantiles_of_101_durations_are_hand_computable():
    times = Quantiles.from_samples([float(value) for value in range(101)])
    assert times.values_ms == (5.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 100.0)
    assert times.count == 101


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=30))
def test_any_sample_gives_valid_quantiles_that_survive_a_round_trip(durations):
    times = Quantiles.from_samples(durations)
    assert Quantiles.from_record(asdict(times)) == times
    assert times.max == pytest.approx(max(durations), abs=1e-4)


@pytest.mark.parametrize('durations', [[], [1.0, math.nan], [math.inf], [-1.0]])
def test_impossible_samples_are_refused(durations):
    with pytest.raises(ValueError, match='expected'):
        Quantiles.from_samples(durations)


@pytest.mark.parametrize('change', [{'p25': 9.0}, {'count': -1}, {'p05': -1.0}, {'max': math.nan}, {'p50': '2'}])
def test_impossible_values_are_refused(change):
    times = Quantiles.from_samples([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match='expected'):
        replace(times, **change)


def test_a_record_with_other_names_is_refused():
    record = asdict(Quantiles.from_samples([1.0]))
    del record['p99']
    with pytest.raises(ValueError, match='expected the names'):
        Quantiles.from_record(record)


@pytest.mark.parametrize(('probability', 'confidence', 'needed'), [
    (0.99, 0.95, 299), (0.95, 0.95, 59), (0.9, 0.9, 22), (0.999, 0.95, 2995), (0.5, 0.5, 1), (0.5, 0.75, 2),
    (0.9, 0.01, 1)])
def test_number_of_samples_whose_largest_bounds_a_quantile_is_the_published_one(probability, confidence, needed):
    assert samples_needed(probability, confidence) == needed


def test_share_below_the_largest_sample_by_hand():
    assert bounded_share(1, 0.5) == pytest.approx(0.5)
    assert bounded_share(299) >= 0.99 > bounded_share(298)


@pytest.mark.parametrize('call', [lambda: samples_needed(0.0), lambda: samples_needed(math.nan),
                                  lambda: samples_needed(0.5, 1.0), lambda: bounded_share(0),
                                  lambda: bounded_share(5, 0.0)])
def test_impossible_counts_and_probabilities_are_refused(call):
    with pytest.raises(ValueError, match='expected'):
        call()


def test_the_mean_follows_from_the_quantiles():
    assert Quantiles.from_samples([4.0] * 9).mean_ms == pytest.approx(4.0)
    evenly = [place / 1000.0 for place in range(1, 1001)]
    assert Quantiles.from_samples(evenly).mean_ms == pytest.approx(0.5, rel=0.01)
    rng = random.Random(0)
    waits = [1.0 if rng.random() < 0.8 else 11.0 for _ in range(5000)]  # most see nothing of the others' time slices
    assert Quantiles.from_samples(waits).mean_ms == pytest.approx(3.0, rel=0.15)
