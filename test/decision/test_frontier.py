import math
import random
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from continuations import continuations
from hypothesis import given, settings
from hypothesis import strategies as st
from path_spaces import SPACE

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.timing.path_bound import SegmentForecast

PATHS = list(SPACE)
SEGMENTS = len(SPACE.segments)
TIMES_MS = st.one_of(st.floats(-20.0, 200.0), st.just(math.inf), st.just(-math.inf), st.just(0.0))
FACTORS = st.floats(0.05, 20.0)


class Case(NamedTuple):
    """A policy with the times and qualities that it decides by."""

    policy: FrontierPolicy
    forecast: SegmentForecast
    quality: Callable[[ExecutionPath], float]


@pytest.fixture(scope='module')
def cases(make_forecast, make_quality):
    """Times and qualities drawn at random: many ties in every other; noise that breaks additivity in the last two."""
    made = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        keys = sorted(SPACE.carriers())
        times_ms = rng.integers(0, 4, len(keys)) if seed % 2 else rng.uniform(0.0, 12.0, len(keys))
        forecast = make_forecast(SPACE, dict(zip(keys, times_ms.tolist())).__getitem__)
        if seed >= 4:
            noise = rng.uniform(0.8, 1.2, (len(PATHS), SEGMENTS))
            exact_ms = forecast.forecast_ms
            forecast.forecast_ms = lambda path, segment=0, exact_ms=exact_ms, noise=noise: (
                exact_ms(path, segment) * noise[PATHS.index(path), segment]
            )
        drawn = rng.integers(0, 20, len(PATHS)) / 20 if seed % 2 else rng.uniform(size=len(PATHS))
        quality = make_quality(dict(zip(PATHS, drawn.tolist())))
        policy = FrontierPolicy(SPACE, forecast, quality, keep_epsilon=0.02)
        made.append(Case(policy, forecast, quality.quality))
    return made


@pytest.fixture
def policy(cases):
    return cases[0].policy


def remaining_of(policy, path, segment):
    return float(policy._remaining_ms[segment, policy._index[path]])


def best_by_search(policy, quality, path, segment, remaining_ms, factor):
    """Every continuation looked at one by one: best quality that fits (None: nothing fits) and the smallest bound."""
    others = continuations(SPACE, path, segment)
    rows = [(remaining_of(policy, one, segment) * factor, quality(one)) for one in others]
    fitting = [value for bound_ms, value in rows if bound_ms <= remaining_ms]
    return max(fitting, default=None), min(rows)[0]


@settings(max_examples=200, deadline=None)
@given(
    which=st.integers(0, 5),
    index=st.integers(0, len(PATHS) - 1),
    segment=st.integers(0, SEGMENTS - 1),
    remaining_ms=TIMES_MS,
    factor=FACTORS,
)
def test_redecision_is_nearly_the_best(cases, which, index, segment, remaining_ms, factor):
    policy, _, quality = cases[which]
    path = PATHS[index]
    choice = policy.redecide(path, segment, remaining_ms, factor)
    best, cheapest_bound_ms = best_by_search(policy, quality, path, segment, remaining_ms, factor)
    assert SPACE.prefix(choice.path, segment) == SPACE.prefix(path, segment)
    assert choice.feasible == (best is not None)
    assert choice.quality == quality(choice.path)
    assert choice.forecast_ms == remaining_of(policy, choice.path, segment)
    assert choice.bound_ms == choice.forecast_ms * factor
    if choice.feasible:
        assert choice.bound_ms <= remaining_ms
        assert choice.quality == best or (choice.path == path and best - choice.quality <= 0.02)
    else:
        assert choice.bound_ms == cheapest_bound_ms


def test_a_bound_fits_that_equals_the_time_left_and_none_that_exceeds_it_by_a_rounding(policy):
    for factor in np.linspace(1.0, 3.0, 100):
        for path, forecast_ms, quality in policy.starts():
            choice = policy.plan(forecast_ms * factor, factor)
            assert (choice.path, choice.quality, choice.feasible) == (path, quality, True)
            assert choice.forecast_ms == remaining_of(policy, path, 0)
            left_ms = math.nextafter(forecast_ms * factor, 0.0)
            choice = policy.plan(left_ms, factor)
            assert choice.path != path or not choice.feasible
            assert choice.bound_ms <= left_ms or not choice.feasible


def test_keeps_the_plan_unless_another_path_gains_enough_or_beats_it_outright(
    make_forecast, make_quality
):
    forecast = make_forecast(SPACE, lambda name: 1.0 + 9.0 * name.startswith('head@h1'))
    small = SPACE.parse('s00-w1.00-p100-h0')
    large = SPACE.parse('s00-w1.00-p100-h1')
    head = next(i for i, segment in enumerate(SPACE.segments) if segment.operator == 'head')
    for gain, expected in ((0.0, small), (0.003, small), (0.02, large)):
        quality = make_quality({path: 0.3 + gain * (path == large) for path in SPACE})
        policy = FrontierPolicy(SPACE, forecast, quality, keep_epsilon=0.005)
        assert policy.redecide(small, head, 50.0, 1.0).path == expected
        kept = policy.redecide(large, head, 50.0, 1.0)
        assert kept.path == policy.redecide(large, head, kept.bound_ms, 1.0).path == large
        assert policy.redecide(large, head, 5.0, 1.0).path == small
    worse = make_quality({path: 0.3 - 0.001 * int(path['head']) for path in SPACE})
    policy = FrontierPolicy(SPACE, forecast, worse, keep_epsilon=0.005)
    assert policy.redecide(large, 0, 100.0, 1.0).path['head'] == '0'


def test_refuses_what_cannot_be_decided_on_and_impossible_forecasts_and_qualities(
    policy, foreign_path, make_forecast, make_quality
):
    with pytest.raises(ValueError, match='remaining time is NaN ms'):
        policy.plan(math.nan, 1.0)
    for factor in (0.0, -1.0, math.nan, math.inf, 1_000_001.0):
        with pytest.raises(ValueError, match='factor is'):
            policy.plan(10.0, factor)
    with pytest.raises(ValueError, match='not one of the network'):
        policy.redecide(foreign_path, 0, 10.0, 1.0)
    for segment in (-1, SEGMENTS):
        with pytest.raises(ValueError, match=f'segment is {segment}'):
            policy.redecide(PATHS[0], segment, 10.0, 1.0)
    for wrong_ms in (math.nan, -1.0, math.inf):
        forecast = make_forecast(SPACE, lambda name: wrong_ms)
        with pytest.raises(ValueError, match='forecast of path .* ms, expected'):
            FrontierPolicy(SPACE, forecast, make_quality(dict.fromkeys(PATHS, 0.5)))
    for wrong in (math.nan, -0.1, 1.1):
        quality = make_quality({**dict.fromkeys(PATHS, 1.0), PATHS[7]: wrong})
        with pytest.raises(ValueError, match=f'quality of path {PATHS[7]} is'):
            FrontierPolicy(SPACE, make_forecast(SPACE, lambda name: 1.0), quality)


def test_only_paths_that_are_kept_ready_are_chosen(make_forecast, make_quality):
    kept = random.Random(3).sample(PATHS, 5)
    quality = make_quality({path: (1 + number) / len(SPACE) for number, path in enumerate(SPACE)})
    forecast = make_forecast(SPACE, lambda key: 1.0 + len(key) % 5)
    policy = FrontierPolicy(SPACE, forecast, quality, paths=kept)
    policy.prepare()
    for budget_ms in (0.0, 10.0, 20.0, 30.0, math.inf):
        choice = policy.plan(budget_ms, 1.0)
        assert choice.path in kept
        for segment in range(1, len(SPACE.segments)):
            further = policy.redecide(choice.path, segment, budget_ms / 2, 1.0).path
            assert further in kept
            assert SPACE.prefix(further, segment) == SPACE.prefix(choice.path, segment)
    other = next(path for path in PATHS if path not in kept)
    with pytest.raises(ValueError, match='is none of the 5 that are kept ready'):
        policy.redecide(other, 0, 10.0, 1.0)


@settings(max_examples=100, deadline=None)
@given(
    which=st.integers(0, 3),
    share=st.floats(1.0, 4.0),
    factor=st.floats(1.0, 3.0),
    paces=st.lists(st.floats(0.0, 1.0), min_size=SEGMENTS, max_size=SEGMENTS),
)
def test_segments_within_their_bounds_are_in_time(cases, which, share, factor, paces):
    policy, forecast, _ = cases[which]
    assert policy.keeps_bounds
    left_ms = share * min(map(forecast.forecast_ms, PATHS)) * factor * (1.0 + 1e-9)
    choice = policy.plan(left_ms, factor)
    assert choice.feasible
    for at in range(SEGMENTS):
        if SPACE.segments[at].operator is not None and SPACE.applies(at, choice.path):
            choice = policy.redecide(choice.path, at, left_ms + 1e-9, factor)
            assert choice.feasible
        left_ms -= forecast.segment_ms(at, choice.path) * factor * paces[at]
    assert left_ms >= -1e-6
