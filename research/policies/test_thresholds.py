import pytest
from thresholds import ThresholdPolicy

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


def test_skip_threshold_is_its_blocks_and_the_shortest_rest_of_the_network(policy):
    # tau = 10 + 3 + 4 + (2 + 1) + 5 * 10 / 100 = 20.5 ms before stage 2, 3 ms less in it.
    path = SPACE.largest
    assert not policy.skips(path, 'skip0', 20.5, 1.0)
    assert policy.skips(path, 'skip0', 20.499, 1.0)
    assert not policy.skips(path, 'skip1', 35.0, 2.0)
    assert policy.skips(path, 'skip1', 34.99, 2.0)


def test_plan_walks_through_all_operators_by_hand(policy):
    # 100 ms: nothing is skipped, 100 proposals (66 ms left), head 1.
    assert policy.plan(100.0, 1.0).path == SPACE.parse('s00-w1.00-p100-h1')
    # 30 ms: skip0 runs with 26 left; skip1 sees 26 - 10 - 3 = 13 < 17.5 and skips; pyramid and rpn leave 7 ms:
    # 100 proposals; 6 ms are left for a head: 5 fits, 20 does not.
    choice = policy.plan(30.0, 1.0)
    assert choice.path == SPACE.parse('s01-w1.00-p100-h0')
    assert (choice.forecast_ms, choice.bound_ms, choice.feasible) == (29.0, 29.0, True)
