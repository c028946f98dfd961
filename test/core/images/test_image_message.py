import array
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from plain_images import noise

from deadline_perception.core.images.image_message import ImageError, to_bgr


def message(pixels, encoding, **changes):
    """An image message as rclpy gives it: its data is an array of bytes."""
    height, width = pixels.shape[:2]
    rows = np.ascontiguousarray(pixels).reshape(height, -1)
    fields = {'height': height, 'width': width, 'encoding': encoding, 'is_bigendian': 0}
    fields |= {'step': rows.shape[1], 'data': array.array('B', rows.tobytes())}
    return SimpleNamespace(**fields | changes)


@pytest.mark.parametrize(
    ('encoding', 'conversion'),
    [
        ('bgr8', None),
        ('8UC3', None),
        ('rgb8', cv2.COLOR_BGR2RGB),
        ('bgra8', cv2.COLOR_BGR2BGRA),
        ('8UC4', cv2.COLOR_BGR2BGRA),
        ('rgba8', cv2.COLOR_BGR2RGBA),
        ('mono8', cv2.COLOR_BGR2GRAY),
        ('8UC1', cv2.COLOR_BGR2GRAY),
    ],
)
@pytest.mark.parametrize('is_bigendian', [0, 1])  # eight-bit samples have no byte order
def test_colour_and_grey_encodings_give_the_same_bgr_pixels(encoding, conversion, is_bigendian):
    image = noise(6, 8)
    if conversion == cv2.COLOR_BGR2GRAY:
        image[:] = image[:, :, :1]
    coded = image if conversion is None else cv2.cvtColor(image, conversion)
    found = to_bgr(message(coded, encoding, is_bigendian=is_bigendian))
    np.testing.assert_array_equal(found, image)


# A pair of yuv shares its colour (BT.601: luma 81, chroma 90 and 240 are pure red); a pattern of four is of red 200,
# green 120 and blue 40.
UYVY, YUYV = [[[90, 81], [240, 81]]], [[[81, 90], [81, 240]]]
RED, OF_PATTERN = (0, 0, 255), (40, 120, 200)


@pytest.mark.parametrize(
    ('encoding', 'tile', 'colour'),
    [
        ('yuv422', UYVY, RED),
        ('uyvy', UYVY, RED),
        ('yuv422_yuy2', YUYV, RED),
        ('yuyv', YUYV, RED),
        ('bayer_rggb8', [[200, 120], [120, 40]], OF_PATTERN),
        ('bayer_bggr8', [[40, 120], [120, 200]], OF_PATTERN),
        ('bayer_gbrg8', [[120, 40], [200, 120]], OF_PATTERN),
        ('bayer_grbg8', [[120, 200], [40, 120]], OF_PATTERN),
    ],
)
def test_pixels_that_share_their_colour_give_that_colour(encoding, tile, colour):
    tile = np.array(tile, np.uint8)
    coded = np.tile(tile, (8 // len(tile), 3, 1)[: tile.ndim])
    bgr = to_bgr(message(coded, encoding)).astype(int)
    assert bgr.shape == (8, 6, 3)
    assert np.abs(bgr - colour).max() <= (3 if colour == RED else 0)


def planes(luma, chroma, pad):
    """An image of two planes: rows of luma, then those of chroma, each plane's rows padded to whole steps."""
    step = luma.shape[1] + pad
    rows = [(luma, step), (chroma, step * (chroma.shape[1] // luma.shape[1]))]
    return b''.join(
        np.pad(plane, ((0, 0), (0, length - plane.shape[1])), constant_values=99).tobytes()
        for plane, length in rows
    )


@pytest.mark.parametrize('pad', [0, 6])
@pytest.mark.parametrize(
    ('encoding', 'conversion'), [('nv12', cv2.COLOR_YUV2BGR_NV12), ('nv21', cv2.COLOR_YUV2BGR_NV21)]
)
def test_planes_of_chroma_are_read_as_opencv_reads_them(encoding, conversion, pad):
    both = np.random.default_rng(0).integers(0, 256, (9, 8), np.uint8)
    data = array.array('B', planes(both[:6], both[6:], pad))
    sent = message(both[:6], encoding, step=8 + pad, data=data)
    np.testing.assert_array_equal(to_bgr(sent), cv2.cvtColor(both, conversion))


@pytest.mark.parametrize(
    ('changes', 'match'),
    [
        ({'height': 0, 'data': array.array('B')}, r'image is 8 x 0 px, expected at least 1 x 1'),
        ({'step': 23}, r'step is 23 bytes, expected at least 24'),
        ({'data': array.array('B', bytes(143))}, r'holds 143 bytes, expected 144: 6 rows of 24'),
        ({'encoding': 'yuyv', 'width': 5}, '5 px wide, expected an even width for yuyv'),
        ({'encoding': 'nv21', 'height': 5}, '5 px high, expected an even height for nv21'),
        ({'encoding': 'nv12'}, 'holds 144 bytes, expected 216: 9 rows of 24'),
        (
            {'encoding': 'mono16', 'step': 15, 'data': array.array('B', bytes(90))},
            r'step is 15 bytes, expected at least 16: 8 px of 2 bytes each \(mono16\)',
        ),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(changes, match):
    with pytest.raises(ImageError, match=match):
        to_bgr(message(noise(6, 8), **{'encoding': 'bgr8'} | changes))


CUT = cv2.imencode('.jpg', noise(64, 64))[1].tobytes()[:2000]


@pytest.mark.parametrize(
    ('data', 'match'),
    [
        (b'', 'is empty'),
        (b'no image at all', 'cannot be decoded'),
        (b'\xff\xd8' + bytes(50) + b'\xff\xd9', 'cannot be decoded'),
        (CUT, 'cut off: expected the JPEG end marker'),
    ],
)
def test_data_that_is_no_image_or_that_would_be_filled_with_grey_is_refused(data, match):
    with pytest.raises(ImageError, match=match):
        to_bgr(SimpleNamespace(format='jpeg', data=array.array('B', data)))
