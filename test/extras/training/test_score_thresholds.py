import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_labels import known

from deadline_perception.core.detections import Detections
from deadline_perception.extras.evaluation.reliability import ScoredDetections
from deadline_perception.extras.training.score_thresholds import (
    LEAST_OBJECTS,
    LEAST_PRECISION,
    ScoreThreshold,
    choose_threshold,
    detector_weights,
)


def measured(hits, objects=LEAST_OBJECTS, scores=None):
    scores = np.linspace(0.95, 0.05, len(hits)) if scores is None else np.array(scores, float)
    return ScoredDetections(scores, np.array(hits, bool), objects)


def test_no_threshold_is_precise_enough():
    chosen = choose_threshold(measured([False, False, True, False], 40), 0.5)
    assert (chosen.score, chosen.objects) == (None, 40) and chosen.unsure_score > 1.0
    assert chosen.precision == pytest.approx(1 / 3)
    assert choose_threshold(measured([], 40), 0.5).score is None


@settings(deadline=None, max_examples=80)
@given(st.lists(st.booleans(), max_size=60), st.integers(0, 40))
def test_no_allowed_threshold_has_a_larger_f1(hits, missed):
    objects = sum(hits) + missed
    chosen = choose_threshold(measured(hits, objects), 0.5)
    if objects < LEAST_OBJECTS:
        assert chosen == ScoreThreshold(0.5)
        return
    counts = [(sum(hits[:n]), n) for n in range(1, len(hits) + 1)]
    f1s = [2 * right / (n + objects) for right, n in counts if right / n >= LEAST_PRECISION]
    best = max(f1s, default=0.0)
    if chosen.score is None:
        assert best == 0.0
    else:
        f1 = 2 * chosen.precision * chosen.recall / (chosen.precision + chosen.recall)
        assert f1 == pytest.approx(best) and chosen.precision >= LEAST_PRECISION


def test_the_better_detector_counts_for_more_and_one_that_does_not_know_the_class_for_nothing():
    objects = [known([0, 0, 10, 10, 0, 0], [20, 0, 30, 10, 0, 0]) for _ in range(20)]
    good = [Detections(one.boxes_xyxy_px, [0.9, 0.8], [0, 0]) for one in objects]
    half = [Detections(one.boxes_xyxy_px[:1], [0.9], [0]) for one in objects]
    weights = detector_weights([good, half, half], objects, np.array([True, True, False]))
    assert weights[0] == pytest.approx(1.0) and 0 < weights[1] < 0.2 and weights[2] == 0.0
