from __future__ import annotations

import os
import struct
import zlib

import cv2
import numpy as np
import pytest

from deadline_perception.datasets.image_file import image_size, load_image


@pytest.mark.parametrize('name', ['a.png', 'a.jpg', 'a.bmp'])
def test_size_and_pixels(tmp_path, name):
    cv2.imwrite(str(tmp_path / name), np.full((37, 53, 3), 80, np.uint8))
    assert image_size(tmp_path / name) == (53, 37)
    assert load_image(tmp_path / name).shape == (37, 53, 3)


def test_grey_images_get_three_channels(tmp_path):
    cv2.imwrite(str(tmp_path / 'a.png'), np.full((5, 6), 80, np.uint8))
    assert load_image(tmp_path / 'a.png').shape == (5, 6, 3)


def test_says_whether_a_file_is_absent_or_broken(tmp_path):
    (tmp_path / 'a.jpg').write_bytes(b'\xff\xd8\xff')
    for reader in (load_image, image_size):
        with pytest.raises(ValueError, match='a.jpg cannot be decoded'):
            reader(tmp_path / 'a.jpg')
    with pytest.raises(ValueError, match='does not exist'):
        load_image(tmp_path / 'b.jpg')
    with pytest.raises(ValueError, match='No such file'):
        image_size(tmp_path / 'b.jpg')


def test_how_a_camera_was_held_does_not_turn_the_pixels(tmp_path):
    """Size and pixels of a photograph that should be shown upright are those that its boxes were marked on."""
    file = tmp_path / 'a.jpg'
    cv2.imwrite(str(file), np.full((37, 53, 3), 80, np.uint8))
    stored = file.read_bytes()
    turned = b'Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0'  # orientation 6
    file.write_bytes(stored[:2] + b'\xff\xe1' + (len(turned) + 2).to_bytes(2, 'big') + turned + stored[2:])
    assert cv2.imread(str(file)).shape == (53, 37, 3), 'the note is there'
    assert image_size(file) == (53, 37) and load_image(file).shape == (37, 53, 3)


def png(width, height, rows):
    """A PNG file of grey rows, all zero."""
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 0, 0, 0, 0))
            + chunk(b'IDAT', zlib.compress(bytes((width + 1) * rows))) + chunk(b'IEND', b''))


def test_a_small_file_of_a_huge_image_is_not_decoded(tmp_path):
    (tmp_path / 'a.png').write_bytes(png(30_000, 30_000, 3))
    with pytest.raises(ValueError, match='is 30000 x 30000 px, expected at most 67108864 px'):
        load_image(tmp_path / 'a.png')


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / 'a.png')
    for reader in (load_image, image_size):
        with pytest.raises(ValueError, match='it is no ordinary file but a pipe'):
            reader(tmp_path / 'a.png')
