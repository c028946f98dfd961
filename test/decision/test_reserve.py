from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadline_perception.decision.reserve import Reserve


def test_keeps_back_the_floor_until_more_was_seen():
    reserve = Reserve(2.0)
    assert reserve.reserve_ms == 2.0
    reserve.observe(0.5)
    assert reserve.reserve_ms == 2.0
    reserve.observe(3.0)
    assert reserve.reserve_ms == 3.0


def test_one_long_pause_costs_no_more_than_the_ceiling_and_is_forgotten():
    reserve = Reserve(1.0, 5.0, window=3)
    reserve.observe(80.0)
    assert reserve.reserve_ms == 5.0
    for _ in range(3):
        reserve.observe(0.1)
    assert reserve.reserve_ms == 1.0


@given(st.lists(st.floats(0, 100), min_size=1, max_size=60), st.integers(1, 20), st.floats(0.5, 1.0))
def test_is_the_quantile_of_the_window(overheads_ms, window, quantile):
    reserve = Reserve(0.0, quantile=quantile, window=window)
    for overhead_ms in overheads_ms:
        reserve.observe(overhead_ms)
    kept = sorted(overheads_ms[-window:])
    assert reserve.reserve_ms in kept
    assert np.mean([overhead <= reserve.reserve_ms for overhead in kept]) >= quantile - 1e-9


@pytest.mark.parametrize('overhead_ms', [-0.1, math.nan, math.inf])
def test_refuses_an_overhead_that_is_no_time(overhead_ms):
    with pytest.raises(ValueError, match='expected a finite time'):
        Reserve(1.0).observe(overhead_ms)


@pytest.mark.parametrize('arguments', [{'floor_ms': -1.0}, {'floor_ms': 2.0, 'ceiling_ms': 1.0},
                                       {'floor_ms': 1.0, 'quantile': 0.0}, {'floor_ms': 1.0, 'window': 0}])
def test_refuses_impossible_limits(arguments):
    with pytest.raises(ValueError, match='expected'):
        Reserve(**arguments)
