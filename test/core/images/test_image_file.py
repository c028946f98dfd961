import os
import struct

import cv2
import numpy as np
import pytest

from deadline_perception.core.images.image_file import load_image
from deadline_perception.extras.data.image_folder import file_of, read_image_folder
from deadline_perception.extras.data.image_size import image_size
from deadline_perception.extras.data.source import open_source


@pytest.mark.parametrize('order', ['II', 'MM'])
@pytest.mark.parametrize('orientation', range(10))
def test_how_a_camera_was_held_is_known_without_decoding(tmp_path, orientation, order):
    """Size and pixels as stored are those that boxes were marked on."""
    form = f'{"<" if order == "II" else ">"}2sHIHHHIHHI'
    note = struct.pack(form, order.encode(), 42, 8, 1, 0x112, 3, 1, orientation, 0, 0)
    note = b'Exif\0\0' + note
    stored = cv2.imencode('.jpg', np.full((37, 53, 3), 80, np.uint8))[1].tobytes()
    content = stored[:2] + b'\xff\xe1' + struct.pack('>H', len(note) + 2) + note + stored[2:]
    (tmp_path / 'a.jpg').write_bytes(content)
    (frame,) = read_image_folder(tmp_path).frames
    shape = frame.load_bgr().shape
    assert shape == ((53, 37, 3) if 5 <= orientation <= 8 else (37, 53, 3))
    assert image_size(tmp_path / 'a.jpg', upright=True) == shape[1::-1]
    assert image_size(tmp_path / 'a.jpg') == (53, 37)
    assert load_image(tmp_path / 'a.jpg').shape == (37, 53, 3)
    for length in range(len(note)):  # what a note lacks is no orientation
        cut = note[:length]
        content = stored[:2] + b'\xff\xe1' + struct.pack('>H', length + 2) + cut + stored[2:]
        (tmp_path / 'a.jpg').write_bytes(content)
        size = image_size(tmp_path / 'a.jpg', upright=True)
        assert size == load_image(tmp_path / 'a.jpg', upright=True).shape[1::-1], length


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / 'a.png')
    for reader in (load_image, image_size):
        with pytest.raises(ValueError, match='it is no ordinary file but a pipe'):
            reader(tmp_path / 'a.png')


@pytest.fixture()
def folder(tmp_path):
    names = 'b.png', 'a.JPG', 'below/c.jpeg', '.hidden/d.png', 'below/.e.png'
    for number, name in enumerate(names):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        cv2.imencode('.png', np.full((8, 9, 3), number, np.uint8))[1].tofile(tmp_path / name)
    (tmp_path / 'notes.txt').write_text('no image')
    return tmp_path


def test_images_of_a_folder_come_in_the_order_of_their_names_without_annotations_or_splits(folder):
    sequence = read_image_folder(folder, rate_hz=4.0)
    assert [frame.name for frame in sequence.frames] == ['a.JPG', 'b.png', 'below/c.jpeg']
    assert [frame.stamp_ns for frame in sequence.frames] == [0, 250_000_000, 500_000_000]
    assert sequence.class_names == () and sequence.frames[0].ground_truth is None
    assert sequence.frames[2].load_bgr().tolist() == np.full((8, 9, 3), 2).tolist()
    assert file_of(sequence.frames[1].load_bgr) == folder / 'b.png'
    assert file_of(lambda: np.zeros((1, 1, 3), np.uint8)) is None
    assert open_source(str(folder)).name == folder.name
    with pytest.raises(ValueError, match='holds no images'):
        open_source(str(folder), split='train')
