import pytest
from plain_images import grey
from read_sequences import frame_names, opened

from deadline_perception.core.opencv import cv2

IMAGE = grey(8, 8)


def write_images(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        assert cv2.imwrite(str(folder / name), IMAGE)


def test_a_folder_of_images_names_those_that_are_not_read(tmp_path):
    write_images(tmp_path, 'a.jpg', 'b.tif', 'c.TIFF', 'd.tif')
    with pytest.warns(UserWarning, match=r'not read \(2 .tif, 1 .tiff\), expected JPEG, PNG'):
        sequence = opened(tmp_path)
    assert frame_names(sequence) == ['a.jpg']
    (tmp_path / 'a.jpg').unlink()
    with pytest.raises(ValueError, match=r'not read \(2 .tif, 1 .tiff\), expected JPEG, PNG'):
        opened(tmp_path)


def test_folders_and_lists_of_yolo_name_them_too(tmp_path):
    write_images(tmp_path / 'images', 'a.jpg', 'b.tif')
    (tmp_path / 'list.txt').write_text('images/b.tif\n')
    data = tmp_path / 'data.yaml'
    data.write_text('val: images\nnames: [car]\n')
    with pytest.warns(UserWarning, match=r'images are not read \(1 .tif\)'):
        assert len(opened(data).frames) == 1
    data.write_text('val: list.txt\nnames: [car]\n')
    with pytest.raises(ValueError, match=r'has no images in .*list.txt: images are not read \(1'):
        opened(data)
