import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thresholds import ThresholdPolicy, largest_that_fits

from deadline_perception.extras.faster_rcnn.declaration import multi_path_space

SPACE = multi_path_space(
    skips_per_stage=(1, 1),
    widths=(1.0, 0.5),
    pyramid_widths=(1.0,),
    proposals=(10, 25, 100),
    heads=2,
)


def segment_ms(name: str) -> float:
    """pre 1; first blocks 3; skippable blocks 10; pyramid 4; rpn 2; proposals 1; heads 5 and 20 at 100; post 1."""
    kind = name.split('@')[0]
    if kind == 'head':
        return {'h0': 5.0, 'h1': 20.0}[name[5:7]] * int(name.rsplit('-p', 1)[1]) / 100.0
    return {
        'pre': 1.0,
        'stage1': 3.0,
        'stage2': 3.0,
        'skip0': 10.0,
        'skip1': 10.0,
        'pyramid': 4.0,
        'rpn': 2.0,
        'proposals': 1.0,
        'regions': 0.0,
        'post': 0.0,
    }[kind]


@pytest.fixture(scope='module')
def policy(make_forecast, make_quality):
    quality = make_quality(dict.fromkeys(SPACE, 0.5))
    return ThresholdPolicy(SPACE, make_forecast(SPACE, segment_ms), quality)


def segment_of(operator: str) -> int:
    return [segment.operator for segment in SPACE.segments].index(operator)


@pytest.mark.parametrize(('budget_ms', 'width'), [(14.5, 1.0), (14.4, 0.5), (1.0, 0.5)])
def test_width_is_the_widest_in_time_or_the_narrowest(make_forecast, budget_ms, width):
    # at full width the cheapest path takes 1 + 3 + 3 + 4 + 2 + 1 + 0.5 ms
    forecast = make_forecast(
        SPACE, lambda name: segment_ms(name) * (0.5 if '@w0.50' in name else 1.0)
    )
    assert largest_that_fits(SPACE, forecast, budget_ms) == SPACE.largest.replace(width=width)


def test_skip_threshold_is_its_blocks_and_the_shortest_rest_of_the_network(policy):
    # tau = 10 + 3 + 4 + (2 + 1) + 5 * 10 / 100 = 20.5 ms before stage 2, 3 ms less in it.
    path = SPACE.largest
    assert not policy.skips(path, 'skip0', 20.5, 1.0)
    assert policy.skips(path, 'skip0', 20.499, 1.0)
    assert not policy.skips(path, 'skip1', 35.0, 2.0)
    assert policy.skips(path, 'skip1', 34.99, 2.0)


def test_number_of_proposals_follows_the_formula_rounded_down_to_an_offered_one(policy):
    # tau = 5 ms for 100 proposals in the cheapest head: 2.5 ms give 50, offered are 10, 25 and 100.
    path = SPACE.largest
    assert policy.proposals(path, 5.0, 1.0) == 100
    assert policy.proposals(path, 4.99, 1.0) == 25
    assert policy.proposals(path, 2.5, 2.0) == 25
    assert policy.proposals(path, 1.25, 1.0) == 25
    assert policy.proposals(path, 1.24, 1.0) == 10
    assert policy.proposals(path, -1.0, 1.0) == 10
    assert policy.proposals(path, math.inf, 1.0) == 100


def test_head_is_the_longest_that_fits_and_the_shortest_when_none_does(policy):
    path = SPACE.parse('s00-w1.00-p100-h0')
    assert policy.head(path, 20.0, 1.0) == '1'
    assert policy.head(path, 19.9, 1.0) == '0'
    assert policy.head(path, 1.0, 1.0) == '0'
    assert policy.head(path, 39.0, 2.0) == '0'


def test_plan_walks_through_all_operators_by_hand(policy):
    # 100 ms: nothing is skipped, 100 proposals (66 ms left), head 1.
    assert policy.plan(100.0, 1.0).path == SPACE.parse('s00-w1.00-p100-h1')
    # 30 ms: skip0 runs with 26 left; skip1 sees 26 - 10 - 3 = 13 < 17.5 and skips; pyramid and rpn leave 7 ms:
    # 100 proposals; 6 ms are left for a head: 5 fits, 20 does not.
    choice = policy.plan(30.0, 1.0)
    assert choice.path == SPACE.parse('s01-w1.00-p100-h0')
    assert (choice.forecast_ms, choice.bound_ms, choice.feasible) == (29.0, 29.0, True)


@settings(max_examples=150, deadline=None)
@given(
    path=st.sampled_from(list(SPACE)),
    segment=st.integers(0, len(SPACE.segments) - 1),
    remaining_ms=st.floats(-10, 100),
    factor=st.floats(0.1, 5),
)
def test_choice_agrees_with_the_prefix(policy, path, segment, remaining_ms, factor):
    choice = policy.redecide(path, segment, remaining_ms, factor)
    assert choice.path in SPACE
    assert SPACE.prefix(choice.path, segment) == SPACE.prefix(path, segment)
    assert choice.bound_ms == choice.forecast_ms * factor
    if choice.bound_ms <= remaining_ms:
        assert choice.feasible
