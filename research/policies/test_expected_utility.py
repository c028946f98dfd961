import math
from copy import copy

import numpy as np
import pytest
from continuations import continuations
from expected_utility import ExpectedUtilityPolicy
from hypothesis import given, settings
from hypothesis import strategies as st
from slowdown_belief import SlowdownBelief

from deadline_perception.extras.faster_rcnn.declaration import multi_path_space

SPACE = multi_path_space(
    skips_per_stage=(1, 1),
    widths=(1.0, 0.5),
    pyramid_widths=(1.0, 0.5),
    proposals=(10, 25, 100),
    heads=2,
)
PATHS = list(SPACE)
COSTS = st.sampled_from([0.0, 0.03, 0.2, 1.0, 8.0, 100.0])
RATIOS = st.lists(st.floats(0.8, 8.0), max_size=8)


@pytest.fixture(scope='module')
def parts(make_forecast, make_quality):
    """Random times of segments and random qualities."""
    rng = np.random.default_rng(5)
    segment_ms = {}
    forecast = make_forecast(
        SPACE, lambda key: segment_ms.setdefault(key, float(rng.uniform(1.0, 12.0)))
    )
    return forecast, make_quality({path: float(rng.uniform()) for path in PATHS}), {}


def policy_of(parts, cost: float, ratios=(), **options):
    """A policy whose frames have met some slowdowns; its frontiers are built once for each cost."""
    forecast, quality, made = parts
    belief = SlowdownBelief()
    key = (cost, *options.items())
    for ratio in ratios:
        belief.observe(ratio)
    if key not in made:
        made[key] = ExpectedUtilityPolicy(SPACE, forecast, quality, miss_cost=cost, **options)
    policy = copy(made[key])
    policy._belief = belief
    return policy, belief


def chance(belief: SlowdownBelief, forecast_ms: float, left_ms: float) -> float:
    return float(belief.probability_above(np.log(np.array([left_ms / forecast_ms])))[0])


@settings(max_examples=25, deadline=None)
@given(cost=COSTS, ratios=RATIOS, left_ms=st.floats(1.0, 400.0))
def test_no_path_has_a_greater_utility_than_the_plan(parts, cost, ratios, left_ms):
    policy, belief = policy_of(parts, cost, ratios)
    forecast, quality, _ = parts
    late = [chance(belief, forecast.forecast_ms(path), left_ms) for path in PATHS]
    utilities = quality.table(PATHS) * (1.0 - np.array(late)) - cost * np.array(late)
    choice = policy.plan(left_ms, 1.5)
    assert utilities[PATHS.index(choice.path)] >= max(utilities) - 1e-6
    assert choice.bound_ms == choice.forecast_ms * 1.5
    assert choice.feasible == (min(forecast.forecast_ms(path) for path in PATHS) * 1.5 <= left_ms)


@settings(max_examples=25, deadline=None)
@given(
    cost=COSTS,
    ratios=RATIOS,
    left_ms=st.floats(1.0, 400.0),
    index=st.integers(0, len(PATHS) - 1),
    segment=st.integers(0, len(SPACE.segments) - 1),
)
def test_a_redecision_is_nearly_the_best(parts, cost, ratios, left_ms, index, segment):
    policy, belief = policy_of(parts, cost, ratios, keep_epsilon=0.02)
    forecast, quality, _ = parts
    path = PATHS[index]
    choice = policy.redecide(path, segment, left_ms, 1.5)
    assert SPACE.prefix(choice.path, segment) == SPACE.prefix(path, segment)

    def utility(other):
        late = chance(belief, forecast.forecast_ms(other, segment) or 1e-9, left_ms)
        return quality.quality(other) * (1.0 - late) - cost * late

    best = max(utility(other) for other in continuations(SPACE, path, segment))
    less = 0.02 if choice.path == path else 0.0
    assert utility(choice.path) >= best - less - 1e-6


def test_a_frame_that_has_been_slow_so_far_goes_on_with_a_cheaper_path_than_one_that_has_not(parts):
    # each frame has its core for itself or shares it
    shares = np.random.default_rng(0).random(60) < 0.5
    policy, _ = policy_of(parts, 1.0, np.where(shares, 2.2, 1.0))
    path = policy.plan(math.inf, 1.0).path
    segment = 4
    whole_ms, rest_ms = (parts[0].forecast_ms(path, at) for at in (0, segment))
    ran_ms = whole_ms - rest_ms
    left_ms = 1.4 * rest_ms
    alone, unknown, shared = (
        policy.redecide(path, segment, left_ms, 1.0, elapsed_ms)
        for elapsed_ms in (ran_ms, 0.0, 2.2 * ran_ms)
    )
    assert alone.path == path
    assert shared.forecast_ms < alone.forecast_ms
    assert shared.forecast_ms <= unknown.forecast_ms <= alone.forecast_ms
