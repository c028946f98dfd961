import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from json_damage import boxes_are_finite, damaged, fuzzed, reads_or_refuses_in_one_line

from deadline_perception.extras.data.bdd100k import read_bdd100k_tracks
from deadline_perception.extras.data.cityscapes import read_cityscapes
from deadline_perception.extras.data.coco import read_coco
from deadline_perception.extras.data.ground_truth import GroundTruthCollector


def test_counts_over_images_and_warns_once():
    collector = GroundTruthCollector('set')
    first = collector.collect([(-1, 0, 5, 5), (3, 3, 3, 9)], [0, 1], [False, True], 10, 10)
    second = collector.collect(
        [(8, 8, 30, 9), (20, 2, 30, 5), (5, 5, 2, 8)], [2] * 3, [True] * 3, 10, 10
    )
    for category in ('tram', 'tram', 'cow'):
        collector.leave_out(category)
    assert first.boxes_xyxy_px.tolist() == [[0, 0, 5, 5]] and first.labels.tolist() == [0]
    assert second.boxes_xyxy_px.tolist() == [[8, 8, 10, 9]] and second.crowd.tolist() == [True]
    with pytest.warns(UserWarning, match='set: 2 boxes clipped to the image, 1 boxes.*unknown'):
        collector.report()


def test_is_silent_about_rounding():
    collector = GroundTruthCollector('set')
    collector.collect([(-0.05, 0, 5, 10.04)], [0], [False], 10, 10)
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        collector.report()
    assert len(collector.collect([], [], [], 10, 10)) == 0


def test_refuses_boxes_that_are_no_numbers():
    with pytest.raises(ValueError, match=r'box \[0.0, nan, 1.0, 1.0\]'):
        GroundTruthCollector('set').collect([(0, float('nan'), 1, 1)], [0], [False], 10, 10)
    with pytest.raises(ValueError, match='set: an image is 0 x 10 px'):
        GroundTruthCollector('set').collect([], [], [], 0, 10)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(*[st.floats(-50, 150)] * 4), max_size=12))
def test_whatever_remains_lies_inside(boxes):
    ground_truth = GroundTruthCollector('set').collect(
        boxes, [0] * len(boxes), [False] * len(boxes), 100, 60
    )
    kept = ground_truth.boxes_xyxy_px
    assert (kept >= 0).all() and (kept[:, 2] <= 100).all() and (kept[:, 3] <= 60).all()
    assert (kept[:, 2:] >= kept[:, :2]).all()
    inside = [b for b in boxes if 0 <= b[0] < b[2] <= 100 and 0 <= b[1] < b[3] <= 60]
    assert len(inside) <= len(kept) <= len(boxes)


CITYSCAPES = (
    'gtFine/val/ulm/ulm_000000_000019_gtFine_polygons.json',
    'vehicle/val/ulm/ulm_000000_000018_vehicle.json',
)
BDD100K = [f'{part}/val/b1c66a42-6f7d68ca.json' for part in ('labels/box_track_20', 'info/100k')]


@pytest.mark.parametrize(
    'folder, read, files',
    [
        ('coco_folder', lambda root: read_coco(root / 'val.json'), ('val.json',)),
        ('cityscapes_root', read_cityscapes, CITYSCAPES),
        ('bdd100k_tracks', read_bdd100k_tracks, BDD100K),
    ],
)
@fuzzed
@given(data=st.data())
def test_whatever_files_hold_is_read_or_refused_in_one_line(request, folder, read, files, data):
    root = request.getfixturevalue(folder)
    for file in files:
        data.draw(damaged(root / file))
    sequence = reads_or_refuses_in_one_line(read, root)
    assert sequence is None or boxes_are_finite(sequence)
