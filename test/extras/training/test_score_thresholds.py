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
    detections_of,
    detector_weights,
    objects_of,
)


def measured(hits, objects=LEAST_OBJECTS, scores=None):
    scores = np.linspace(0.95, 0.05, len(hits)) if scores is None else np.array(scores, float)
    return ScoredDetections(scores, np.array(hits, bool), objects)


def test_the_score_of_largest_f1_is_chosen():
    # 40 objects: after 30 hits F1 is 60 / 70; 10 misses follow, then 5 hits: 70 / 85
    chosen = choose_threshold(measured([True] * 30 + [False] * 10 + [True] * 5, 40), 0.5)
    assert chosen.score == pytest.approx(np.linspace(0.95, 0.05, 45)[29])
    assert (chosen.precision, chosen.recall, chosen.objects) == (1.0, 0.75, 40)
    assert chosen.unsure_score == pytest.approx(0.4 * chosen.score)


def test_no_threshold_is_precise_enough():
    chosen = choose_threshold(measured([False, False, True, False], 40), 0.5)
    assert (chosen.score, chosen.objects) == (None, 40) and chosen.unsure_score > 1.0
    assert chosen.precision == pytest.approx(1 / 3)
    assert choose_threshold(measured([], 40), 0.5).score is None


def test_boxes_of_one_score_come_together():
    chosen = choose_threshold(measured([True] * 30 + [False] * 5, 30, [0.7] * 35), 0.5)
    assert chosen.precision == pytest.approx(30 / 35)


@pytest.mark.parametrize('score', [0.0, -0.1, 1.1, float('nan')])
def test_a_threshold_that_is_no_score_is_refused(score):
    with pytest.raises(ValueError, match=r'expected a score in \(0, 1\]'):
        ScoreThreshold(score)


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


def test_one_class_is_taken_out_with_label_0():
    both = Detections([[0, 0, 1, 1], [0, 0, 2, 2]], [0.9, 0.8], [3, 1])
    assert detections_of(both, 1).labels.tolist() == [0]
    assert detections_of(both, 1).boxes_xyxy_px[0, 2] == 2
    assert objects_of(known([0, 0, 1, 1, 3, 1], [0, 0, 2, 2, 1, 0]), 3).crowd.tolist() == [True]


def test_the_better_detector_counts_for_more_and_one_that_does_not_know_the_class_for_nothing():
    objects = [known([0, 0, 10, 10, 0, 0], [20, 0, 30, 10, 0, 0]) for _ in range(20)]
    good = [Detections(one.boxes_xyxy_px, [0.9, 0.8], [0, 0]) for one in objects]
    half = [Detections(one.boxes_xyxy_px[:1], [0.9], [0]) for one in objects]
    weights = detector_weights([good, half, half], objects, np.array([True, True, False]))
    assert weights[0] == pytest.approx(1.0) and 0 < weights[1] < 0.2 and weights[2] == 0.0


def test_detectors_count_alike_where_too_few_objects_tell_and_where_all_fail():
    objects = [known([0, 0, 10, 10, 0, 0])] * (LEAST_OBJECTS - 1)
    found = [Detections([[0, 0, 10, 10]], [0.9], [0])] * len(objects)
    nothing = [Detections.none()] * len(objects)
    both = np.array([True, True])
    assert detector_weights([found, nothing], objects, both).tolist() == [1.0, 1.0]
    enough = [*objects, objects[0]]
    assert detector_weights([[*nothing, nothing[0]]] * 2, enough, both).tolist() == [1.0, 1.0]
