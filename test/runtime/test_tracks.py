import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadline_perception.core.detections import Detections, match_objects, pairwise_iou
from deadline_perception.runtime.tracks import MAX_OBJECTS, Tracks

SIZE = (380, 640)


def objects(*rows):
    """Detections from rows of x1, y1, x2, y2, score, label."""
    table = np.array(rows, dtype=np.float64).reshape(-1, 6)
    return Detections(table[:, :4], table[:, 4], table[:, 5])


def square(left, side=40, top=100, score=0.8, label=0):
    """A row of such a table."""
    return left, top, left + side, top + side, score, label


def pairs(*given):
    return [pair.tolist() for pair in match_objects(*given)]


def test_overlaps_by_hand_and_pairs_that_overlap_most_together_and_never_cross_labels():
    boxes = np.array([[0, 0, 10, 10], [5, 0, 15, 10], [3, 3, 3, 3]], dtype=float)
    expected = [[1, 1 / 3, 0], [1 / 3, 1, 0], [0, 0, 0]]
    assert pairwise_iou(boxes, boxes) == pytest.approx(np.array(expected))
    assert pairwise_iou(np.zeros((0, 4)), boxes).shape == (0, 3)
    first = objects(square(0, 10), square(4, 10), square(0, 10, label=1))
    second = objects(square(3, 10), square(0, 10, label=2))
    assert pairs(first, second, 0.3) == [[1], [0]]
    # The nearest pair and what it leaves: 9/11 and 3/17; the two others: 7/13 each.
    first, second = (objects(*(square(x, 10) for x in lefts)) for lefts in ((0, 4), (3, 7)))
    for least in (0.02, 0.5):
        assert pairs(first, second, least) == [[0, 1], [0, 1]]
    assert pairs(first, second, 0.7) == [[1], [0]]
    assert pairs(first, Detections.none(), 0.3) == pairs(first, second, 0.9) == [[], []]


def moving(px_per_s, steps):
    """Tracks of one object that was seen every 0.1 s."""
    tracks = Tracks(SIZE)
    for step in range(steps):
        tracks.update(objects(square(100 + 0.1 * px_per_s * step, label=2)), 0.1 * step)
    return tracks


def test_one_step_of_the_filter_computed_by_hand():
    tracks = Tracks(SIZE)
    tracks.update(objects(square(100, 20)), 0.0)
    tracks.update(objects(square(110, 20)), 0.5)
    # Variances in sizes of 20 px: of the measurement 0.0009, of the place that + 0.25 * 16 + 1.5625 * 0.125 / 3, and of
    # place and velocity 0.5 * 16 + 1.5625 * 0.25 / 2; so gains 4.0660 / 4.0669 and 8.1953 / 4.0669, of 10 px.
    expected = 100 + 10 * (4.0660 / 4.0669 + 0.1 * 8.1953 / 4.0669)
    assert tracks.predict(0.6).boxes_xyxy_px[0, 0] == pytest.approx(expected, abs=1e-3)


def test_small_objects_are_followed_through_a_turn_of_the_camera():
    """Which moves all of an image by more than their widths; the large ones, which still overlap, show by how much."""
    large = [square(x, 120) for x in (0, 150, 300)]
    small = [square(x, 8, 300) for x in (20, 60, 100, 140)]
    tracks = Tracks(SIZE)
    for step in range(6):
        before = tracks.update(objects(*large, *small), 0.1 * step).ids
    turned = [(left + 30, top, right + 30, *rest) for left, top, right, *rest in (*large, *small)]
    assert tracks.update(objects(*turned), 0.6).ids.tolist() == before.tolist()


def test_predictions_are_clipped_and_what_has_left_the_image_or_is_missed_for_long_is_gone():
    tracks = moving(500.0, 10)
    assert tracks.predict(0.95).boxes_xyxy_px[0, [0, 2]] == pytest.approx([575, 615], abs=1)
    assert tracks.predict(1.02).boxes_xyxy_px[0, 2] == 640
    assert len(tracks.predict(1.2)) == 0
    tracks = moving(60.0, 10)
    tracks.update(Detections.none(), 1.0)
    missed = tracks.predict(1.0)  # goes on with a lower score
    assert missed.scores == pytest.approx([0.8 * 0.5 ** (0.1 / 0.15)])
    assert missed.boxes_xyxy_px[0, 0] == pytest.approx(160, abs=0.5)
    for stamp_s, count in ((1.35, 1), (1.45, 0)):
        tracks.update(Detections.none(), stamp_s)
        assert len(tracks.predict(stamp_s)) == count


def test_a_box_of_a_low_score_is_the_object_that_surer_ones_leave():
    tracks = moving(0.0, 10)
    unsure, sure = square(100, score=0.1, label=2), square(108, score=0.5, label=2)
    assert tracks.update(objects(unsure, sure), 1.0).ids.tolist() == [2, 1]  # it lies farther off
    fading = square(112, score=0.1, label=2)
    assert tracks.update(objects(fading), 1.1).ids.tolist() == [1]


def test_no_more_objects_are_kept_beside_a_result_than_the_limit():
    tracks, rng, count = Tracks(SIZE), np.random.default_rng(0), MAX_OBJECTS // 2
    for step in range(5):
        corners = rng.uniform(0, 300, (count, 2))
        boxes, labels = np.hstack([corners, corners + 4]), np.arange(count) + 100 * step
        tracks.update(Detections(boxes, np.full(count, 0.5), labels), 0.1 * step)
    assert len(tracks.predict(0.4)) == MAX_OBJECTS
    assert (tracks.predict(0.4).labels[: MAX_OBJECTS // 2] >= 400).all()


@pytest.mark.parametrize('later_s', [5.0, 12.0])
def test_a_stamp_that_goes_back_or_far_ahead_resets(later_s):
    tracks = Tracks(SIZE)
    tracks.update(objects(square(10)), 9.9)
    tracks.update(objects(square(20)), 10.0)
    assert len(tracks.predict(later_s)) == 0
    assert tracks.evidence_s is None
    tracks.update(objects(square(30)), later_s)
    assert tracks.predict(later_s + 0.1).boxes_xyxy_px.tolist() == [[30, 100, 70, 140]]
    assert tracks.evidence_s == later_s


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), stamps_s=st.lists(st.floats(-3, 3), min_size=1, max_size=6))
def test_predictions_are_always_valid_and_never_more_certain(seed, stamps_s):
    rng, highest = np.random.default_rng(seed), 0.0
    tracks = Tracks(SIZE)
    for stamp_s in stamps_s:
        count = int(rng.integers(0, 6))
        corners = rng.uniform(-20, 600, (count, 2))
        found = Detections(
            np.hstack([corners, corners + rng.uniform(0, 80, (count, 2))]),
            np.sort(rng.uniform(0, 1, count))[::-1],
            rng.integers(0, 2, count),
        )
        tracks.update(found, stamp_s)
        highest = max(highest, found.scores.max(initial=0.0))
        predicted = tracks.predict(stamp_s + float(rng.uniform(0, 0.9)))
        boxes = predicted.boxes_xyxy_px
        assert (boxes >= 0).all() and (boxes <= [640, 380, 640, 380]).all()
        assert (np.diff(predicted.scores) <= 0).all()
        assert predicted.scores.max(initial=0.0) <= highest


def seen(tracks, left_px, stamp_s):
    """The id of an object of 40 px there."""
    (track,) = tracks.update(objects(square(left_px)), stamp_s).ids
    return int(track)


def test_an_object_keeps_its_id_through_dropped_images_and_results_that_miss_it():
    tracks = Tracks(SIZE)
    for stamp_s in (0.0, 0.1, 0.2, 0.4):
        assert seen(tracks, 100 + 60 * stamp_s, stamp_s) == 1
    tracks.update(Detections.none(), 0.5)
    assert tracks.predict(0.6).ids.tolist() == [1]  # coasted
    assert seen(tracks, 142, 0.7) == 1
    # A further result of the same image has the same ids, and a new object a new one.
    further = tracks.update(objects(square(300), square(143)), 0.7)
    assert further.ids.tolist() == [2, 1] and sorted(tracks.predict(0.8).ids.tolist()) == [1, 2]
    assert seen(tracks, 143, 0.2) == 3  # the stamp went back: all are forgotten
    tracks.follow((100, 100))
    assert seen(tracks, 11, 0.3) == 4
