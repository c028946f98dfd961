"""Coded images of each format, whole, cut, padded, and of more pixels than the memory takes."""

import io
import os
import re
import struct
import subprocess
import sys
import zlib

import cv2
import numpy as np
import pytest
from plain_images import grey, noise
from python_run import run_python

from deadline_perception.core.images.coded_image import CodedImageError, decoded, stated_size
from deadline_perception.core.opencv import MOST_PX

SIDE = 16_000


def coded(ending, image=None):
    return cv2.imencode(ending, grey(37, 53, 80) if image is None else image)[1].tobytes()


def piece(kind, content):
    length, checksum = len(content), zlib.crc32(kind + content)
    return struct.pack('>I', length) + kind + content + struct.pack('>I', checksum)


def bombs():
    """Small files of 256 million pixels, by the name of their format."""
    jpeg = coded('.jpg')
    at = jpeg.find(b'\xff\xc0')
    yield 'JPEG', jpeg[: at + 5] + struct.pack('>HH', SIDE, SIDE) + jpeg[at + 9 :]
    rows = zlib.compress((b'\0' + bytes(SIDE // 8)) * SIDE, 9)
    head = struct.pack('>IIBBBBB', SIDE, SIDE, 1, 0, 0, 0, 0)
    chunks = piece(b'IHDR', head) + piece(b'IDAT', rows) + piece(b'IEND', b'')
    yield 'PNG', b'\x89PNG\r\n\x1a\n' + chunks
    fields = 154, 0, 0, 54, 40, SIDE, -SIDE, 1, 24, *[0] * 6
    yield 'BMP', b'BM' + struct.pack('<IHHIIiiHHIIiiII', *fields)
    yield 'BMP of OS/2', b'BM' + struct.pack('<IHHIIHHHH', 154, 0, 0, 26, 12, SIDE, SIDE, 1, 24)
    for kind in (b'VP8X' + bytes(8) + (SIDE - 1).to_bytes(3, 'little') * 2,
                 b'VP8L' + bytes(4) + b'\x2f' + (SIDE - 1 | SIDE - 1 << 14).to_bytes(4, 'little'),
                 b'VP8 ' + bytes(7) + b'\x9d\x01\x2a' + struct.pack('<HH', SIDE, SIDE)):  # fmt: skip
        yield kind[:4].decode(), b'RIFF' + bytes(4) + b'WEBP' + kind + bytes(20)


@pytest.mark.parametrize(('name', 'content'), [pytest.param(*bomb, id=bomb[0]) for bomb in bombs()])
def test_more_pixels_than_the_limit_are_refused_by_the_stated_size_of_each_format(name, content):
    with pytest.raises(CodedImageError, match=f'is {SIDE} x {SIDE} px, expected at most {MOST_PX}'):
        decoded(content)


@pytest.mark.parametrize(
    'ending', ['.jpg', '.png', '.bmp', '.webp', '.tiff', '.jp2', '.gif', '.ppm', '.pgm', '.pfm',
               '.hdr', '.sr', '.avif'])  # fmt: skip
def test_only_four_formats_are_decoded_whatever_else_opencv_can(ending, monkeypatch):
    image = grey(40, 56, 80)
    if ending == '.pgm':
        image = image[..., 0]
    content = coded(ending, image.astype(np.float32) if ending in ('.pfm', '.hdr') else image)
    if ending in ('.jpg', '.png', '.bmp', '.webp'):
        assert stated_size(io.BytesIO(content)) == (56, 40)
        assert decoded(content).shape == (40, 56, 3)
    else:
        monkeypatch.setattr(cv2, 'imdecode', None)
        with pytest.raises(CodedImageError, match='expected a JPEG, PNG, BMP or WebP image'):
            decoded(content)


def test_a_thumbnail_does_not_pass_for_the_end_of_a_cut_jpeg():
    jpeg = coded('.jpg', noise(120, 160))
    thumbnail = b'Exif\0\0' + coded('.jpg')
    whole = jpeg[:2] + b'\xff\xe1' + struct.pack('>H', len(thumbnail) + 2) + thumbnail + jpeg[2:]
    assert decoded(whole).shape == (120, 160, 3)
    with pytest.raises(CodedImageError, match='is cut off'):
        decoded(whole[:2500])


def test_chunks_of_a_png_take_no_more_memory_than_it_has():
    content = coded('.png')
    assert decoded(content + bytes(100)).shape == (37, 53, 3)
    for pieces, words in (
        (struct.pack('>I', 2**31 - 1) + b'IDAT', 'cut off: a PNG chunk of 2147483647 bytes has 24'),
        (piece(b'tEXt', b'') * 2**16, 'has more than 65536 PNG chunks'),
    ):
        with pytest.raises(CodedImageError, match=words):
            decoded(content[:33] + pieces + content[-24:])


def png(*further, rows=(b'\0' + bytes(27)) * 8, folded=b''):
    """9 x 8 px, with further chunks before its pixels, which may come folded."""
    head = piece(b'IHDR', struct.pack('>IIBBBBB', 9, 8, 8, 2, 0, 0, 0))
    pixels = piece(b'IDAT', folded or zlib.compress(rows, 9))
    return b'\x89PNG\r\n\x1a\n' + head + b''.join(further) + pixels + piece(b'IEND', b'')


TEXT = zlib.compress(b'a' * 7_900_000, 9)
TURNED = b'II*\0\x08\0\0\0\x01\0' + struct.pack('<HHII', 0x112, 3, 1, 6) + bytes(4)
HUGE_FRAME = struct.pack('>IIIIIHHBB', 0, 30_000, 30_000, 0, 0, 1, 1, 0, 0)


@pytest.mark.parametrize(
    'further',
    [
        [piece(b'zTXt', b'x\0\0' + TEXT)] * 100,
        [piece(b'iTXt', b'x\0\1\0\0\0' + TEXT)] * 100,
        [piece(b'iCCP', b'x\0\0' + TEXT)],
        [piece(b'eXIf', TURNED)],
        [piece(b'acTL', struct.pack('>II', 2, 0)), piece(b'fcTL', HUGE_FRAME)],
        [piece(b'pHYs', bytes(9)), piece(b'gAMA', struct.pack('>I', 20_000))],
    ],
    ids=['texts', 'texts of another kind', 'a profile', 'a turn', 'frames', 'of use'],
)
def test_of_a_png_only_what_makes_its_pixels_is_decoded(further):
    code = (
        'import resource, sys; from deadline_perception.core.images.coded_image import decoded;'
        'most = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss;'
        'content = sys.stdin.buffer.read(); before = most();'
        'print(decoded(content).shape, most() - before)'
    )
    command = [sys.executable, '-c', code]
    run = subprocess.run(command, input=png(*further), capture_output=True, check=True)
    shape, _, taken_kb = run.stdout.decode().rpartition(' ')
    assert shape == '(8, 9, 3)' and int(taken_kb) < 100_000


def test_what_unfolds_behind_the_last_pixel_of_a_png_is_refused():
    rows = (b'\0' + bytes(27)) * 8
    assert decoded(png(rows=rows + bytes(10**6))).shape == (8, 9, 3)
    fold = zlib.compressobj(9)
    first, again = (fold.compress(bytes(2**20)) + fold.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    with pytest.raises(CodedImageError, match='has more bytes than its 72 pixels may have'):
        decoded(png(folded=first + again * 2047))  # 2 GiB


def test_bytes_between_segments_do_not_hide_the_size():
    """libjpeg skips them, so whoever looks at segments alone would not see the frame header."""
    (_, bomb), jpeg = next(bombs()), coded('.jpg')
    for content, size in ((bomb, (SIDE, SIDE)), (jpeg, (53, 37))):
        stray = content[:20] + bytes(300) + b'\xff\0\xff\xff\xd0' + content[20:]
        assert stated_size(io.BytesIO(stray)) == size
    assert stated_size(io.BytesIO(jpeg[:20] + bytes(10**5) + jpeg[20:])) is None


@pytest.mark.parametrize(('side', 'most'), [(64, 100), (4096, 48)])
def test_a_jpeg_of_more_scans_than_take_the_time_of_the_largest_image_is_refused(side, most):
    grey = np.zeros((side, side), np.uint8)
    jpeg = cv2.imencode('.jpg', grey, (cv2.IMWRITE_JPEG_PROGRESSIVE, 1))[1].tobytes()
    at, scans = jpeg.rfind(b'\xff\xda'), jpeg.count(b'\xff\xda')
    head, last, end = jpeg[:at], jpeg[at:-2], jpeg[-2:]
    assert decoded(head + last * (most - scans + 1) + end).shape == (side, side, 3)
    with pytest.raises(CodedImageError, match=f'scans, expected at most {most} of {side**2} px'):
        decoded(head + last * (most - scans + 2) + end)


def test_opencv_is_imported_in_one_place_which_limits_it_first(repository):
    package, takes_it = repository / 'deadline_perception', re.compile(r'\s*(import|from) cv2\b')
    files = [
        file
        for file in package.rglob('*.py')
        if any(map(takes_it.match, file.read_text().splitlines()))
    ]
    assert files == [package / 'core' / 'opencv.py']
    refused = (
        'import numpy as np\nfrom deadline_perception.core.opencv import cv2\n'
        'wide = cv2.imencode(".tiff", np.zeros((8200, 8200), np.uint8))[1]\n'
        'try:\n    cv2.imdecode(wide, cv2.IMREAD_COLOR)\nexcept cv2.error:\n    print("refused")'
    )
    environment = {k: v for k, v in os.environ.items() if k != 'OPENCV_IO_MAX_IMAGE_PIXELS'}
    said = run_python('-c', refused, env=environment, check=True).stdout
    assert said == 'refused\n'
