import json
import os
from pathlib import Path

import cv2
import pytest
from annotated_images import turn
from plain_images import grey
from read_sequences import (
    boxes_of,
    classes_of,
    crowd_of,
    frame_names,
    object_counts,
    opened,
    stamps_ns,
)

from deadline_perception.extras.data.coco import read_coco


def change(folder: Path, edit) -> Path:
    file = folder / 'val.json'
    content = json.loads(file.read_text())
    edit(content)
    file.write_text(json.dumps(content))
    return file


@pytest.mark.filterwarnings('error')
def test_reads_images_in_file_order_with_made_up_stamps(coco_folder):
    sequence = read_coco(coco_folder / 'val.json', rate_hz=4.0)
    assert sequence.class_names == ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign')
    assert frame_names(sequence) == ['images/Town01_000002.png', 'images/Town01_000001.png']
    assert stamps_ns(sequence) == [0, 250_000_000]
    assert boxes_of(sequence) == [[4, 5, 24, 15], [40, 2, 43, 8]]
    with pytest.warns(UserWarning, match=r'labels in the form of COCO lie in .*val.json and are'):
        opened(coco_folder / 'images')
    assert classes_of(sequence) == ['vehicle', 'traffic_light']
    assert crowd_of(sequence) == [False, True]
    assert sequence.frames[1].load_bgr().shape == (40, 64, 3)
    assert sequence.frames[0].speed_mps is None
    opened((coco_folder / 'images').rename(coco_folder / 'own'))  # of which the file names none


@pytest.mark.filterwarnings('ignore:.*left out')
def test_an_image_that_cannot_be_decoded_is_left_out_with_a_warning(coco_folder):
    (coco_folder / 'images' / 'Town01_000002.png').write_bytes(b'no image')
    with pytest.warns(UserWarning, match='1 of 2 images are left out, the first.*be dec'):
        sequence = read_coco(coco_folder / 'val.json')
    assert frame_names(sequence) == ['images/Town01_000001.png']
    (coco_folder / 'images' / 'Town01_000001.png').write_bytes(b'')
    with pytest.raises(ValueError, match='holds no frame, expected at least one'):
        read_coco(coco_folder / 'val.json')


MANY = [{'id': number, 'name': str(number)} for number in range(10**5)]


@pytest.mark.parametrize(
    'edit, message',
    [
        (lambda c: c['annotations'][0].update(category_id=9), r'annotation 1 has category.*\[1, 2'),
        (lambda c: c['images'][0].update(file_name='images/gone.png'), '1 of 2 images are missing'),
        (lambda c: c['images'][1].update(id=8), 'image id 8 occurs 2 times'),
        (lambda c: c['annotations'][1].update(image_id=77), 'belong to image 77'),
        (lambda c: c['annotations'][1].update(bbox=[1, 2, 3]), r'annotation 2 has the box.*2, 3\]'),
        (lambda c: c['annotations'][1].update(bbox=[1, 2, 3, '\x1b4']), 'expected four numbers'),
        (lambda c: c['annotations'][1].update(iscrowd='yes'), "iscrowd 'yes', expected 0 or 1"),
        (lambda c: c['categories'][1].update(id=1), 'category id 1 occurs 2 times'),
        *(
            (lambda c, name=name: c['categories'][0].update(name=name), 'expected 1 to 100 print')
            for name in ('', 'a' * 101, 'two\nlines', '\ud800', '\x1b[2J', 7)
        ),
        (lambda c: c.update(categories=MANY), 'are 100000 class names, expected at most 10000'),
        (lambda c: c['categories'][3].update(name='vehicle'), "name 'vehicle' occurs 2 times"),
        (
            lambda c: c['images'][1].update(file_name='images/Town01_000002.png'),
            'image file_name images/Town01_000002.png occurs 2 times',
        ),
        # What a terminal obeys, and numbers without end.
        (lambda c: c['images'][0].update(file_name='images/\x1b[31m.png'), 'are missing'),
        (lambda c: c['annotations'][0].update(category_id='\x7f\u202e'), 'has category'),
        (lambda c: c['annotations'][0].update(bbox=[10**400, 0, 1, 1]), 'a number of 401 digits'),
        (lambda c: c['images'][0].update(width=640), 'Town01_000002.png is 64 x 40 px.*40 px'),
        (lambda c: c.pop('categories'), "lacks the key 'categories'"),
        (lambda c: c['images'][0].update(file_name='/dev/zero'), 'is an absolute path'),
    ],
)
def test_refuses_broken_files_with_the_value(coco_folder, edit, message):
    with pytest.raises(ValueError, match=message) as refused:
        read_coco(change(coco_folder, edit))
    assert str(refused.value).isprintable()


def test_refuses_what_is_absent_and_does_not_wait_for_a_pipe(tmp_path):
    os.mkfifo(tmp_path / 'pipe.json')
    for name in ('none.json', 'pipe.json'):
        with pytest.raises(FileNotFoundError, match='COCO'):
            read_coco(tmp_path / name)


BOX = {'id': 1, 'image_id': 1, 'category_id': 1, 'bbox': [1, 2, 10, 20]}
CAR = {'id': 1, 'name': 'car'}
ROOT = {'id': 0, 'name': 'car', 'supercategory': 'none'}
SIZE = 64, 48


def objects(
    root, file, image, opened_as=None, *, name='a.jpg', marked=(BOX,), categories=(CAR,), size=SIZE
):
    """Class and box of each object that is read of one image, None of an image without annotations."""
    for place in (root / file, root / image):
        place.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(root / image), grey(48, 64, 90))
    row = {'id': 1, 'file_name': name, **dict(zip(('width', 'height'), size))}
    content = {'images': [row], 'categories': list(categories)}
    if marked is not None:
        content['annotations'] = list(marked)
    (root / file).write_text(json.dumps(content))
    sequence = opened(root / (file if opened_as is None else opened_as))
    assert [frame.load_bgr().shape for frame in sequence.frames] == [(48, 64, 3)]
    if object_counts(sequence) == [None]:
        return None
    return [(name, *box) for name, box in zip(classes_of(sequence), boxes_of(sequence))]


ONE = [('car', 1, 2, 11, 22)]


@pytest.mark.parametrize(
    'file, image, opened',
    [
        ('annotations/instances_val2017.json', 'val2017/a.jpg', None),
        ('annotations/instances_val2017.json', 'val2017/a.jpg', '.'),
        ('annotations/instances_val2017.json', 'images/val2017/a.jpg', '.'),
        ('annotations/instances_val2017.json', 'images/a.jpg', '.'),
        ('annotations/val.json', 'images/a.jpg', '.'),
        ('annotations/instances_default.json', 'images/default/a.jpg', None),
        ('annotations/instances_default.json', 'images/default/a.jpg', '.'),
        ('annotations/instances_default.json', 'images/a.jpg', '.'),
        ('valid/_annotations.coco.json', 'valid/a.jpg', '.'),
        ('_annotations.coco.json', 'a.jpg', '.'),
        ('labels.json', 'data/a.jpg', '.'),
        ('train/labels.json', 'train/data/a.jpg', '.'),
        ('train.json', 'images/a.jpg', '.'),
        ('val.json', 'val/a.jpg', '.'),
    ],
)
def test_usual_layouts_are_read_by_file_and_by_folder(tmp_path, file, image, opened):
    assert objects(tmp_path, file, image, opened) == ONE


def test_a_folder_of_splits_is_read_by_split_and_never_without_its_boxes(tmp_path):
    for split in ('train', 'valid', 'test'):
        named = {'id': 1, 'name': f'{split} car'}
        objects(tmp_path, f'{split}/_annotations.coco.json', f'{split}/a.jpg', categories=(named,))
    for split, name in ((None, 'valid car'), ('val', 'valid car'), ('test', 'test car'),
                        ('train', 'train car')):  # fmt: skip
        assert opened(tmp_path, split=split).class_names == (name,)


@pytest.mark.parametrize(
    'change',
    [
        {'name': 'images\\a.jpg'},
        {'categories': (ROOT, CAR)},
        {'categories': (ROOT, {**CAR, 'id': 5}), 'marked': ({**BOX, 'category_id': 5},)},
        {'size': ()},
        {'size': (None, None)},
        {'size': ('64', '48')},
        {'size': (64.0, 48.0)},
        {'categories': ({**CAR, 'id': '1'},)},
        {'marked': ({**BOX, 'category_id': '1', 'image_id': '1'},)},
        {'marked': ({key: value for key, value in BOX.items() if key != 'id'},)},
        {'marked': ({**BOX, 'iscrowd': '0'},)},
        {'marked': ({**BOX, 'iscrowd': None},)},
    ],
)
def test_what_tools_write_another_way_is_read(tmp_path, change):
    change = {'name': 'images/a.jpg', **change}
    assert objects(tmp_path, 'val.json', 'images/a.jpg', **change) == ONE
    for marked, known in ((None, None), ((), [])):  # unknown, and known to be none
        found = objects(tmp_path, 'b.json', 'images/b.jpg', name='images/b.jpg', marked=marked)
        assert found == known


@pytest.mark.parametrize(
    'box', [{'segmentation': [[1, 1, 5, 1, 5, 5]]}, {'bbox': []}, {'bbox': None}]
)
def test_objects_without_a_box_are_dropped_and_counted(tmp_path, box):
    other = {'id': 2, 'image_id': 1, 'category_id': 1, **box}
    with pytest.warns(UserWarning, match='1 boxes not given, their objects dropped'):
        assert objects(tmp_path, 'val.json', 'a.jpg', marked=(BOX, other)) == ONE


def test_a_mark_of_byte_order_is_no_fault_and_crowds_are_told_by_text_too(tmp_path):
    objects(tmp_path, 'val.json', 'a.jpg', marked=({**BOX, 'iscrowd': '1'},))
    text = (tmp_path / 'val.json').read_text()
    (tmp_path / 'val.json').write_text(text, encoding='utf-8-sig')
    assert crowd_of(read_coco(tmp_path / 'val.json')) == [True]


def test_boxes_that_were_drawn_on_the_upright_image_get_it_upright(tmp_path):
    objects(tmp_path, 'val.json', 'a.jpg')
    plain = (tmp_path / 'a.jpg').read_bytes()
    turn(tmp_path / 'a.jpg')
    assert read_coco(tmp_path / 'val.json').frames[0].load_bgr().shape == (48, 64, 3)
    content = json.loads((tmp_path / 'val.json').read_text())
    content['images'][0].update(width=48, height=64)
    (tmp_path / 'val.json').write_text(json.dumps(content))
    assert read_coco(tmp_path / 'val.json').frames[0].load_bgr().shape == (64, 48, 3)
    (tmp_path / 'a.jpg').write_bytes(plain)
    with pytest.raises(ValueError, match='is 64 x 48 px, expected 48 x 64 px'):
        read_coco(tmp_path / 'val.json')
