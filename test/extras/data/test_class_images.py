import os

import cv2
import pytest
from plain_images import grey

from deadline_perception.extras.data.class_images import cut_objects, read_class_folders
from deadline_perception.extras.data.records import Frame, GroundTruth, Sequence


def folder_of(tmp_path, **counts):
    for name, count in counts.items():
        (tmp_path / name).mkdir()
        for number in range(count):
            image = grey(6, 9, 10 * number)
            cv2.imwrite(str(tmp_path / name / f'{number}.png'), image)
    return tmp_path


def test_reads_a_folder_for_each_class_in_the_order_of_names(tmp_path):
    (folder_of(tmp_path, dog=2, cat=3, **{'.thumbnails': 1}) / 'notes.txt').write_text('no class')
    (tmp_path / 'dog/._0.png').write_bytes(b'what a Mac leaves on other disks')
    found = read_class_folders(tmp_path, (4, 8))
    assert found.class_names == ('cat', 'dog') and found.labels.tolist() == [0, 0, 0, 1, 1]
    assert found.images.shape == (5, 4, 8, 3) and found.images[2].max() == 20
    assert read_class_folders(tmp_path, (4, 8), 1).labels.tolist() == [0, 1]


def test_refuses_a_folder_without_images_and_files_that_are_none(tmp_path):
    for count in (0, 1):  # one folder of images is that of a data set
        words = f'holds images of {count} classes, expected a folder of images for each'
        with pytest.raises(ValueError, match=words):
            read_class_folders(tmp_path, (4, 8))
        folder_of(tmp_path, **{f'cat{count}': 1})
    (tmp_path / 'cat0/broken.jpg').write_bytes(b'no image')
    with pytest.raises(ValueError, match='broken.jpg cannot be decoded'):
        read_class_folders(tmp_path, (4, 8))
    (tmp_path / 'cat0/broken.jpg').unlink()
    os.mkfifo(tmp_path / 'cat0/broken.jpg')
    with pytest.raises(ValueError, match='it is no ordinary file but a pipe'):
        read_class_folders(tmp_path, (4, 8))


def sequence_of(boxes, labels, crowd) -> Sequence:
    image = grey(40, 60)
    image[10:20, 30:50] = 255
    known = (None, GroundTruth(boxes, labels, crowd))
    frames = [Frame(str(at), at, lambda: image, None, one) for at, one in enumerate(known)]
    return Sequence('made up', ('car', 'person'), tuple(frames))


def test_cuts_objects_with_a_border_and_leaves_out_crowds_and_small_ones():
    boxes = [[30, 10, 50, 20], [0, 0, 59, 39], [0, 0, 7, 39]]
    found = cut_objects(sequence_of(boxes, [1, 0, 0], [False, True, False]), (12, 24))
    assert found.labels.tolist() == [1] and found.class_names == ('car', 'person')
    assert found.images[0][1:-1, 2:-2].min() == 255 and found.images[0][0].max() == 0
    with pytest.raises(ValueError, match='holds no object of at least 8 px'):
        cut_objects(sequence_of([[0, 0, 3, 3]], [0], [False]), (8, 8))
