import cv2
import numpy as np
import pytest

from deadline_perception.datasets.image_file import file_of
from deadline_perception.datasets.image_folder import read_image_folder
from deadline_perception.datasets.source import open_source


@pytest.fixture()
def folder(tmp_path):
    for number, name in enumerate(('b.png', 'a.JPG', 'below/c.jpeg', '.hidden/d.png', 'below/.e.png')):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        cv2.imencode('.png', np.full((8, 9, 3), number, np.uint8))[1].tofile(tmp_path / name)
    (tmp_path / 'notes.txt').write_text('no image')
    return tmp_path


def test_images_come_in_the_order_of_their_names_without_annotations(folder):
    sequence = read_image_folder(folder, rate_hz=4.0)
    assert [frame.name for frame in sequence.frames] == ['a.JPG', 'b.png', 'below/c.jpeg']
    assert [frame.stamp_ns for frame in sequence.frames] == [0, 250_000_000, 500_000_000]
    assert sequence.class_names == () and sequence.frames[0].ground_truth is None
    assert sequence.frames[2].load_bgr().tolist() == np.full((8, 9, 3), 2).tolist()
    assert file_of(sequence.frames[1].load_bgr) == folder / 'b.png'


def test_a_folder_of_images_is_a_source_but_has_no_split(folder):
    assert open_source(str(folder)).name == folder.name
    with pytest.raises(ValueError, match='holds none of .*images'):
        open_source(str(folder), split='train')


def test_a_folder_without_images_and_a_rate_that_is_none_are_refused(folder, tmp_path_factory):
    with pytest.raises(ValueError, match='holds no image, expected files that end with .jpg'):
        read_image_folder(tmp_path_factory.mktemp('empty'))
    with pytest.raises(ValueError, match='rate is 0 Hz'):
        read_image_folder(folder, 0)


def test_frames_of_other_sources_have_no_file():
    assert file_of(lambda: np.zeros((1, 1, 3), np.uint8)) is None
    assert file_of(open_source('drive:seconds=1').frames[0].load_bgr) is None
