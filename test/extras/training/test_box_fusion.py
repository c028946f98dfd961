import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_labels import found

from deadline_perception.extras.training.box_fusion import fuse, intersection_over_union

SEEN, ASIDE = [0, 0, 100, 100], [20, 0, 120, 100]


@pytest.mark.parametrize(
    'detectors, weights, boxes, scores',
    [
        # Averaged by the scores, and by the weights: (0 * 0.9 + 20 * 0.3) / 1.2, and 20 / 4.
        ([[[*SEEN, 0.9, 0]], [[*ASIDE, 0.3, 0]]], [[1], [1]], [[5, 0, 105, 100]], [0.6]),
        ([[[*SEEN, 0.9, 0]], [[*ASIDE, 0.9, 0]]], [[3], [1]], [[5, 0, 105, 100]], [0.9]),
        # What only one of two sees; a second box of one detector adds no vote.
        ([[], [[*ASIDE, 0.8, 0]]], [[3], [1]], [ASIDE], [0.2]),
        ([[[*SEEN, 0.8, 0], [0, 0, 100, 90, 0.7, 0]]], [[1]], [SEEN], [0.8]),
        # Who does not know the class takes no part in it.
        ([[[*SEEN, 0.8, 1]], [[*ASIDE, 0.6, 0]]], [[1, 1], [1, 0]], [SEEN, ASIDE], [0.8, 0.3]),
        ([[], []], [[1], [1]], np.zeros((0, 4)), []),
        ([[[*SEEN, 0.9, 0]]], [[0]], np.zeros((0, 4)), []),
    ],
)
def test_boxes_that_detectors_share_are_averaged(detectors, weights, boxes, scores):
    fused = fuse([found(*rows) for rows in detectors], np.array(weights, float))
    np.testing.assert_allclose(fused.boxes_xyxy_px, boxes)
    np.testing.assert_allclose(fused.scores, scores, rtol=1e-6)


def test_classes_and_distant_boxes_stay_apart_and_the_best_comes_first():
    seen = found([0, 0, 10, 10, 0.4, 0], [0, 0, 10, 10, 0.6, 1], [50, 0, 60, 10, 0.9, 0])
    rows = fuse([seen], np.ones((1, 2)))
    assert rows.labels.tolist() == [0, 1, 0]
    assert rows.scores.tolist() == pytest.approx([0.9, 0.6, 0.4])


@pytest.mark.parametrize(
    'weights, said',
    [
        (np.ones(2), r'weights have shape \(2,\), expected \[1, classes\]'),
        (np.ones((2, 1)), r'weights have shape \(2, 1\), expected \[1, classes\]'),
        ([[-1.0]], 'smallest weight is -1.0, expected finite numbers of at least 0'),
        ([[np.nan]], 'smallest weight is nan'),
    ],
)
def test_weights_of_another_kind_are_refused(weights, said):
    with pytest.raises(ValueError, match=said):
        fuse([found()], weights)


def test_overlap_of_boxes_with_and_without_area():
    boxes = np.array([[0, 0, 10, 10], [5, 0, 15, 10], [3, 3, 3, 3]], float)
    np.testing.assert_allclose(intersection_over_union(boxes, boxes[:1]).ravel(), [1, 50 / 150, 0])


place, side = st.integers(0, 800), st.integers(2, 320)  # quarters of a px
row = st.tuples(place, place, side, side, st.integers(3, 100), st.integers(0, 2)).map(
    lambda r: (r[0] / 4, r[1] / 4, (r[0] + r[2]) / 4, (r[1] + r[3]) / 4, r[4] / 100, r[5])
)
detectors = st.lists(st.lists(row, max_size=8), min_size=1, max_size=4)


@settings(deadline=None, max_examples=50)
@given(detectors)
def test_fused_boxes_lie_within_those_seen_and_their_scores_below_the_best(images):
    images = [found(*rows) for rows in images]
    fused = fuse(images, np.ones((len(images), 3)))
    seen = np.concatenate([one.boxes_xyxy_px for one in images])
    labels = np.concatenate([one.labels for one in images])
    scores = np.concatenate([one.scores for one in images])
    assert len(fused) <= len(seen) and set(fused.labels) == set(labels)
    assert (np.diff(fused.scores) <= 1e-6).all()
    for box, score, label in zip(fused.boxes_xyxy_px, fused.scores, fused.labels):
        same = seen[labels == label]
        assert (box >= same.min(0) - 1e-3).all() and (box <= same.max(0) + 1e-3).all()
        assert score <= scores[labels == label].max() + 1e-6
