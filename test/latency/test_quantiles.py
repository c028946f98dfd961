from __future__ import annotations

import math
import random
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from deadline_perception.latency.quantiles import Quantiles, bounded_share, bounding_rank, samples_needed


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


@pytest.mark.parametrize('change', [{'p25': 9.0}, {'count': 0}, {'p05': -1.0}, {'max': math.nan}, {'p50': '2'}])
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


def test_ranks_by_hand():
    # Of 473 samples the second largest bounds the 99 % quantile with 95 % confidence, of 472 only the largest.
    assert [bounding_rank(count, 0.99) for count in (298, 299, 472, 473)] == [None, 299, 472, 472]
    # The larger of two coin tosses is below the median with a chance of 1 in 4, the smaller one with 3 in 4.
    assert [bounding_rank(2, 0.5, confidence) for confidence in (0.25, 0.75, 0.76)] == [1, 2, None]


@settings(max_examples=100, deadline=None)
@given(count=st.integers(1, 2000), probability=st.floats(0.01, 0.999), confidence=st.floats(0.01, 0.999))
def test_a_rank_exists_from_the_number_needed_on_and_is_the_lowest_that_will_do(count, probability, confidence):
    rank = bounding_rank(count, probability, confidence)
    chances = binom.cdf(np.arange(count), count, probability)  # that fewer samples than a rank lie below the quantile
    expected = next((index + 1 for index, chance in enumerate(chances) if chance >= confidence), None)
    if np.abs(chances - confidence).min() > 1e-9:
        assert rank == expected
        assert (rank is not None) == (count >= samples_needed(probability, confidence))


@pytest.mark.parametrize('draw', [np.random.default_rng(0).standard_normal, np.random.default_rng(1).exponential])
def test_the_confidence_holds_for_unlike_distributions(draw):
    quantile = np.quantile(draw(size=400_000), 0.95)
    rank = bounding_rank(120, 0.95, 0.9)
    holds = np.sort(draw(size=(4000, 120)))[:, rank - 1] >= quantile
    assert 0.9 - 0.02 < holds.mean() < 0.97


def test_share_below_the_largest_sample_by_hand():
    assert bounded_share(1, 0.5) == pytest.approx(0.5)
    assert bounded_share(299) >= 0.99 > bounded_share(298)


@pytest.mark.parametrize('call', [lambda: bounding_rank(0, 0.5), lambda: bounding_rank(5, 1.0),
                                  lambda: bounding_rank(5, 0.5, math.nan), lambda: samples_needed(0.0),
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
