from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.decision.frontier import FrontierPolicy, pareto_frontiers
from deadline_perception.decision.recourse import LEVELS
from deadline_perception.networks.multi_path.declaration import multi_path_space

SPACE = multi_path_space(skips_per_stage=(1, 1), widths=(1.0, 0.5), pyramid_widths=(1.0, 0.5), proposals=(10, 25, 100),
                  heads=2)
PATHS = list(SPACE)
SEGMENTS = len(SPACE.segments)
TIMES_MS = st.one_of(st.floats(-20.0, 200.0), st.just(math.inf), st.just(-math.inf), st.just(0.0))
FACTORS = st.floats(0.05, 20.0)


@pytest.fixture(scope='module')
def policies(make_forecast, make_quality):
    """Policies over random times and qualities: many ties, noise that breaks additivity, or neither."""
    made = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        segment_ms: dict[str, float] = {}

        def time_of(name: str) -> float:
            value = float(rng.integers(0, 4)) if seed % 2 else float(rng.uniform(0, 12))
            return segment_ms.setdefault(name, value)

        forecast = make_forecast(SPACE, time_of)
        if seed >= 4:
            noise = {(path, segment): rng.uniform(0.8, 1.2) for path in PATHS for segment in range(SEGMENTS)}
            exact_ms = forecast.forecast_ms
            forecast.forecast_ms = lambda path, segment=0, exact_ms=exact_ms, noise=noise: (
                exact_ms(path, segment) * noise[path, segment])
        quality = make_quality({path: float(rng.integers(0, 20)) / 20 if seed % 2 else float(rng.uniform())
                                for path in PATHS})
        made.append((FrontierPolicy(SPACE, forecast, quality, keep_epsilon=0.02), quality))
    return made


def remaining_of(policy: FrontierPolicy, path: ExecutionPath, segment: int) -> float:
    return float(policy._remaining_ms[segment, policy._index[path]])


def best_by_search(policy, quality, path, segment, remaining_ms, factor):
    """Every continuation looked at one by one: best quality that fits (None: nothing fits) and the smallest bound."""
    rows = [(remaining_of(policy, other, segment) * factor, quality.quality(other))
            for other in SPACE.continuations(path, segment)]
    fitting = [value for bound_ms, value in rows if bound_ms <= remaining_ms]
    return max(fitting, default=None), min(rows)[0]


def test_frontier_of_groups_computed_by_hand():
    groups = np.array([0, 0, 0, 1, 1, 0, 1])
    costs = np.array([3.0, 1.0, 2.0, 5.0, 5.0, 4.0, 1.0])
    qualities = np.array([0.5, 0.2, 0.2, 0.9, 0.4, 0.8, 0.9])
    members, begins = pareto_frontiers(groups, costs, qualities)
    assert members.tolist() == [1, 0, 5, 6]
    assert begins.tolist() == [0, 3, 4]


def test_paths_iterate_in_the_order_that_prefixes_are_numbered_by(policies):
    policy = policies[0][0]
    for segment in range(SEGMENTS):
        numbers = policy._prefix_numbers(segment)
        by_prefix = {}
        for path, number in zip(PATHS, numbers.tolist()):
            by_prefix.setdefault(SPACE.prefix(path, segment), set()).add(number)
        assert all(len(found) == 1 for found in by_prefix.values())
        assert sorted(min(found) for found in by_prefix.values()) == list(range(len(by_prefix)))


@settings(max_examples=150, deadline=None)
@given(which=st.integers(0, 5), remaining_ms=TIMES_MS, factor=FACTORS)
def test_plan_is_what_an_exhaustive_search_finds(policies, which, remaining_ms, factor):
    policy, quality = policies[which]
    choice = policy.plan(remaining_ms, factor)
    best, cheapest_bound_ms = best_by_search(policy, quality, PATHS[0], 0, remaining_ms, factor)
    assert choice.feasible == (best is not None)
    if choice.feasible:
        assert choice.quality == best
        assert choice.bound_ms <= remaining_ms
    else:
        assert choice.bound_ms == cheapest_bound_ms
    assert choice.bound_ms == choice.forecast_ms * factor
    assert choice.forecast_ms == remaining_of(policy, choice.path, 0)
    assert choice.quality == quality.quality(choice.path)


@settings(max_examples=200, deadline=None)
@given(which=st.integers(0, 5), index=st.integers(0, len(PATHS) - 1), segment=st.integers(0, SEGMENTS - 1),
       remaining_ms=TIMES_MS, factor=FACTORS)
def test_redecision_agrees_with_the_prefix_and_is_nearly_the_best(policies, which, index, segment, remaining_ms,
                                                                  factor):
    policy, quality = policies[which]
    path = PATHS[index]
    choice = policy.redecide(path, segment, remaining_ms, factor)
    best, cheapest_bound_ms = best_by_search(policy, quality, path, segment, remaining_ms, factor)
    assert SPACE.prefix(choice.path, segment) == SPACE.prefix(path, segment)
    assert choice.feasible == (best is not None)
    if choice.feasible:
        assert choice.bound_ms <= remaining_ms
        assert choice.quality == best or (choice.path == path and best - choice.quality <= 0.02)
    else:
        assert choice.bound_ms == cheapest_bound_ms


@settings(max_examples=200, deadline=None)
@given(which=st.integers(0, 5), index=st.integers(0, len(PATHS) - 1), segment=st.integers(0, SEGMENTS - 1),
       times_ms=st.tuples(TIMES_MS, TIMES_MS), factor=FACTORS)
def test_more_time_never_gives_lower_quality(policies, which, index, segment, times_ms, factor):
    policy = policies[which][0]
    less_ms, more_ms = sorted(times_ms)
    for decide in (policy.plan, lambda *left: policy.redecide(PATHS[index], segment, *left)):
        with_less, with_more = decide(less_ms, factor), decide(more_ms, factor)
        assert with_more.feasible >= with_less.feasible
        assert with_more.quality >= with_less.quality


@settings(max_examples=200, deadline=None)
@given(which=st.integers(0, 5), index=st.integers(0, len(PATHS) - 1), segment=st.integers(0, SEGMENTS - 1),
       remaining_ms=TIMES_MS, factors=st.tuples(FACTORS, FACTORS))
def test_a_larger_factor_never_gives_a_costlier_path(policies, which, index, segment, remaining_ms, factors):
    policy = policies[which][0]
    small, large = sorted(factors)
    for decide in (lambda factor: policy.plan(remaining_ms, factor),
                   lambda factor: policy.redecide(PATHS[index], segment, remaining_ms, factor)):
        assert decide(large).forecast_ms <= decide(small).forecast_ms


@settings(max_examples=100, deadline=None)
@given(which=st.integers(0, 5), index=st.integers(0, len(PATHS) - 1))
def test_what_remains_never_takes_longer_than_the_whole(policies, which, index):
    policy = policies[which][0]
    left_ms = [remaining_of(policy, PATHS[index], segment) for segment in range(SEGMENTS)]
    assert left_ms == sorted(left_ms, reverse=True)


def test_bound_that_equals_the_time_left_fits(policies):
    policy = policies[0][0]
    for factor in (1.0, 1.1, 1.7, 3.0):
        for path, forecast_ms, quality in policy.frontier(PATHS[0], 0):
            choice = policy.plan(forecast_ms * factor, factor)
            assert (choice.path, choice.quality, choice.feasible) == (path, quality, True)


def test_keeps_the_plan_unless_another_path_gains_enough(make_forecast, make_quality):
    forecast = make_forecast(SPACE, lambda name: 1.0 + 9.0 * name.startswith('head@h1'))
    small = SPACE.parse('s00-w1.00-p100-h0')
    large = SPACE.parse('s00-w1.00-p100-h1')
    head = next(i for i, segment in enumerate(SPACE.segments) if segment.operator == 'head')
    for gain, expected in ((0.003, small), (0.02, large)):
        quality = make_quality({path: 0.3 + gain * (path == large) for path in SPACE})
        policy = FrontierPolicy(SPACE, forecast, quality, keep_epsilon=0.005)
        assert policy.redecide(small, head, 50.0, 1.0).path == expected
        assert policy.redecide(large, head, 50.0, 1.0).path == large
        assert policy.redecide(large, head, 5.0, 1.0).path == small


def test_a_plan_that_another_path_beats_outright_is_not_kept(make_forecast, make_quality):
    forecast = make_forecast(SPACE, lambda name: 1.0 + 9.0 * name.startswith('head@h1'))
    quality = make_quality({path: 0.3 - 0.001 * int(path['head']) for path in SPACE})
    policy = FrontierPolicy(SPACE, forecast, quality, keep_epsilon=0.005)
    beaten = SPACE.parse('s00-w1.00-p100-h1')
    assert policy.redecide(beaten, 0, 100.0, 1.0).path['head'] == '0'


def test_negative_time_gives_the_cheapest_and_infinite_time_the_best(policies):
    policy, quality = policies[0]
    late = policy.plan(-3.0, 1.0)
    assert not late.feasible
    assert late.forecast_ms == min(remaining_of(policy, path, 0) for path in PATHS)
    assert policy.plan(-math.inf, 1.0) == late
    assert policy.plan(math.inf, 1.0).quality == max(quality.values.values())


def test_refuses_what_cannot_be_decided_on(policies, foreign_path):
    policy = policies[0][0]
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


def test_refuses_impossible_forecasts_qualities_and_settings(make_forecast, make_quality):
    good_forecast, good_quality = make_forecast(SPACE, lambda name: 1.0), make_quality(dict.fromkeys(PATHS, 0.5))
    for wrong_ms in (math.nan, -1.0, math.inf):
        with pytest.raises(ValueError, match='forecast of path .* ms, expected'):
            FrontierPolicy(SPACE, make_forecast(SPACE, lambda name: wrong_ms), good_quality)
    for wrong in (math.nan, -0.1, 1.1):
        with pytest.raises(ValueError, match=f'quality of path {PATHS[7]} is'):
            FrontierPolicy(SPACE, good_forecast, make_quality({**dict.fromkeys(PATHS, 0.5), PATHS[7]: wrong}))
    with pytest.raises(ValueError, match='keep_epsilon is nan'):
        FrontierPolicy(SPACE, good_forecast, good_quality, keep_epsilon=math.nan)


def test_frontiers_built_ahead_decide_as_those_built_when_needed(make_forecast, make_quality):
    rng = np.random.default_rng(5)
    times_ms = {}
    forecast = make_forecast(SPACE, lambda name: times_ms.setdefault(name, float(rng.uniform(0, 9))))
    quality = make_quality({path: float(rng.uniform()) for path in PATHS})
    ahead, lazy = FrontierPolicy(SPACE, forecast, quality), FrontierPolicy(SPACE, forecast, quality)
    ahead.prepare()
    for path in PATHS[::7]:
        for segment in range(SEGMENTS):
            assert ahead.redecide(path, segment, 25.0, 1.0) == lazy.redecide(path, segment, 25.0, 1.0)


def test_every_frontier_ascends_in_time_and_quality(policies):
    for policy, _ in policies:
        for path in PATHS[::5]:
            for segment in range(SEGMENTS):
                _, times_ms, qualities = zip(*policy.frontier(path, segment))
                assert list(times_ms) == sorted(set(times_ms))
                assert list(qualities) == sorted(set(qualities))


def test_whatever_time_a_frame_has_it_starts_where_it_is_said_to(make_forecast, make_quality):
    policy = FrontierPolicy(SPACE, make_forecast(SPACE, lambda key: 1.0 + len(key) % 5), make_quality(
        {path: (1 + number) / len(SPACE) for number, path in enumerate(SPACE)}))
    planned = {path for level in LEVELS for path, _, _ in policy.starts(level)}
    assert 1 < len(planned) < len(SPACE)
    assert policy.starts() == policy.frontier(SPACE.largest, 0)
    rng = random.Random(0)
    for _ in range(500):
        budget_ms, likely = rng.choice((0.0, math.inf, rng.uniform(0.0, 30.0))), rng.uniform(0.5, 1.0)
        assert policy.plan(budget_ms, 1.0, likely).path in planned


def test_only_paths_that_are_kept_ready_are_chosen(make_forecast, make_quality):
    forecast = make_forecast(SPACE, lambda key: 1.0 + len(key) % 5)
    quality = make_quality({path: (1 + number) / len(SPACE) for number, path in enumerate(SPACE)})
    kept = random.Random(3).sample(list(SPACE), 5)
    policy = FrontierPolicy(SPACE, forecast, quality, paths=kept)
    policy.prepare()
    for budget_ms in (0.0, 10.0, 20.0, 30.0, math.inf):
        choice = policy.plan(budget_ms, 1.0)
        assert choice.path in kept
        for segment in range(1, len(SPACE.segments)):
            further = policy.redecide(choice.path, segment, budget_ms / 2, 1.0).path
            assert further in kept and SPACE.prefix(further, segment) == SPACE.prefix(choice.path, segment)
    other = next(path for path in SPACE if path not in kept)
    with pytest.raises(ValueError, match='is none of the 5 that are kept ready'):
        policy.redecide(other, 0, 10.0, 1.0)
    with pytest.raises(ValueError, match='no path is kept ready'):
        FrontierPolicy(SPACE, forecast, quality, paths=[])
