"""Predictors of delays, by hand."""

import random

import pytest
from prediction import AdaptiveRegression, LaggedRegression

IDLE_MS = {'small': 20.0, 'middle': 40.0, 'large': 80.0}


def test_the_papers_normalisation_and_regression_worked_out_by_hand():
    # Delays alternate between 10 and 14 ms: smallest 10, deviation 2, so that normalised they are 0 and 2.
    delays = {'one': [10.0, 14.0] * 20, 'two': [100.0, 130.0] * 20}
    predictor = LaggedRegression(delays, lags=1)
    assert predictor.predict_ms('one') == 10.0  # nothing seen: the smallest
    predictor.observe('one', 10.0)
    assert predictor.predict_ms('one') == pytest.approx(14.0)
    # from the normalised delay of another candidate
    assert predictor.predict_ms('two') == pytest.approx(130.0)
    predictor.observe('two', 115.0)  # normalised (115 - 100) / 15 = 1, half-way
    assert predictor.predict_ms('one') == pytest.approx(12.0)


def test_a_change_is_detected_and_what_was_followed_sinks_slowly():
    rng = random.Random(0)
    predictor = AdaptiveRegression(IDLE_MS)
    for slowdown in [1.0] * 200 + [2.0] * 100 + [1.0] * 3:
        predictor.observe('middle', 40.0 * slowdown * rng.lognormvariate(0.0, 0.02))
    assert predictor.changes >= 1
    assert predictor.predict_ms('middle') > 1.7 * 40.0
    for _ in range(150):
        predictor.observe('middle', 40.0 * rng.lognormvariate(0.0, 0.02))
    assert predictor.predict_ms('middle') == pytest.approx(40.0, rel=0.1)
