"""Predictors of delays, by hand."""

import pytest
from prediction import LaggedRegression


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
