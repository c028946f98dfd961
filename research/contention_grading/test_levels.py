"""Densities whose modes are known give those levels."""

import math

import numpy as np
import pytest
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


def test_each_level_is_matched_with_the_units_of_the_nearest_delay_and_the_fewest_of_equal_ones():
    units = {}, {'core': 1}, {'core': 2}, {'memory': 3}, {'memory': 4}
    beside = list(map(UnitDelay, units, (40.0, 50.0, 62.0, 62.0, 95.0)))
    levels = match_units(grade_levels(stretches(40.0, 60.0, 90.0)), beside)
    assert [level.units for level in levels] == [{}, {'core': 2}, {'memory': 4}]
    assert [level.units_delay_ms for level in levels] == [40.0, 62.0, 95.0]
    assert [level.slowdown for level in levels] == pytest.approx([1.0, 1.5, 2.25], rel=0.03)
    without_idle = match_units(levels, beside[1:])
    assert math.isnan(without_idle[0].slowdown) and without_idle[0].units == {'core': 1}
