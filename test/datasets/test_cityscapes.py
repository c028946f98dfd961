from __future__ import annotations

import shutil

import numpy as np
import pytest

from deadline_perception.datasets.cityscapes import boxes_of_instances, read_cityscapes


def test_stamps_follow_frame_numbers_and_snippets(cityscapes_root):
    sequence = read_cityscapes(cityscapes_root)
    assert [frame.name for frame in sequence.frames] == ['ulm_000000_000018', 'ulm_000000_000019', 'ulm_000001_000019']
    assert [frame.stamp_ns for frame in sequence.frames] == [0, round(1e9 / 17), round(1e9 / 17 + 1e9)]
    assert [frame.speed_mps for frame in sequence.frames] == [5.5, 6.0, 0.25]
    assert sequence.frames[2].load_bgr().shape == (64, 128, 3)


def test_polygons_become_boxes_and_groups_become_crowd(cityscapes_root):
    first, second, _ = read_cityscapes(cityscapes_root, 'val', 'ulm').frames
    assert first.truth is None
    assert second.truth.boxes_xyxy_px.tolist() == [[10, 20, 40, 44], [60, 20, 80, 30], [90, 30, 99, 45],
                                                   [100, 2, 104, 12]]
    assert second.truth.labels.tolist() == [0, 0, 1, 3]
    assert second.truth.crowd.tolist() == [False, True, False, False]


def test_instance_ids_become_boxes_where_polygons_are_absent(cityscapes_root):
    truth = read_cityscapes(cityscapes_root).frames[2].truth
    found = {(tuple(box), label, crowd) for box, label, crowd in
             zip(truth.boxes_xyxy_px.tolist(), truth.labels.tolist(), truth.crowd.tolist())}
    assert found == {((20, 30, 50, 40), 0, False), ((70, 30, 80, 36), 1, True), ((100, 5, 103, 10), 4, False),
                     ((110, 5, 114, 10), 4, False)}


def test_instances_of_nothing_known_are_no_boxes():
    assert boxes_of_instances(np.full((8, 8), 24001, np.uint16)) == ([], [], [])


def test_prefers_the_frames_of_whole_snippets(cityscapes_root):
    source = cityscapes_root / 'leftImg8bit/val/ulm/ulm_000000_000018_leftImg8bit.png'
    target = cityscapes_root / 'leftImg8bit_sequence/val/ulm'
    target.mkdir(parents=True)
    for number in (17, 18, 19):
        shutil.copy(source, target / f'ulm_000000_{number:06d}_leftImg8bit.png')
    sequence = read_cityscapes(cityscapes_root)
    assert [frame.name[-2:] for frame in sequence.frames] == ['17', '18', '19']
    assert [len(frame.truth) if frame.truth else None for frame in sequence.frames] == [None, None, 4]


def test_refuses_other_folders_and_broken_files(cityscapes_root, tmp_path_factory):
    with pytest.raises(FileNotFoundError, match='leftImg8bit_sequence/val'):
        read_cityscapes(tmp_path_factory.mktemp('empty'))
    with pytest.raises(ValueError, match=r'bonn holds no \*_leftImg8bit.png'):
        read_cityscapes(cityscapes_root, city='bonn')
    polygons = cityscapes_root / 'gtFine/val/ulm/ulm_000000_000019_gtFine_polygons.json'
    polygons.write_text('{"objects": [{"polygon": []}]}')
    with pytest.raises(ValueError, match='gtFine polygon format'):
        read_cityscapes(cityscapes_root)
    polygons.unlink()
    ids = cityscapes_root / 'gtFine/val/ulm/ulm_000001_000019_gtFine_instanceIds.png'
    shutil.copy(cityscapes_root / 'leftImg8bit/val/ulm/ulm_000000_000018_leftImg8bit.png', ids)
    with pytest.raises(ValueError, match='expected one 16-bit channel'):
        read_cityscapes(cityscapes_root)
    ids.unlink()
    (cityscapes_root / 'leftImg8bit/val/ulm/x_leftImg8bit.png').write_bytes(b'')
    with pytest.raises(ValueError, match="frame is called 'x'"):
        read_cityscapes(cityscapes_root)
