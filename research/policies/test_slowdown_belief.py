import math

import numpy as np
import pytest
from slowdown_belief import SlowdownBelief


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
