import math

import numpy as np
import pytest
from slowdown_belief import SlowdownBelief


def after(*ratios: float) -> SlowdownBelief:
    belief = SlowdownBelief()
    for ratio in ratios:
        belief.observe(ratio)
    return belief


def chance(belief: SlowdownBelief, factor: float) -> float:
    return float(belief.probability_above(np.array([math.log(factor)]))[0])


def test_a_step_is_believed_after_two_frames_and_one_back_too():
    steady = [1.0, 1.02, 0.98, 1.01] * 10
    assert chance(after(*steady), 2.0) < 0.03
    assert chance(after(*steady, 3.0), 2.0) > 0.5
    assert chance(after(*steady, 3.0, 3.1), 2.0) > 0.8
    assert chance(after(*steady, *[3.0] * 20, 1.0, 1.0), 2.0) < 0.2


def rest(belief: SlowdownBelief, factor: float, ratio: float, share: float) -> float:
    return float(belief.probability_above(np.array([math.log(factor)]), (ratio, share))[0])


def test_a_frame_that_has_begun_tells_which_mode_its_rest_is_of():
    shares = np.random.default_rng(0).random(60) < 0.5
    noise = np.random.default_rng(1).normal(0.0, 0.05, 60)
    belief = after(*np.exp(np.where(shares, math.log(2.2), 0.0) + noise))
    before = chance(belief, 1.5)
    assert 0.3 < before < 0.7
    assert rest(belief, 1.5, 2.2, 0.3) > 0.9
    assert rest(belief, 1.5, 1.0, 0.3) < 0.1
    assert chance(belief, 1.5) == before  # the frames to come may be of either


def test_a_frame_of_which_only_a_least_time_is_known_counts():
    steady = [1.0, 1.02, 0.98, 1.01] * 10
    belief = after(*steady)
    belief.observe_at_least(2.0)
    assert chance(belief, 2.0) > 0.5
    belief = after(*steady)
    before = chance(belief, 2.0)
    belief.observe_at_least(0.5)  # which was known
    assert chance(belief, 2.0) == pytest.approx(before, abs=0.02)


def test_probabilities_are_the_shares_that_happen_on_levels_as_it_expects_them():
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
