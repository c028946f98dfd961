from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from deadline_perception.runtime.tracks import LatePolicy, Tracks, match_greedily, pairwise_iou
from deadline_perception.detector.detections import Detections

SIZE = (380, 640)


def objects(*rows) -> Detections:
    """Detections from rows of x1, y1, x2, y2, score, label."""
    table = np.array(rows, dtype=np.float64).reshape(-1, 6)
    return Detections(table[:, :4], table[:, 4], table[:, 5])


def test_iou_computed_by_hand():
    boxes = np.array([[0, 0, 10, 10], [5, 0, 15, 10], [3, 3, 3, 3]], dtype=float)
    assert pairwise_iou(boxes, boxes) == pytest.approx(np.array([[1, 1 / 3, 0], [1 / 3, 1, 0], [0, 0, 0]]))
    assert pairwise_iou(np.zeros((0, 4)), boxes).shape == (0, 3)


def test_matches_the_largest_overlap_first_and_never_across_labels():
    first = objects((0, 0, 10, 10, 0.9, 0), (4, 0, 14, 10, 0.8, 0), (0, 0, 10, 10, 0.7, 1))
    second = objects((3, 0, 13, 10, 0.9, 0), (0, 0, 10, 10, 0.6, 2))
    assert match_greedily(first, second, 0.3) == [(1, 0)]
    assert match_greedily(first, Detections.none(), 0.3) == []
    assert match_greedily(first, second, 0.9) == []


def test_moving_object_is_predicted_where_it_will_be():
    tracker = Tracks(SIZE, score_half_life_s=0.5)
    tracker.update(objects((100, 100, 140, 120, 0.8, 2)), 1.0)
    tracker.update(objects((104, 100, 144, 122, 0.8, 2)), 1.1)
    predicted = tracker.predict(1.35)
    assert predicted.boxes_xyxy_px == pytest.approx(np.array([[114, 100, 154, 127]]), abs=1e-3)
    assert predicted.labels.tolist() == [2]
    assert predicted.scores == pytest.approx([0.8 * 0.5 ** 0.5])


def test_velocity_is_smoothed():
    tracker = Tracks(SIZE, velocity_gain=0.25)
    for stamp_s, left in ((0.0, 100), (0.1, 110), (0.2, 124)):
        tracker.update(objects((left, 50, left + 60, 100, 0.9, 0)), stamp_s)
    # 100 px/s, then a quarter of the way to 140 px/s.
    assert tracker.predict(0.3).boxes_xyxy_px[0, 0] == pytest.approx(124 + 11.0, abs=1e-3)


def test_new_object_stands_still():
    tracker = Tracks(SIZE)
    tracker.update(objects((10, 10, 50, 50, 0.9, 0)), 0.0)
    tracker.update(objects((300, 200, 350, 250, 0.9, 0)), 0.1)
    assert tracker.predict(0.2).boxes_xyxy_px.tolist() == [[300, 200, 350, 250]]


def test_prediction_is_clipped_and_what_has_left_the_image_is_gone():
    tracker = Tracks(SIZE, max_age_s=5.0)
    tracker.update(objects((560, 100, 620, 160, 0.9, 0), (100, 100, 160, 160, 0.8, 0)), 0.0)
    tracker.update(objects((580, 100, 640, 160, 0.9, 0), (100, 100, 160, 160, 0.8, 0)), 0.1)
    assert tracker.predict(0.2).boxes_xyxy_px.tolist() == [[600, 100, 640, 160], [100, 100, 160, 160]]
    assert tracker.predict(1.0).boxes_xyxy_px.tolist() == [[100, 100, 160, 160]]


def test_shrinking_object_never_turns_inside_out():
    tracker = Tracks(SIZE, max_age_s=5.0)
    tracker.update(objects((100, 100, 200, 200, 0.9, 0)), 0.0)
    tracker.update(objects((110, 110, 190, 190, 0.9, 0)), 0.1)
    assert len(tracker.predict(0.4)) == 1
    assert len(tracker.predict(2.0)) == 0


def test_nothing_seen_means_nothing_there():
    tracker = Tracks(SIZE)
    assert len(tracker.predict(0.0)) == 0
    tracker.update(objects((10, 10, 50, 50, 0.9, 0)), 0.0)
    tracker.update(Detections.none(), 0.1)
    assert len(tracker.predict(0.15)) == 0
    tracker.update(objects((10, 10, 50, 50, 0.9, 0)), 0.2)
    assert len(tracker.predict(0.25)) == 1


@pytest.mark.parametrize('later_s', [5.0, 12.0])
def test_stamp_that_goes_back_or_far_ahead_resets(later_s):
    tracker = Tracks(SIZE, max_age_s=1.0)
    tracker.update(objects((10, 10, 50, 50, 0.9, 0)), 9.9)
    tracker.update(objects((20, 10, 60, 50, 0.9, 0)), 10.0)
    assert len(tracker.predict(later_s)) == 0
    tracker.update(objects((30, 10, 70, 50, 0.9, 0)), later_s)
    assert tracker.predict(later_s + 0.1).boxes_xyxy_px.tolist() == [[30, 10, 70, 50]]


def test_same_stamp_again_replaces_the_objects_and_keeps_their_velocity():
    tracker = Tracks(SIZE)
    tracker.update(objects((100, 100, 150, 150, 0.9, 0)), 0.0)
    tracker.update(objects((110, 100, 160, 150, 0.9, 0)), 0.1)
    tracker.update(objects((112, 100, 162, 150, 0.5, 0)), 0.1)
    predicted = tracker.predict(0.2)
    assert predicted.boxes_xyxy_px == pytest.approx(np.array([[122, 100, 172, 150]]), abs=1e-3)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), stamps_s=st.lists(st.floats(-3, 3), min_size=1, max_size=6))
def test_predictions_are_always_valid_and_never_more_certain(seed, stamps_s):
    rng = np.random.default_rng(seed)
    tracker = Tracks(SIZE)
    for stamp_s in stamps_s:
        count = int(rng.integers(0, 6))
        corners = rng.uniform(-20, 600, (count, 2))
        found = Detections(np.hstack([corners, corners + rng.uniform(0, 80, (count, 2))]),
                           np.sort(rng.uniform(0, 1, count))[::-1], rng.integers(0, 2, count))
        tracker.update(found, stamp_s)
        predicted = tracker.predict(stamp_s + float(rng.uniform(0, 0.9)))
        boxes = predicted.boxes_xyxy_px
        assert len(predicted) <= count
        assert (boxes >= 0).all() and (boxes <= [640, 380, 640, 380]).all()
        assert (np.diff(predicted.scores) <= 0).all()
        assert predicted.scores.max(initial=0.0) <= found.scores.max(initial=0.0)


def test_refuses_impossible_values():
    tracker = Tracks(SIZE)
    for stamp_s in (math.nan, math.inf):
        with pytest.raises(ValueError, match='expected a finite time'):
            tracker.predict(stamp_s)
        with pytest.raises(ValueError, match='expected a finite time'):
            tracker.update(Detections.none(), stamp_s)
    with pytest.raises(ValueError, match=r'image_size is \(0, 10\)'):
        Tracks((0, 10))
    with pytest.raises(ValueError, match='velocity_gain 0.0'):
        Tracks(SIZE, velocity_gain=0.0)
    with pytest.raises(ValueError, match='max_age_s 0.0|max_age_s 0'):
        Tracks(SIZE, max_age_s=0.0)


def test_late_policies_read_as_parameters():
    assert [LatePolicy(value) for value in ('coasted', 'late')] == list(LatePolicy)


def test_objects_of_another_image_size_are_forgotten():
    tracker = Tracks()
    assert len(tracker.predict(0.0)) == 0
    tracker.follow(SIZE)
    tracker.update(objects((1, 1, 9, 9, 0.9, 0)), 0.0)
    tracker.follow(SIZE)
    assert len(tracker.predict(0.0)) == 1
    tracker.follow((20, 30))
    assert len(tracker.predict(0.0)) == 0
