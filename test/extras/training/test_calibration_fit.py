import numpy as np
import pytest

from deadline_perception.extras.training.calibration_fit import fit_calibration
from deadline_perception.networks.multi_path.score_calibration import ScoreCalibration


def test_a_fit_finds_the_curve_that_made_the_scores_and_takes_that_of_all_for_a_rare_class():
    rng = np.random.default_rng(1)
    truth = ScoreCalibration((0.5, 1.5), (-1.0, 0.5))
    scores = [rng.random(20_000) for _ in range(2)]
    hits = [
        rng.random(len(values)) < truth.apply(values, np.full(len(values), label))
        for label, values in enumerate(scores)
    ]
    found = fit_calibration(scores, hits)
    assert found.slopes == pytest.approx(truth.slopes, abs=0.05)
    assert found.offsets == pytest.approx(truth.offsets, abs=0.08)
    rng = np.random.default_rng(2)
    scores = rng.random(10_000)
    hits = rng.random(len(scores)) < scores / 2
    few = fit_calibration([scores, np.array([0.9])], [hits, np.array([True])])
    assert few.slopes[1] == pytest.approx(few.slopes[0], rel=0.3)
    assert few.offsets[1] == pytest.approx(few.offsets[0], abs=0.4)
    assert fit_calibration([np.zeros(0)], [np.zeros(0, bool)]) == ScoreCalibration((1.0,), (0.0,))
