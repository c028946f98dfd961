import cv2
import pytest
from plain_images import grey
from read_sequences import (
    boxes_of,
    classes_of,
    crowd_of,
    frame_names,
    object_counts,
    speeds_mps,
    stamps_ns,
)

from deadline_perception.extras.data.cityscapes import read_cityscapes


def test_stamps_follow_frame_numbers_and_snippets_and_polygons_become_boxes(cityscapes_root):
    sequence = read_cityscapes(cityscapes_root)
    assert frame_names(sequence) == ['ulm_000000_000018', 'ulm_000000_000019', 'ulm_000001_000019']
    assert stamps_ns(sequence) == [0, round(1e9 / 17), round(1e9 / 17 + 1e9)]
    assert speeds_mps(sequence) == [5.5, 6.0, 0.25]
    assert sequence.frames[2].load_bgr().shape == (64, 128, 3)
    assert object_counts(sequence) == [None, 7, None]
    expected = ('person', 'rider', 'car', 'truck', 'bus', 'train', 'motorcycle', 'bicycle')
    assert sequence.class_names == expected
    expected = ['car', 'car', 'bicycle', 'person', 'person', 'rider', 'truck']
    assert classes_of(sequence, 1) == expected
    assert crowd_of(sequence, 1) == [False, True, False, False, True, False, True]  # groups
    assert boxes_of(sequence, 1)[:3] == [[10, 20, 40, 44], [60, 20, 80, 30], [90, 30, 99, 45]]


def test_refuses_other_folders_and_broken_files(cityscapes_root, tmp_path_factory):
    with pytest.raises(FileNotFoundError, match='leftImg8bit_sequence/val'):
        read_cityscapes(tmp_path_factory.mktemp('empty'))
    (cityscapes_root / 'leftImg8bit/test/bonn').mkdir(parents=True)
    with pytest.raises(ValueError, match=r'test/\* holds no \*_leftImg8bit.png'):
        read_cityscapes(cityscapes_root, 'test')
    image = cityscapes_root / 'leftImg8bit/val/ulm/ulm_000000_000019_leftImg8bit.png'
    assert cv2.imwrite(str(image), grey(32, 64))
    with pytest.raises(ValueError, match='is 64 x 32 px, expected 128 x 64 px'):
        read_cityscapes(cityscapes_root)
    polygons = cityscapes_root / 'gtFine/val/ulm/ulm_000000_000019_gtFine_polygons.json'
    polygons.write_text('{"objects": [{"polygon": []}]}')
    with pytest.raises(ValueError, match="lacks the key 'label', expected gtFine polygons"):
        read_cityscapes(cityscapes_root)
    polygons.unlink()
    (cityscapes_root / 'leftImg8bit/val/ulm/x_leftImg8bit.png').write_bytes(b'')
    with pytest.raises(ValueError, match="frame is called 'x'"):
        read_cityscapes(cityscapes_root)
