import warnings

import numpy as np
import pytest

from deadline_perception.core.opencv import cv2
from deadline_perception.extras.data.source import open_source
from deadline_perception.extras.data.unread_images import unread_images

IMAGE = np.zeros((8, 8, 3), np.uint8)


def write_images(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        assert cv2.imwrite(str(folder / name), IMAGE)


def test_a_folder_of_images_names_those_that_are_not_read(tmp_path):
    write_images(tmp_path, 'a.jpg', 'b.tif', 'c.TIFF', 'd.tif')
    with pytest.warns(UserWarning, match=r'not read \(2 .tif, 1 .tiff\), expected JPEG, PNG'):
        sequence = open_source(str(tmp_path))
    assert [frame.name for frame in sequence.frames] == ['a.jpg']


def test_a_folder_of_nothing_else_is_refused_by_name(tmp_path):
    write_images(tmp_path, 'a.tif')
    with pytest.raises(ValueError, match=r'images are not read \(1 .tif\), expected JPEG, PNG'):
        open_source(str(tmp_path))


def test_folders_and_lists_of_yolo_name_them_too(tmp_path):
    write_images(tmp_path / 'images', 'a.jpg', 'b.tif')
    (tmp_path / 'list.txt').write_text('images/b.tif\n')
    data = tmp_path / 'data.yaml'
    data.write_text('val: images\nnames: [car]\n')
    with pytest.warns(UserWarning, match=r'images are not read \(1 .tif\)'):
        assert len(open_source(str(data)).frames) == 1
    data.write_text('val: list.txt\nnames: [car]\n')
    with pytest.raises(ValueError, match=r'has no images in .*list.txt: images are not read \(1'):
        open_source(str(data))


def test_what_is_read_hidden_or_no_image_is_not_named(tmp_path):
    write_images(tmp_path, 'a.jpg', 'b.webp')
    write_images(tmp_path / '.thumbnails', 'a.tif')
    (tmp_path / 'notes.txt').write_text('')
    assert unread_images(tmp_path, tmp_path.rglob('*')) == ''
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert len(open_source(str(tmp_path)).frames) == 2
