import shutil

import cv2
import numpy as np
import pytest
from annotated_images import turn
from plain_images import grey
from read_sequences import boxes_of, classes_of, frame_names, object_counts, opened

from deadline_perception.extras.data.yolo import read_yolo


@pytest.fixture
def root(tmp_path):
    """Two images for validation, one without objects, and one to train on, as Roboflow lays them out."""
    for name in ('valid/images/a.jpg', 'valid/images/b.jpg', 'train/images/c.jpg'):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(tmp_path / name), grey(50, 100))
    for name in ('valid', 'train'):
        (tmp_path / name / 'labels').mkdir()
    (tmp_path / 'valid/labels/a.txt').write_text('1 0.5 0.5 0.2 0.4\n0 0.1 0.2 0.3 0.2 0.3 0.6\n')
    (tmp_path / 'train/labels/c.txt').write_text('0 0.5 0.5 1 1\n')
    (tmp_path / 'data.yaml').write_text(
        'train: ../train/images\nval: ../valid/images\nnc: 2\nnames: [car, dog]\n'
    )
    return tmp_path


def test_boxes_and_outlines_become_corners_in_px(root):
    sequence = opened(root)
    assert sequence.class_names == ('car', 'dog')
    assert frame_names(sequence) == ['a.jpg', 'b.jpg']
    expected = [[40, 15, 60, 35], [10, 10, 30, 30]]
    np.testing.assert_allclose(boxes_of(sequence), expected, atol=1e-4)
    assert classes_of(sequence) == ['dog', 'car']
    assert object_counts(sequence) == [2, 0]  # the second is known to hold nothing
    assert boxes_of(opened(root, split='train')) == [[0, 0, 100, 50]]
    with pytest.raises(FileNotFoundError, match='has no images of test'):
        opened(root, split='test')
    turn(root / 'valid/images/a.jpg')  # boxes are shares of the image upright
    sequence = opened(root)
    assert sequence.frames[0].load_bgr().shape == (100, 50, 3)
    np.testing.assert_allclose(boxes_of(sequence)[0], [20, 30, 30, 70], atol=1e-4)


def test_names_by_number_key_points_and_lists_of_images(root):
    (root / 'data.yaml').write_text(
        'path: .\nval: list.txt\nkpt_shape: [1, 3]\nnames:\n  0: car\n  1: dog\n'
    )
    (root / 'list.txt').write_text('valid/images/a.jpg\n')
    (root / 'valid/labels/a.txt').write_text('1 0.5 0.5 0.2 0.4 0.5 0.5 2\n')
    sequence = read_yolo(root / 'data.yaml')
    assert sequence.class_names == ('car', 'dog')
    np.testing.assert_allclose(boxes_of(sequence), [[40, 15, 60, 35]], atol=1e-4)


LABELS, NAMES = 'valid/labels/a.txt', 'data.yaml'


@pytest.mark.parametrize(
    'name, text, message',
    [
        (LABELS, '2 0.5 0.5 0.2 0.4', 'class is 2, expected 0 to 1'),
        (LABELS, '0 0.5 0.5 0.2 0.4 0.9 7', 'is 7, expected 0 to 1'),  # score and track
        (LABELS, '0 50 25 20 20', 'share of the image is 50'),
        (LABELS, '0 0.5 0.5 0.2', 'has 3 numbers after the class'),
        (LABELS, '0 0.5 0.5 0.2 nan', 'NaN or infinity'),
        (LABELS, 'car 0.5 0.5 0.2 0.4', 'a.txt is not in the form of YOLO'),
        (NAMES, 'names: {0: car, 2: dog}', r'names has the numbers \[0, 2\], expected 0, 1, 2'),
        *((NAMES, f'nc: {n}', f'nc is {n}, expected 1 to 10000') for n in (0, 10_001, 10**29)),
    ],
)
def test_refuses_files_of_another_form(root, name, text, message):
    (root / name).write_text(f'{text}\nval: valid/images\n' if name == NAMES else text)
    with pytest.raises(ValueError, match=message):
        read_yolo(root / 'data.yaml')


@pytest.mark.filterwarnings('error')
def test_labels_without_a_data_yaml_are_told_and_not_passed_over(root):
    opened(shutil.copytree(root / 'valid/images', root / 'own'))  # whose labels no data set has
    with pytest.warns(UserWarning, match='it lies in .*data.yaml'):
        opened(root / 'valid/images')
    (root / 'data.yaml').unlink()
    with pytest.warns(UserWarning, match='1 label files in the form of YOLO .* not read; name the'):
        sequence = opened(root / 'valid/images')
    assert sequence.class_names == ()
    shutil.copytree(root / 'valid/images', root / 'images/val')
    shutil.copytree(root / 'valid/labels', root / 'labels/val')
    with pytest.warns(UserWarning, match='form of YOLO lie in .*labels/val and are not read'):
        opened(root / 'images/val')
    (root / 'valid/labels/a.txt').unlink()
    opened(root / 'valid/images')
