"""Densities whose modes are known give those levels."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from levels import UnitDelay, grade_levels, match_units


def stretches(*levels_ms, frames: int = 300, noise: float = 0.03, seed: int = 0) -> np.ndarray:
    """Delays of one level after the other."""
    rng = np.random.default_rng(seed)
    parts = [rng.normal(level_ms, noise * level_ms, frames) for level_ms in levels_ms]
    return np.concatenate(parts)


@pytest.mark.parametrize(
    'levels_ms', [(40.0,), (40.0, 60.0, 90.0), (10.0, 11.5), (30.0, 45.0, 60.0, 80.0, 110.0, 150.0)]
)
def test_levels_are_where_the_delays_lie(levels_ms):
    found = grade_levels(stretches(*levels_ms))
    assert [level.delay_ms for level in found] == pytest.approx(levels_ms, rel=0.03)
    shares = [1.0 / len(levels_ms)] * len(levels_ms)
    assert [level.share for level in found] == pytest.approx(shares, abs=0.02)
    assert all(math.isnan(level.slowdown) and level.units is None for level in found)


def test_the_moving_average_tells_levels_apart_that_noise_hides():
    delays = stretches(10.0, 14.0, 19.6, frames=400, noise=0.15)
    found = [level.delay_ms for level in grade_levels(delays)]
    assert found == pytest.approx([10.0, 14.0, 19.6], rel=0.05)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), noise=st.floats(0.005, 0.3))
def test_one_level_is_a_result_whatever_the_noise(seed, noise):
    delays = 50.0 * np.random.default_rng(seed).lognormal(0.0, noise, 500)
    assert len(grade_levels(delays)) == 1


@pytest.mark.parametrize(('rare', 'levels'), [(20, 1), (50, 2)])
def test_rare_delays_are_no_level(rare, levels):
    often = stretches(40.0, frames=1000 - rare)
    seldom = stretches(80.0, frames=rare, seed=2)
    assert len(grade_levels(np.concatenate([often, seldom]))) == levels


def test_each_level_is_matched_with_the_units_of_the_nearest_delay_and_the_fewest_of_equal_ones():
    units = {}, {'core': 1}, {'core': 2}, {'memory': 3}, {'memory': 4}
    beside = list(map(UnitDelay, units, (40.0, 50.0, 62.0, 62.0, 95.0)))
    levels = match_units(grade_levels(stretches(40.0, 60.0, 90.0)), beside)
    assert [level.units for level in levels] == [{}, {'core': 2}, {'memory': 4}]
    assert [level.units_delay_ms for level in levels] == [40.0, 62.0, 95.0]
    assert [level.slowdown for level in levels] == pytest.approx([1.0, 1.5, 2.25], rel=0.03)
    without_idle = match_units(levels, beside[1:])
    assert math.isnan(without_idle[0].slowdown) and without_idle[0].units == {'core': 1}


def test_rungs_are_spread_and_end_with_the_most(load_benchmark):
    rungs = load_benchmark('contention_grading').rungs
    assert rungs(3) == [1, 2, 3] and rungs(8) == list(range(1, 9))
    assert rungs(40) == [5, 10, 15, 20, 25, 30, 35, 40]


def test_units_are_measured_from_none_on_until_they_are_enough(load_benchmark):
    measure_unit_delays = load_benchmark('contention_grading').measure_unit_delays
    delays = iter([10.0] * 23 + [20.0] * 23 + [40.0] * 1000)
    found = measure_unit_delays(lambda: next(delays), ['core'], 4, 1e-9, up_to_ms=30.0)
    expected = [({}, 10.0), ({'core': 1}, 20.0), ({'core': 2}, 40.0)]
    assert [(dict(delay.units), delay.delay_ms) for delay in found] == expected
