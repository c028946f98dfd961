"""Forecasts under contention: each level's own, interpolated between, and never below the idle device's."""
from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadline_perception.detector.declaration import multi_path_space
from deadline_perception.latency.device import DeviceFacts
from deadline_perception.latency.level_forecast import KNOT_RATIO, level_knots
from deadline_perception.latency.path_bound import PathForecast
from deadline_perception.latency.profile import LatencyProfile, LevelTimes
from deadline_perception.latency.quantiles import Quantiles

SPACE = multi_path_space(skips_per_stage=(1,), widths=(1.0, 0.5), pyramid_widths=(1.0,), proposals=(10,), heads=1)
WIDE, NARROW = SPACE.largest, SPACE.largest.replace(width=0.5)
FACTS = DeviceFacts(name='board', kind='cpu', cores=1, threads=1)


def constant(duration_ms: float) -> Quantiles:
    return Quantiles.from_samples([duration_ms] * 3)


def times(wide: float, narrow: float) -> tuple[dict[str, Quantiles], dict[str, Quantiles]]:
    """Every segment of the wide path takes so long, and every other one so long."""
    segments = {name: constant(wide if 'w1.00' in name or '@' not in name else narrow) for name in SPACE.carriers()}
    paths = {str(path): constant(sum(segments[name].p50 for name in SPACE.keys(path))) for path in SPACE}
    return segments, paths


def made_profile(*levels: tuple[float, float]) -> LatencyProfile:
    """Idle, every segment takes 2 ms; at each level those of the wide path, and the others, so many times as long."""
    segments, paths = times(2.0, 2.0)
    return LatencyProfile(
        facts=FACTS, config_name='made', network_hash='', input_size=(1, 1), image_size=(1, 1), date='',
        load_before=0.0, segments=segments, paths=paths, levels=tuple(
            LevelTimes({'core': number}, *times(2.0 * wide, 2.0 * narrow))
            for number, (wide, narrow) in enumerate(levels)))


def expected_ms(profile: LatencyProfile, slowdown: float, path, segment: int = 0) -> float:
    """As a frame is decided: the knot at or below the slowdown, times the slowdown."""
    knot = [knot for knot in level_knots(profile, SPACE) if knot.slowdown <= slowdown][-1]
    return knot.forecast.forecast_ms(path, segment) * slowdown


def test_without_levels_one_factor_serves_all():
    knot, = level_knots(made_profile(), SPACE)
    assert knot.slowdown == 1.0
    assert knot.forecast.forecast_ms(WIDE) == pytest.approx(PathForecast(made_profile(), SPACE).forecast_ms(WIDE))


def test_at_a_level_each_path_takes_what_it_took_there():
    profile = made_profile((3.0, 1.5))
    level = level_knots(profile, SPACE)[-1]
    idle = PathForecast(profile, SPACE)
    stretched = {path: expected_ms(profile, level.slowdown, path) / idle.forecast_ms(path) for path in (WIDE, NARROW)}
    measured = {path: profile.levels[0].paths[str(path)].p50 / profile.paths[str(path)].p50 for path in (WIDE, NARROW)}
    assert stretched == pytest.approx(measured, rel=0.02)
    assert stretched[WIDE] > level.slowdown > stretched[NARROW]


def test_between_levels_times_are_interpolated_and_beyond_the_last_they_grow_as_a_whole():
    profile = made_profile((2.0, 2.0), (4.0, 3.0))
    knots = level_knots(profile, SPACE)
    assert all(after.slowdown / before.slowdown <= KNOT_RATIO + 1e-9 for before, after in zip(knots, knots[1:]))
    at_two, top = expected_ms(profile, 2.0000001, WIDE), expected_ms(profile, knots[-1].slowdown, WIDE)
    middle = 0.5 * (2.0 + knots[-1].slowdown)
    assert expected_ms(profile, middle, WIDE) == pytest.approx(0.5 * (at_two + top), rel=0.03)
    assert expected_ms(profile, 2.0 * knots[-1].slowdown, WIDE) == pytest.approx(2.0 * top)


@settings(max_examples=60, deadline=None)
@given(levels=st.lists(st.tuples(st.floats(0.5, 8.0), st.floats(0.5, 8.0)), max_size=4), slowdown=st.floats(1.0, 10.0),
       segment=st.integers(0, len(SPACE.segments) - 1))
def test_no_path_takes_less_than_on_the_idle_device_nor_less_under_more_contention(levels, slowdown, segment):
    profile = made_profile(*levels)
    idle = PathForecast(profile, SPACE)
    for path in (WIDE, NARROW, SPACE.smallest):
        now_ms = expected_ms(profile, slowdown, path, segment)
        assert now_ms >= idle.forecast_ms(path, segment) * (1.0 - 1e-9)
        at_knots_ms = [knot.forecast.forecast_ms(path, segment) * knot.slowdown for knot in level_knots(profile, SPACE)]
        assert all(after >= before * (1.0 - 1e-9) for before, after in zip(at_knots_ms, at_knots_ms[1:]))
        # Just below a knot the whole has grown by a tenth at most, which the knot itself need not have.
        assert expected_ms(profile, slowdown * 1.2, path, segment) >= now_ms / KNOT_RATIO * (1.0 - 1e-9)


def test_a_level_no_slower_than_the_one_below_says_nothing_of_its_own():
    assert len(level_knots(made_profile((1.0, 1.0)), SPACE)) == 1
    one = level_knots(made_profile((1.3, 1.2)), SPACE)
    two = level_knots(made_profile((1.3, 1.2), (1.31, 1.2)), SPACE)
    assert [knot.slowdown for knot in one] == [knot.slowdown for knot in two]


def test_what_was_measured_under_a_level_without_whole_paths_is_used():
    profile = made_profile((3.0, 1.5))
    bare = replace(profile, levels=(replace(profile.levels[0], paths={}),))
    assert expected_ms(bare, 2.0, WIDE) > expected_ms(bare, 2.0, NARROW)
