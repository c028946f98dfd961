"""Coded images of files and messages: known by their content, and decoded within a limit of pixels that they state.

OpenCV decodes a dozen formats, whatever a file is called, and takes the memory that the header asks for. Here only JPEG,
PNG, BMP and WebP reach it, whose headers are read first.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from deadline_perception.core.opencv import MOST_PX, cv2

FORMATS = 'JPEG, PNG, BMP or WebP'
JPEG_START = b'\xff\xd8'
_JPEG_END = b'\xff\xd9'
_JPEG_SCAN = b'\xff\xda'
_PNG_START = b'\x89PNG\r\n\x1a\n'
_PNG_PIXELS = b'IDAT'
_PNG_END = b'IEND'
_MOST_CHUNKS = 2**16
# What the pixels are made of; texts and profiles unfold, and no other orientation than that of JPEG counts.
_PNG_USED = (b'IHDR', b'PLTE', b'tRNS', _PNG_PIXELS, _PNG_END)
_JPEG_BARE = frozenset((0x01, *range(0xD0, 0xD9)))  # markers without a length
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# Bytes of the pixels of a PNG: that may unfold as they like, and that are looked at in one go.
_SMALL = 2**20
_PIECE = 2**26
_USUAL_SCANS = 12  # of a progressive JPEG, as encoders make; each takes the time of the whole image
_MOST_SCANS = 100  # of a small one, in which they take no longer than the usual ones of the largest
_MOST_STRAY_BYTES = 2**16  # between the segments of a JPEG


class CodedImageError(ValueError):
    """Why the content is not decoded, as a clause that follows the name of what holds it."""


def decoded(content: bytes, flags: int = cv2.IMREAD_COLOR) -> np.ndarray:
    """The pixels, `[height, width, 3]` BGR unless the flags say otherwise.

    Args:
        content: of a whole file; what stands behind the end of a JPEG is of no account.
        flags: of `cv2.imdecode`; no other format than JPEG is turned by what it notes.

    Raises:
        CodedImageError: it is none of `FORMATS`, of more than `MOST_PX`, cut off or damaged.
    """
    size = stated_size(io.BytesIO(content))
    if size is None:
        raise CodedImageError(f'cannot be decoded, expected a {FORMATS} image')
    width, height = size
    if width * height > MOST_PX:
        raise CodedImageError(f'is {width} x {height} px, expected at most {MOST_PX} px')
    if content.startswith(JPEG_START):
        _check_scans(content, width * height)
    else:
        flags |= cv2.IMREAD_IGNORE_ORIENTATION
    if content.startswith(_PNG_START):
        content = _used_chunks(content, width * height)
    try:
        image = cv2.imdecode(np.frombuffer(content, np.uint8), flags)
    except cv2.error as error:
        raise CodedImageError(f'cannot be decoded: {error.err}') from error
    if image is None:
        raise CodedImageError(f'cannot be decoded, expected a valid {FORMATS} image')
    return image


def stated_size(stream: BinaryIO) -> tuple[int, int] | None:
    """Width and height in px that the header states, before any turning; None of what is none of `FORMATS`."""
    head = stream.read(30)
    try:
        if head[:2] == JPEG_START:
            return _jpeg_size(stream)
        if head[:8] == _PNG_START and head[12:16] == b'IHDR':
            return struct.unpack_from('>II', head, 16)
        if head[:2] == b'BM':
            return _bmp_size(head)
        if head[:4] == b'RIFF' and head[8:12] == b'WEBP':
            return _webp_size(head)
    except struct.error:
        pass
    return None


def _jpeg_size(stream: BinaryIO) -> tuple[int, int] | None:
    """From the frame header (ITU-T T.81, table B.2); what stands between segments is skipped, as libjpeg does."""
    for code, content in jpeg_segments(stream):
        if code in _JPEG_FRAMES:
            return struct.unpack_from('>xHH', content)[::-1]
    return None


def jpeg_segments(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Code and content of each segment before the first scan."""
    stream.seek(2)
    stray = 0
    before = b''
    while stray < _MOST_STRAY_BYTES:
        byte = stream.read(1)
        is_marker = before == b'\xff' and byte not in (b'', b'\0', b'\xff')
        if not byte or is_marker and byte == _JPEG_SCAN[1:]:
            return
        before = byte
        if not is_marker or byte[0] in _JPEG_BARE:
            stray += 1
            continue
        length = int.from_bytes(stream.read(2), 'big')
        if length < 2:
            return
        yield byte[0], stream.read(length - 2)


def _bmp_size(head: bytes) -> tuple[int, int]:
    if head[14:18] == b'\x0c\0\0\0':  # of OS/2
        return struct.unpack_from('<HH', head, 18)
    width, height = struct.unpack_from('<ii', head, 18)
    return abs(width), abs(height)  # rows from the top have a negative height


def _webp_size(head: bytes) -> tuple[int, int] | None:
    kind = head[12:16]
    if kind == b'VP8X':  # RFC 9649, section 2.7
        width, height = (int.from_bytes(head[at : at + 3], 'little') + 1 for at in (24, 27))
        return width, height
    if kind == b'VP8L' and head[20:21] == b'\x2f':  # section 3.4
        (bits,) = struct.unpack_from('<I', head, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b'VP8 ' and head[23:26] == b'\x9d\x01\x2a':  # RFC 6386, section 9.1
        width, height = struct.unpack_from('<HH', head, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None


def _check_scans(jpeg: bytes, pixels: int) -> None:
    """OpenCV fills what a cut JPEG lacks with grey and says nothing; drivers may publish a whole buffer behind it."""
    stream = io.BytesIO(jpeg)
    for _ in jpeg_segments(stream):
        pass
    # Neither marker can occur within the pixels.
    if jpeg.find(_JPEG_END, stream.tell()) < 0:
        raise CodedImageError('is cut off: expected the JPEG end marker')
    scans = jpeg.count(_JPEG_SCAN)
    most = min(_MOST_SCANS, _USUAL_SCANS * MOST_PX // max(1, pixels))
    if scans > most:
        raise CodedImageError(f'has {scans} scans, expected at most {most} of {pixels} px')


def _used_chunks(png: bytes, pixels: int) -> bytes:
    """The image without what OpenCV takes memory for, as much as a chunk asks for (PNG, third edition, section 5.3)."""
    at = len(_PNG_START)
    used = [_PNG_START]
    for _ in range(_MOST_CHUNKS):
        if at + 8 > len(png):
            break
        length, kind = struct.unpack_from('>I4s', png, at)
        if at + 8 + length > len(png):
            raise CodedImageError(
                f'is cut off: a PNG chunk of {length} bytes has {len(png) - at - 8}'
            )
        if kind in _PNG_USED:
            used.append(png[at : at + 12 + length])
        if kind == _PNG_END:
            break
        at += 12 + length
    else:
        raise CodedImageError(f'has more than {_MOST_CHUNKS} PNG chunks')
    coded = b''.join(chunk[8:-4] for chunk in used if chunk[4:8] == _PNG_PIXELS)
    unfold = zlib.decompressobj()
    left = 16 * pixels + _SMALL
    if len(coded) > _SMALL:  # libpng unfolds what stands behind the last pixel too
        try:
            while coded and left >= 0:
                left -= len(unfold.decompress(coded, _PIECE))
                coded = unfold.unconsumed_tail
        except zlib.error:  # which it tells
            pass
    if left < 0:
        raise CodedImageError(f'has more bytes than its {pixels} pixels may have')
    return b''.join(used)
