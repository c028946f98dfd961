import numpy as np
import pytest
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
    return forecast, make_quality({path: float(rng.uniform()) for path in PATHS})


def chance(belief: SlowdownBelief, forecast_ms: float, left_ms: float) -> float:
    return float(belief.probability_above(np.log(np.array([left_ms / forecast_ms])))[0])


@settings(max_examples=25, deadline=None)
@given(cost=COSTS, ratios=RATIOS, left_ms=st.floats(1.0, 400.0))
def test_no_path_has_a_greater_utility_than_the_plan(parts, cost, ratios, left_ms):
    forecast, quality = parts
    policy = ExpectedUtilityPolicy(SPACE, forecast, quality, miss_cost=cost)
    for ratio in ratios:
        policy._belief.observe(ratio)
    late = [chance(policy._belief, forecast.forecast_ms(path), left_ms) for path in PATHS]
    utilities = quality.table(PATHS) * (1.0 - np.array(late)) - cost * np.array(late)
    choice = policy.plan(left_ms, 1.5)
    assert utilities[PATHS.index(choice.path)] >= max(utilities) - 1e-6
    assert choice.bound_ms == choice.forecast_ms * 1.5
    assert choice.feasible == (min(forecast.forecast_ms(path) for path in PATHS) * 1.5 <= left_ms)
