"""Errors of tables of path qualities: of prediction, and by chance."""

import math

import numpy as np
import pytest
from known_qualities import SPACE, logistic_ap, sample

from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.extras.evaluation.prediction_error import chance_errors, prediction_error


def test_error_of_prediction_worked_out_by_hand():
    # Of two paths, each is predicted to be as good as the other: 20 points off, and in the wrong order.
    quality = PathQuality({SPACE.largest: 0.5, SPACE.smallest: 0.3})
    shown = prediction_error(quality)
    assert (shown.mean_points, shown.max_points) == (pytest.approx(20.0), pytest.approx(20.0))
    assert shown.rank_correlation == pytest.approx(-1.0)
    assert 'each left out once' in str(shown)
    assert prediction_error(PathQuality({SPACE.largest: 0.5})) is None


def test_chance_that_moves_all_paths_alike_is_no_error_of_one():
    paths, rng = sample(60), np.random.default_rng(0)
    odds = np.array([math.log(ap / (1 - ap)) for ap in map(logistic_ap, paths)])[:, None]
    together = 1 / (1 + np.exp(-odds - rng.normal(0, 0.2, 40)))  # by 5 points on average
    assert np.std(together, axis=1).mean() > 0.03
    assert chance_errors(paths, together).max() < 0.003
    alone = together + rng.normal(0, 0.02, together.shape)
    # Of 60 paths' chance the model's effects take up some.
    assert 0.01 < chance_errors(paths, alone).mean() < 0.02
