import math
import random

import numpy as np
import pytest
from baselines import Reactive
from made_up_decisions import GivenQuality
from rivals import Alert, ConformalPid
from slowdown_belief import SlowdownBelief
from thresholds import ThresholdPolicy

from deadline_perception.extras.faster_rcnn.declaration import multi_path_space

SPACE = multi_path_space(
    skips_per_stage=(1, 1),
    widths=(1.0, 0.5),
    pyramid_widths=(1.0,),
    proposals=(10, 25, 100),
    heads=2,
)
THREE_MS = dict(zip(SPACE, (10.0, 20.0, 40.0)))
THREE_QUALITIES = GivenQuality(dict(zip(SPACE, (0.3, 0.5, 0.6))))


class OfThree:
    def table(self, paths):
        return np.array([THREE_MS[path] for path in paths])


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
def models(make_forecast, make_quality):
    """What costs more is better."""
    forecast = make_forecast(SPACE, segment_ms)
    return forecast, make_quality({path: forecast.forecast_ms(path) / 100.0 for path in SPACE})


@pytest.fixture(scope='module')
def thresholds(models):
    return ThresholdPolicy(SPACE, *models)


def test_skip_threshold_is_its_blocks_and_the_shortest_rest_of_the_network(thresholds):
    # tau = 10 + 3 + 4 + (2 + 1) + 5 * 10 / 100 = 20.5 ms before stage 2, 3 ms less in it.
    path = SPACE.largest
    assert not thresholds.skips(path, 'skip0', 20.5, 1.0)
    assert thresholds.skips(path, 'skip0', 20.499, 1.0)
    assert not thresholds.skips(path, 'skip1', 35.0, 2.0)
    assert thresholds.skips(path, 'skip1', 34.99, 2.0)


def test_plan_walks_through_all_operators_by_hand(thresholds):
    # 100 ms: nothing is skipped, 100 proposals (66 ms left), head 1.
    assert thresholds.plan(100.0, 1.0).path == SPACE.parse('s00-w1.00-p100-h1')
    # 30 ms: skip0 runs with 26 left; skip1 sees 26 - 10 - 3 = 13 < 17.5 and skips; pyramid and rpn leave 7 ms:
    # 100 proposals; 6 ms are left for a head: 5 fits, 20 does not.
    choice = thresholds.plan(30.0, 1.0)
    assert choice.path == SPACE.parse('s01-w1.00-p100-h0')
    assert (choice.forecast_ms, choice.bound_ms, choice.feasible) == (29.0, 29.0, True)


@pytest.mark.parametrize('to_the_lowest', [False, True])
def test_reactive_climbs_after_a_frame_in_time_and_descends_after_a_late_one(models, to_the_lowest):
    policy = Reactive(SPACE, *models, to_the_lowest=to_the_lowest)
    assert policy.name == ('reactive_n' if to_the_lowest else 'reactive_1')
    taken = []
    for latency_ms in (10.0, 20.0, 19.9, 5.0, 20.1, 20.0, math.inf, 0.0):
        taken.append(policy.ladder.index(policy.plan(20.0, 1.0).path))
        policy.observe(latency_ms, 20.0)
    assert taken == [0, 1, 2, 3, 4, *((0, 1, 0) if to_the_lowest else (3, 4, 3))]


def test_the_filter_weighs_quality_by_the_chance_to_be_in_time():
    policy = Alert(list(THREE_MS), OfThree(), THREE_QUALITIES)
    for _ in range(200):
        policy.plan(1000.0, 1.0)
        policy.observe(40.0, 1000.0)
    # Its process noise has a floor: 0.1 and more in variance, so 45 ms are too few for 40.
    assert policy.plan(45.0, 1.0).path == policy.paths[1]
    assert policy.plan(100.0, 1.0).path == policy.paths[2]


def test_the_conformal_quantile_is_exceeded_as_often_as_it_should_be():
    policy = ConformalPid(list(THREE_MS), OfThree(), THREE_QUALITIES, alpha=0.05)
    rng = random.Random(0)
    exceeded = 0
    for _ in range(4000):
        choice = policy.plan(1000.0, 1.0)
        took_ms = choice.forecast_ms * math.exp(rng.gauss(0.0, 0.1))
        exceeded += took_ms > choice.bound_ms
        policy.observe(took_ms, 1000.0)
    assert exceeded / 4000 == pytest.approx(0.05, abs=0.01)


def test_probabilities_are_the_shares_that_happen_on_levels_as_the_belief_expects_them():
    rng = np.random.default_rng(3)
    belief = SlowdownBelief()
    said = []
    happened = []
    level = 0.0
    places = np.log([1.1, 1.5, 2.0, 3.0])
    for _ in range(3000):
        if rng.random() < 1.0 / 60.0:
            level = rng.choice([0.0, 0.4, 0.9])
        log_ratio = rng.normal(level + (0.75 if rng.random() < 0.3 else 0.0), 0.12)
        said.append(belief.probability_above(places))
        happened.append(log_ratio > places)
        belief.observe(math.exp(log_ratio))
    assert np.mean(said, axis=0) == pytest.approx(np.mean(happened, axis=0), abs=0.04)
