"""Plans with a way back against an exhaustive search, and frames that are decided by them."""
from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.recourse import LEVELS
from deadline_perception.networks.multi_path.declaration import multi_path_space

SPACE = multi_path_space(skips_per_stage=(1, 1), widths=(1.0, 0.5), pyramid_widths=(1.0, 0.5), proposals=(10, 25, 100),
                         heads=2)
PATHS = list(SPACE)
SEGMENTS = len(SPACE.segments)
FACTORS = st.floats(0.5, 4.0)
LIKELY = st.sampled_from(LEVELS[:-1])


@pytest.fixture(scope='module')
def cases(make_forecast, make_quality):
    """Policies over times and qualities drawn at random, of which every other has many ties; with both."""
    made = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        keys = sorted({key for path in PATHS for key in SPACE.keys(path)})
        times_ms = rng.integers(0, 4, len(keys)) if seed % 2 else rng.uniform(0.1, 12, len(keys))
        forecast = make_forecast(SPACE, dict(zip(keys, times_ms.tolist())).__getitem__)
        quality = make_quality({path: float(rng.integers(0, 20)) / 20 if seed % 2 else float(rng.uniform())
                                for path in PATHS})
        made.append(SimpleNamespace(policy=FrontierPolicy(SPACE, forecast, quality, keep_epsilon=0.0),
                                    forecast_ms=forecast.forecast_ms, quality=quality.quality))
    return made


def way_back_ms(case, path, segment):
    """Along the path until its next operator, and from there on the shortest path, all looked at one by one."""
    following = [at for at in range(segment + 1, SEGMENTS)
                 if SPACE.segments[at].operator is not None and SPACE.applies(at, path)]
    if not following:
        return case.forecast_ms(path, segment)
    until = following[0]
    shortest_ms = min(case.forecast_ms(other, until) for other in SPACE.continuations(path, until))
    return case.forecast_ms(path, segment) - case.forecast_ms(path, until) + shortest_ms


def needed_ms(case, path, segment, likely):
    """The longest way back, here or from a later operator that is reached at the likely pace."""
    decided = [segment] + [at for at in range(segment + 1, SEGMENTS)
                           if SPACE.segments[at].operator is not None and SPACE.applies(at, path)]
    whole_ms = case.forecast_ms(path, segment)
    return max(likely * (whole_ms - case.forecast_ms(path, at)) + way_back_ms(case, path, at) for at in decided)


@settings(max_examples=100, deadline=None)
@given(which=st.integers(0, 3), index=st.integers(0, len(PATHS) - 1), segment=st.integers(0, SEGMENTS - 1),
       remaining_ms=st.floats(0.0, 150.0), factor=FACTORS, likely=LIKELY)
def test_the_choice_is_what_an_exhaustive_search_finds(cases, which, index, segment, remaining_ms, factor, likely):
    case, path = cases[which], PATHS[index]
    choice = (case.policy.plan(remaining_ms, factor, likely) if segment == 0 else
              case.policy.redecide(path, segment, remaining_ms, factor, likely=likely))
    found, slack = {}, 1e-9 * (1.0 + remaining_ms)
    for margin in (-slack, slack):  # what lies within the rounding of the times may be found or not
        found[margin] = max((case.quality(other) for other in SPACE.continuations(path, segment)
                             if needed_ms(case, other, segment, likely) * factor <= remaining_ms + margin),
                            default=None)
    assert SPACE.prefix(choice.path, segment) == SPACE.prefix(path, segment)
    if found[-slack] is not None:
        assert choice.feasible and choice.bound_ms <= remaining_ms
        assert found[-slack] <= choice.quality <= found[slack]
    elif found[slack] is None:
        assert choice == (case.policy.plan(remaining_ms, factor) if segment == 0 else
                          case.policy.redecide(path, segment, remaining_ms, factor))
        assert not choice.feasible


@settings(max_examples=100, deadline=None)
@given(which=st.integers(0, 3), share=st.floats(1.0, 4.0), factor=st.floats(1.0, 3.0), likely=LIKELY,
       paces=st.lists(st.floats(0.0, 1.0), min_size=SEGMENTS, max_size=SEGMENTS))
def test_a_frame_whose_segments_keep_their_bounds_is_in_time(cases, which, share, factor, likely, paces):
    case = cases[which]
    shortest_ms = min(case.forecast_ms(path) for path in PATHS) * factor
    left_ms = share * shortest_ms * (1.0 + 1e-9)
    choice = case.policy.plan(left_ms, factor, likely)
    assert choice.feasible
    for segment in range(SEGMENTS):
        if SPACE.segments[segment].operator is not None and SPACE.applies(segment, choice.path):
            choice = case.policy.redecide(choice.path, segment, left_ms + 1e-9, factor, likely=likely)
            assert choice.feasible
        after_ms = case.forecast_ms(choice.path, segment + 1) if segment + 1 < SEGMENTS else 0.0
        left_ms -= (case.forecast_ms(choice.path, segment) - after_ms) * factor * paces[segment]
    assert left_ms >= -1e-6


@settings(max_examples=60, deadline=None)
@given(which=st.integers(0, 3), remaining_ms=st.floats(0.0, 150.0), factor=FACTORS, likely=LIKELY)
def test_recourse_never_plans_less_and_is_feasible_for_the_same_times(cases, which, remaining_ms, factor, likely):
    policy = cases[which].policy
    alone, with_recourse = policy.plan(remaining_ms, factor), policy.plan(remaining_ms, factor, likely)
    assert with_recourse.feasible == alone.feasible or math.isclose(alone.bound_ms, remaining_ms)
    assert with_recourse.quality >= alone.quality


def test_a_plan_is_kept_unless_another_gains_enough(make_forecast, make_quality):
    times = {'stage': 4.0, 'skip': 4.0}
    forecast = make_forecast(SPACE, lambda name: next((ms for key, ms in times.items() if name.startswith(key)), 1.0))
    by_time = sorted(PATHS, key=forecast.forecast_ms)
    quality = make_quality({path: 0.5 + 0.001 * rank / len(PATHS) for rank, path in enumerate(by_time)})
    policy = FrontierPolicy(SPACE, forecast, quality, keep_epsilon=0.005)
    eager = FrontierPolicy(SPACE, forecast, quality, keep_epsilon=0.0)
    plan = policy.plan(forecast.forecast_ms(by_time[len(PATHS) // 2]), 1.0, 0.9).path
    assert policy.redecide(plan, 0, 1000.0, 1.0, likely=0.9).path == plan
    assert eager.redecide(plan, 0, 1000.0, 1.0, likely=0.9).quality > quality.quality(plan)


@pytest.mark.parametrize('likely', [0.0, -0.5, 1.5, math.nan])
def test_a_share_that_is_none_is_refused(cases, likely):
    with pytest.raises(ValueError, match=r'likely is .*, expected a share of a bound in \(0, 1\]'):
        cases[0].policy.plan(50.0, 1.0, likely)
    with pytest.raises(ValueError, match='likely is'):
        cases[0].policy.redecide(PATHS[0], 1, 50.0, 1.0, likely=likely)


def test_a_share_between_two_levels_is_taken_for_the_slower_pace(cases):
    for policy in (case.policy for case in cases):
        for likely, level in ((0.01, 0.5), (0.5, 0.5), (0.51, 0.6), (0.75, 0.8), (0.95, 1.0)):
            assert policy.starts(likely) == policy.starts(level)


def test_a_plan_is_not_taken_back_where_the_frame_goes_at_the_likely_pace(cases):
    for case in cases:
        for left_ms in np.linspace(20.0, 120.0, 30).tolist():
            choice = plan = case.policy.plan(left_ms, 1.6, 0.7)
            for segment in range(SEGMENTS):
                if plan.feasible and SPACE.segments[segment].operator is not None:
                    choice = case.policy.redecide(choice.path, segment, left_ms + 1e-9, 1.6, likely=0.7)
                    assert choice.quality >= plan.quality
                after_ms = case.forecast_ms(choice.path, segment + 1) if segment + 1 < SEGMENTS else 0.0
                left_ms -= (case.forecast_ms(choice.path, segment) - after_ms) * 1.6 * 0.7
