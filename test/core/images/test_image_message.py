import array
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from deadline_perception.core.images.image_message import ImageError, to_bgr


def picture(height=6, width=8, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def message(pixels, encoding, **changes):
    """An image message as rclpy gives it: its data is an array of bytes."""
    rows = np.ascontiguousarray(pixels).reshape(pixels.shape[0], -1)
    fields = {
        'height': pixels.shape[0],
        'width': pixels.shape[1],
        'encoding': encoding,
        'step': rows.shape[1],
        'is_bigendian': 0,
        'data': array.array('B', rows.tobytes()),
        **changes,
    }
    return SimpleNamespace(**fields)


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
    image = picture()
    if conversion == cv2.COLOR_BGR2GRAY:
        image[:] = image[:, :, :1]
    coded = image if conversion is None else cv2.cvtColor(image, conversion)
    np.testing.assert_array_equal(
        to_bgr(message(coded, encoding, is_bigendian=is_bigendian)), image
    )


# BT.601: luma 81, chroma 90 and 240 are pure red.
@pytest.mark.parametrize(
    ('encoding', 'pair'),
    [
        ('yuv422', (90, 81, 240, 81)),
        ('uyvy', (90, 81, 240, 81)),
        ('yuv422_yuy2', (81, 90, 81, 240)),
        ('yuyv', (81, 90, 81, 240)),
    ],
)
def test_yuv_pairs_share_their_colour(encoding, pair):
    coded = np.tile(np.array(pair, np.uint8), (4, 3)).reshape(4, 6, 2)
    bgr = to_bgr(message(coded, encoding)).astype(int)
    assert bgr.shape == (4, 6, 3)
    assert np.abs(bgr - (0, 0, 255)).max() <= 3


@pytest.mark.parametrize(
    ('encoding', 'pattern'),
    [
        ('bayer_rggb8', 'RGGB'),
        ('bayer_bggr8', 'BGGR'),
        ('bayer_gbrg8', 'GBRG'),
        ('bayer_grbg8', 'GRBG'),
    ],
)
def test_bayer_pattern_of_one_colour_gives_that_colour(encoding, pattern):
    values = {'R': 200, 'G': 120, 'B': 40}
    tile = np.array([values[letter] for letter in pattern], np.uint8).reshape(2, 2)
    bgr = to_bgr(message(np.tile(tile, (4, 5)), encoding))
    assert (bgr == (40, 120, 200)).all()


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
    ('encoding', 'conversion'),
    [('nv12', cv2.COLOR_YUV2BGR_NV12), ('nv21', cv2.COLOR_YUV2BGR_NV21)],
)
def test_planes_of_chroma_are_read_as_opencv_reads_them(encoding, conversion, pad):
    both = np.random.default_rng(0).integers(0, 256, (9, 8), np.uint8)
    sent = message(
        both[:6], encoding, step=8 + pad, data=array.array('B', planes(both[:6], both[6:], pad))
    )
    np.testing.assert_array_equal(to_bgr(sent), cv2.cvtColor(both, conversion))


@pytest.mark.parametrize('order', ['<', '>'])
@pytest.mark.parametrize('pad', [0, 3])
def test_sixteen_bits_of_grey_become_eight_in_either_order_of_bytes(order, pad):
    deep = np.random.default_rng(0).integers(0, 2**16, (6, 8)).astype(f'{order}u2')
    rows = np.pad(deep.view(np.uint8), ((0, 0), (0, pad)))
    sent = message(
        rows,
        'mono16',
        width=8,
        is_bigendian=int(order == '>'),
        data=array.array('B', rows.tobytes()),
    )
    expected = np.round(deep.astype(float) * 255 / 65535).astype(np.uint8)
    np.testing.assert_array_equal(to_bgr(sent), np.repeat(expected[:, :, None], 3, 2))


def test_bgr_is_a_view_of_the_message_also_with_padded_rows():
    image = picture()
    padded = np.zeros((6, 8 * 3 + 5), np.uint8)
    padded[:, :24] = image.reshape(6, 24)
    sent = message(image, 'bgr8', step=29, data=array.array('B', padded.tobytes()))
    view = to_bgr(sent)
    np.testing.assert_array_equal(view, image)
    assert np.shares_memory(view, np.frombuffer(sent.data, np.uint8))


@pytest.mark.parametrize(
    'encoding', ['16UC1', '32FC1', 'rgb16', 'nv16', 'nv24', 'bayer_rggb12', '']
)
def test_other_encodings_are_refused_with_the_accepted_ones(encoding):
    with pytest.raises(
        ImageError, match=rf"encoding is '{encoding}', expected one of bgr8, 8UC3, rgb8"
    ):
        to_bgr(message(picture(), encoding))


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
        to_bgr(message(picture(), **{'encoding': 'bgr8'} | changes))


def compressed(image, extension='.jpg', **changes):
    coded = cv2.imencode(extension, image)[1].tobytes()
    return SimpleNamespace(**{'format': 'jpeg', 'data': array.array('B', coded), **changes})


def test_jpeg_and_png_are_decoded():
    smooth = np.full((32, 48, 3), (30, 120, 210), np.uint8)
    assert np.abs(to_bgr(compressed(smooth)).astype(int) - smooth).max() <= 3
    np.testing.assert_array_equal(to_bgr(compressed(picture(), '.png', format='png')), picture())
    from_sixteen_bits = compressed(smooth, format='bgr16; jpeg compressed bgr8')
    assert np.abs(to_bgr(from_sixteen_bits).astype(int) - smooth).max() <= 3


@pytest.mark.parametrize(
    ('data', 'match'),
    [
        (b'', 'is empty'),
        (b'no image at all', 'cannot be decoded'),
        (b'\xff\xd8' + bytes(50) + b'\xff\xd9', 'cannot be decoded'),
        (bytes(compressed(picture(64, 64)).data[:2000]), 'cut off: expected the JPEG end marker'),
    ],
)
def test_data_that_is_no_image_or_that_would_be_filled_with_grey_is_refused(data, match):
    with pytest.raises(ImageError, match=match):
        to_bgr(SimpleNamespace(format='jpeg', data=array.array('B', data)))


@pytest.mark.parametrize('channels', [1, 3])
def test_compressed_samples_of_more_than_eight_bits_are_refused(channels):
    deep = np.full((6, 8, channels), 40_000, np.uint16)
    with pytest.raises(ImageError, match=r'more than 8 bits \(uint16\)'):
        to_bgr(compressed(deep, '.png', format='mono16; png compressed mono16'))


def test_a_webp_image_is_as_it_is_stored_whatever_turn_it_notes():
    """As in files, and as boxes and sizes are meant for."""
    coded = cv2.imencode('.webp', picture(6, 8), (cv2.IMWRITE_WEBP_QUALITY, 101))[1].tobytes()
    note = b'II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0'
    parts = b'WEBPVP8X\x0a\0\0\0\x08\0\0\0\x07\0\0\x05\0\0' + coded[12:]
    parts += b'EXIF' + len(note).to_bytes(4, 'little') + note
    turned = b'RIFF' + len(parts).to_bytes(4, 'little') + parts
    assert cv2.imdecode(np.frombuffer(turned, np.uint8), 1).shape == (8, 6, 3)
    image = to_bgr(SimpleNamespace(format='webp', data=array.array('B', turned)))
    np.testing.assert_array_equal(image, picture(6, 8))
