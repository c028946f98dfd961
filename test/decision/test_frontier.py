import math
import random
from functools import cache, partial
from types import SimpleNamespace

import numpy as np
import pytest
from continuations import continuations
from hypothesis import given, settings
from hypothesis import strategies as st
from path_spaces import SPACE

from deadline_perception.decision.frontier import LEVELS, FrontierPolicy, pareto_frontiers

PATHS = list(SPACE)
SEGMENTS = len(SPACE.segments)
TIMES_MS = st.one_of(st.floats(-20.0, 200.0), st.just(math.inf), st.just(-math.inf), st.just(0.0))
FACTORS, USUAL_FACTORS = st.floats(0.05, 20.0), st.floats(0.5, 4.0)


@pytest.fixture(scope='module')
def policies(make_forecast, make_quality):
    """Policies over random times and qualities: many ties, noise that breaks additivity, or neither."""
    made = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        segment_ms = {}

        def time_of(name):
            value = float(rng.integers(0, 4)) if seed % 2 else float(rng.uniform(0, 12))
            return segment_ms.setdefault(name, value)

        forecast = make_forecast(SPACE, time_of)
        if seed >= 4:
            noise = {
                (path, segment): rng.uniform(0.8, 1.2)
                for path in PATHS
                for segment in range(SEGMENTS)
            }
            exact_ms = forecast.forecast_ms
            forecast.forecast_ms = lambda path, segment=0, exact_ms=exact_ms, noise=noise: (
                exact_ms(path, segment) * noise[path, segment]
            )
        quality = make_quality(
            {
                path: float(rng.integers(0, 20)) / 20 if seed % 2 else float(rng.uniform())
                for path in PATHS
            }
        )
        made.append((FrontierPolicy(SPACE, forecast, quality, keep_epsilon=0.02), quality))
    return made


def remaining_of(policy, path, segment):
    return float(policy._remaining_ms[segment, policy._index[path]])


def best_by_search(policy, quality, path, segment, remaining_ms, factor):
    """Every continuation looked at one by one: best quality that fits (None: nothing fits) and the smallest bound."""
    rows = [
        (remaining_of(policy, other, segment) * factor, quality.quality(other))
        for other in continuations(SPACE, path, segment)
    ]
    fitting = [value for bound_ms, value in rows if bound_ms <= remaining_ms]
    return max(fitting, default=None), min(rows)[0]


def test_frontier_of_groups_computed_by_hand():
    groups = np.array([0, 0, 0, 1, 1, 0, 1])
    costs = np.array([3.0, 1.0, 2.0, 5.0, 5.0, 4.0, 1.0])
    qualities = np.array([0.5, 0.2, 0.2, 0.9, 0.4, 0.8, 0.9])
    members, begins = pareto_frontiers(groups, costs, qualities)
    assert members.tolist() == [1, 0, 5, 6]
    assert begins.tolist() == [0, 3, 4]


@settings(max_examples=200, deadline=None)
@given(
    which=st.integers(0, 5),
    index=st.integers(0, len(PATHS) - 1),
    segment=st.integers(0, SEGMENTS - 1),
    remaining_ms=TIMES_MS,
    factor=FACTORS,
)
def test_redecision_is_nearly_the_best(policies, which, index, segment, remaining_ms, factor):
    policy, quality = policies[which]
    path = PATHS[index]
    choice = policy.redecide(path, segment, remaining_ms, factor)
    best, cheapest_bound_ms = best_by_search(policy, quality, path, segment, remaining_ms, factor)
    assert SPACE.prefix(choice.path, segment) == SPACE.prefix(path, segment)
    assert choice.feasible == (best is not None)
    assert choice.quality == quality.quality(choice.path)
    assert choice.forecast_ms == remaining_of(policy, choice.path, segment)
    assert choice.bound_ms == choice.forecast_ms * factor
    if choice.feasible:
        assert choice.bound_ms <= remaining_ms
        assert choice.quality == best or (choice.path == path and best - choice.quality <= 0.02)
    else:
        assert choice.bound_ms == cheapest_bound_ms


@settings(max_examples=200, deadline=None)
@given(
    which=st.integers(0, 5),
    index=st.integers(0, len(PATHS) - 1),
    segment=st.integers(0, SEGMENTS - 1),
    times_ms=st.tuples(TIMES_MS, TIMES_MS),
    factor=FACTORS,
)
def test_more_time_never_gives_lower_quality(policies, which, index, segment, times_ms, factor):
    policy = policies[which][0]
    less_ms, more_ms = sorted(times_ms)
    for decide in (policy.plan, lambda *left: policy.redecide(PATHS[index], segment, *left)):
        with_less, with_more = decide(less_ms, factor), decide(more_ms, factor)
        assert with_more.feasible >= with_less.feasible
        assert with_more.quality >= with_less.quality


@settings(max_examples=100, deadline=None)
@given(which=st.integers(0, 5), index=st.integers(0, len(PATHS) - 1))
def test_what_remains_never_takes_longer_than_the_whole(policies, which, index):
    policy = policies[which][0]
    left_ms = [remaining_of(policy, PATHS[index], segment) for segment in range(SEGMENTS)]
    assert left_ms == sorted(left_ms, reverse=True)


def test_bound_that_equals_the_time_left_fits(policies):
    policy = policies[0][0]
    for factor in (1.0, 1.1, 1.7, 3.0):
        for path, forecast_ms, quality in policy.starts():
            choice = policy.plan(forecast_ms * factor, factor)
            assert (choice.path, choice.quality, choice.feasible) == (path, quality, True)
            assert choice.forecast_ms == remaining_of(policy, path, 0)


def test_what_a_bound_exceeds_by_a_rounding_is_infeasible(policies):
    policy = policies[0][0]
    for factor in np.linspace(1.0, 3.0, 100):
        for path, forecast_ms, _ in policy.starts():
            left_ms = math.nextafter(forecast_ms * factor, 0.0)
            choice = policy.plan(left_ms, factor)
            assert choice.path != path or not choice.feasible
            assert choice.bound_ms <= left_ms or not choice.feasible


def test_keeps_the_plan_unless_another_path_gains_enough(make_forecast, make_quality):
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


def test_a_plan_that_another_path_beats_outright_is_not_kept(make_forecast, make_quality):
    forecast = make_forecast(SPACE, lambda name: 1.0 + 9.0 * name.startswith('head@h1'))
    quality = make_quality({path: 0.3 - 0.001 * int(path['head']) for path in SPACE})
    policy = FrontierPolicy(SPACE, forecast, quality, keep_epsilon=0.005)
    beaten = SPACE.parse('s00-w1.00-p100-h1')
    assert policy.redecide(beaten, 0, 100.0, 1.0).path['head'] == '0'


def test_refuses_what_cannot_be_decided_on(policies, foreign_path):
    policy = policies[0][0]
    with pytest.raises(ValueError, match='remaining time is NaN ms'):
        policy.plan(math.nan, 1.0)
    for factor in (0.0, -1.0, math.nan, math.inf, 1_000_001.0):
        with pytest.raises(ValueError, match='factor is'):
            policy.plan(10.0, factor)
    message = r'p90_share is .*, expected a share of a bound in \(0, 1\]'
    for share in (0.0, -0.5, 1.5, math.nan):
        for decide in (policy.plan, partial(policy.redecide, PATHS[0], 1)):
            with pytest.raises(ValueError, match=message):
                decide(50.0, 1.0, p90_share=share)
    with pytest.raises(ValueError, match='not one of the network'):
        policy.redecide(foreign_path, 0, 10.0, 1.0)
    for segment in (-1, SEGMENTS):
        with pytest.raises(ValueError, match=f'segment is {segment}'):
            policy.redecide(PATHS[0], segment, 10.0, 1.0)


def test_refuses_impossible_forecasts_and_qualities(make_forecast, make_quality):
    for wrong_ms in (math.nan, -1.0, math.inf):
        forecast = make_forecast(SPACE, lambda name: wrong_ms)
        with pytest.raises(ValueError, match='forecast of path .* ms, expected'):
            FrontierPolicy(SPACE, forecast, make_quality(dict.fromkeys(PATHS, 0.5)))
    for wrong in (math.nan, -0.1, 1.1):
        quality = make_quality({**dict.fromkeys(PATHS, 1.0), PATHS[7]: wrong})
        with pytest.raises(ValueError, match=f'quality of path {PATHS[7]} is'):
            FrontierPolicy(SPACE, make_forecast(SPACE, lambda name: 1.0), quality)


@pytest.fixture
def longer_is_better(make_forecast, make_quality):
    """Forecast and qualities that rise with the number of the path."""
    quality = make_quality({path: (1 + number) / len(SPACE) for number, path in enumerate(SPACE)})
    return make_forecast(SPACE, lambda key: 1.0 + len(key) % 5), quality


def test_frontiers_built_ahead_decide_as_those_built_when_needed(longer_is_better):
    ahead, lazy = (FrontierPolicy(SPACE, *longer_is_better) for _ in range(2))
    ahead.prepare()
    for path in PATHS[::7]:
        for segment in range(SEGMENTS):
            of_both = [policy.redecide(path, segment, 15.0, 1.0) for policy in (ahead, lazy)]
            assert of_both[0] == of_both[1]


def test_whatever_time_a_frame_has_it_starts_where_it_is_said_to(longer_is_better):
    policy, rng = FrontierPolicy(SPACE, *longer_is_better), random.Random(0)
    planned = {path for level in LEVELS for path, _, _ in policy.starts(level)}
    assert 1 < len(planned) < len(SPACE)
    for _ in range(500):
        budget_ms = rng.choice((0.0, math.inf, rng.uniform(0.0, 30.0)))
        assert policy.plan(budget_ms, 1.0, rng.uniform(0.5, 1.0)).path in planned


def test_only_paths_that_are_kept_ready_are_chosen(longer_is_better):
    kept = random.Random(3).sample(list(SPACE), 5)
    policy = FrontierPolicy(SPACE, *longer_is_better, paths=kept)
    policy.prepare()
    for budget_ms in (0.0, 10.0, 20.0, 30.0, math.inf):
        choice = policy.plan(budget_ms, 1.0)
        assert choice.path in kept
        for segment in range(1, len(SPACE.segments)):
            further = policy.redecide(choice.path, segment, budget_ms / 2, 1.0).path
            assert further in kept
            assert SPACE.prefix(further, segment) == SPACE.prefix(choice.path, segment)
    other = next(path for path in SPACE if path not in kept)
    with pytest.raises(ValueError, match='is none of the 5 that are kept ready'):
        policy.redecide(other, 0, 10.0, 1.0)


# --- plans with a way back ---


@pytest.fixture(scope='module')
def cases(make_forecast, make_quality):
    """Policies over times and qualities drawn at random, of which every other has many ties; with both."""
    made = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        keys = sorted({key for path in PATHS for key in SPACE.keys(path)})
        times_ms = rng.integers(0, 4, len(keys)) if seed % 2 else rng.uniform(0.1, 12, len(keys))
        forecast = make_forecast(SPACE, dict(zip(keys, times_ms.tolist())).__getitem__)
        quality = make_quality(
            {
                path: float(rng.integers(0, 20)) / 20 if seed % 2 else float(rng.uniform())
                for path in PATHS
            }
        )
        forecast_ms = cache(forecast.forecast_ms)
        made.append(
            SimpleNamespace(
                policy=FrontierPolicy(SPACE, forecast, quality, keep_epsilon=0.0),
                forecast_ms=forecast_ms,
                shortest_ms=cache(partial(shortest_ms, forecast_ms)),
                quality=quality.quality,
            )
        )
    return made


def shortest_ms(forecast_ms, prefix, segment):
    """Of all paths with these choices before a segment, looked at one by one."""
    return min(
        forecast_ms(path, segment) for path in PATHS if SPACE.prefix(path, segment) == prefix
    )


def operators_after(path, segment):
    """Segments after this one at which the path decides."""
    return [
        at
        for at in range(segment + 1, SEGMENTS)
        if SPACE.segments[at].operator is not None and SPACE.applies(at, path)
    ]


def way_back_ms(case, path, segment):
    """Along the path until its next operator, and from there on the shortest path, all looked at one by one."""
    following = operators_after(path, segment)
    if not following:
        return case.forecast_ms(path, segment)
    until = following[0]
    until_there_ms = case.forecast_ms(path, segment) - case.forecast_ms(path, until)
    return until_there_ms + case.shortest_ms(SPACE.prefix(path, until), until)


def needed_ms(case, path, segment, p90_share):
    """The longest way back, here or from a later operator that is reached at the likely pace."""
    decided = [segment, *operators_after(path, segment)]
    whole_ms = case.forecast_ms(path, segment)
    return max(
        p90_share * (whole_ms - case.forecast_ms(path, at)) + way_back_ms(case, path, at)
        for at in decided
    )


@pytest.mark.parametrize('p90_share', [0.5, 0.9, 1.0])
def test_the_time_that_each_path_needs_is_what_an_exhaustive_search_finds(cases, p90_share):
    for case in cases:
        case.policy.starts(p90_share)
        expected_ms = [
            [needed_ms(case, path, segment, p90_share) for path in PATHS]
            for segment in range(SEGMENTS)
        ]
        np.testing.assert_allclose(case.policy._needed_ms[p90_share], expected_ms, atol=1e-9)


@settings(max_examples=50, deadline=None)
@given(
    which=st.integers(0, 3),
    index=st.integers(0, len(PATHS) - 1),
    segment=st.integers(0, SEGMENTS - 1),
    remaining_ms=st.floats(0.0, 150.0),
    factor=USUAL_FACTORS,
    p90_share=st.sampled_from(LEVELS),
)
def test_choice_equals_exhaustive(cases, which, index, segment, remaining_ms, factor, p90_share):
    case, path = cases[which], PATHS[index]
    choice = (
        case.policy.plan(remaining_ms, factor, p90_share)
        if segment == 0
        else case.policy.redecide(path, segment, remaining_ms, factor, p90_share=p90_share)
    )
    needed = [
        (needed_ms(case, other, segment, p90_share) * factor, case.quality(other))
        for other in continuations(SPACE, path, segment)
    ]
    found, slack = {}, 1e-9 * (1.0 + remaining_ms)
    for margin in (-slack, slack):  # what lies within the rounding of the times may be found or not
        fitting = [quality for bound_ms, quality in needed if bound_ms <= remaining_ms + margin]
        found[margin] = max(fitting, default=None)
    assert SPACE.prefix(choice.path, segment) == SPACE.prefix(path, segment)
    if found[-slack] is not None:
        assert choice.feasible and choice.bound_ms <= remaining_ms
        assert found[-slack] <= choice.quality <= found[slack]
    elif found[slack] is None:
        assert choice == (
            case.policy.plan(remaining_ms, factor)
            if segment == 0
            else case.policy.redecide(path, segment, remaining_ms, factor)
        )
        assert not choice.feasible


@settings(max_examples=100, deadline=None)
@given(
    which=st.integers(0, 3),
    share=st.floats(1.0, 4.0),
    factor=st.floats(1.0, 3.0),
    p90_share=st.sampled_from(LEVELS),
    paces=st.lists(st.floats(0.0, 1.0), min_size=SEGMENTS, max_size=SEGMENTS),
)
def test_segments_within_their_bounds_are_in_time(cases, which, share, factor, p90_share, paces):
    case = cases[which]
    assert case.policy.keeps_bounds
    shortest_ms = min(case.forecast_ms(path) for path in PATHS) * factor
    left_ms = share * shortest_ms * (1.0 + 1e-9)
    choice = case.policy.plan(left_ms, factor, p90_share)
    assert choice.feasible
    for segment in range(SEGMENTS):
        if SPACE.segments[segment].operator is not None and SPACE.applies(segment, choice.path):
            choice = case.policy.redecide(
                choice.path, segment, left_ms + 1e-9, factor, p90_share=p90_share
            )
            assert choice.feasible
        after_ms = case.forecast_ms(choice.path, segment + 1) if segment + 1 < SEGMENTS else 0.0
        left_ms -= (case.forecast_ms(choice.path, segment) - after_ms) * factor * paces[segment]
    assert left_ms >= -1e-6


def test_a_share_between_two_levels_is_taken_for_the_slower_pace(cases):
    for policy in (case.policy for case in cases):
        for p90_share, level in ((0.01, 0.5), (0.5, 0.5), (0.51, 0.6), (0.75, 0.8), (0.95, 1.0)):
            assert policy.starts(p90_share) == policy.starts(level)


def test_a_plan_is_not_taken_back_where_the_frame_goes_at_the_likely_pace(cases):
    for case in cases:
        for left_ms in np.linspace(20.0, 120.0, 30).tolist():
            choice = plan = case.policy.plan(left_ms, 1.6, 0.7)
            for segment in range(SEGMENTS):
                if plan.feasible and SPACE.segments[segment].operator is not None:
                    choice = case.policy.redecide(
                        choice.path, segment, left_ms + 1e-9, 1.6, p90_share=0.7
                    )
                    assert choice.quality >= plan.quality
                after_ms = (
                    case.forecast_ms(choice.path, segment + 1) if segment + 1 < SEGMENTS else 0.0
                )
                left_ms -= (case.forecast_ms(choice.path, segment) - after_ms) * 1.6 * 0.7
