"""The pixels of image messages, whoever parsed them: ROS or rosbags.

Messages are distinguished and read by their fields, so nothing of ROS is imported. Images are views of the message's own
bytes where their layout allows it and one copy elsewhere, which cv_bridge never undercuts. Encodings that are not known
here are left to it: a caller that has it passes it in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from deadline_perception.core.errors import DeadlinePerceptionError, printable
from deadline_perception.core.images.coded_image import CodedImageError, decoded
from deadline_perception.core.opencv import cv2

# Encoding -> bytes of a pixel in a row and OpenCV's conversion to BGR; None: it is BGR already. The names of OpenCV's
# Bayer patterns start at the second pixel of the second row, those of ROS at the first of the first.
_ENCODINGS = {
    'bgr8': (3, None),
    '8UC3': (3, None),
    'rgb8': (3, cv2.COLOR_RGB2BGR),
    'bgra8': (4, cv2.COLOR_BGRA2BGR),
    '8UC4': (4, cv2.COLOR_BGRA2BGR),
    'rgba8': (4, cv2.COLOR_RGBA2BGR),
    'mono8': (1, cv2.COLOR_GRAY2BGR),
    '8UC1': (1, cv2.COLOR_GRAY2BGR),
    'yuv422': (2, cv2.COLOR_YUV2BGR_UYVY),
    'uyvy': (2, cv2.COLOR_YUV2BGR_UYVY),
    'yuv422_yuy2': (2, cv2.COLOR_YUV2BGR_YUY2),
    'yuyv': (2, cv2.COLOR_YUV2BGR_YUY2),
    'nv12': (1, cv2.COLOR_YUV2BGR_NV12),
    'nv21': (1, cv2.COLOR_YUV2BGR_NV21),
    'bayer_rggb8': (1, cv2.COLOR_BayerBG2BGR),
    'bayer_bggr8': (1, cv2.COLOR_BayerRG2BGR),
    'bayer_gbrg8': (1, cv2.COLOR_BayerGR2BGR),
    'bayer_grbg8': (1, cv2.COLOR_BayerGB2BGR),
    'mono16': (2, cv2.COLOR_GRAY2BGR),
    'bayer_rggb16': (2, cv2.COLOR_BayerBG2BGR),
    'bayer_bggr16': (2, cv2.COLOR_BayerRG2BGR),
    'bayer_gbrg16': (2, cv2.COLOR_BayerGR2BGR),
    'bayer_grbg16': (2, cv2.COLOR_BayerGB2BGR),
}
# The plane of chroma, of half the rows, stands below that of luma, and `height` does not count it.
_PLANES = ('nv12', 'nv21')
_EVEN_WIDTH = (
    *_PLANES,
    'yuv422',
    'uyvy',
    'yuv422_yuy2',
    'yuyv',
)
_TO_8_BITS = 255 / 65535
ACCEPTED_ENCODINGS = tuple(_ENCODINGS)


class ImageError(DeadlinePerceptionError):
    """An image message that cannot be used; says what it holds and what was expected."""


def to_bgr(message: object, convert: Callable[[object], np.ndarray] | None = None) -> np.ndarray:
    """The pixels of a sensor_msgs Image or CompressedImage, uint8 `[height, width, 3]` in OpenCV's channel order.

    For `bgr8` and `8UC3` a view of the message's data (do not write to it), otherwise a copy. Eight-bit samples have
    no byte order, so `is_bigendian` is of no account. The full range of 16-bit samples becomes that of 8 bits, as in
    cv_bridge; a camera that fills the lower 12 bits alone gives dark images.

    Args:
        message: the image.
        convert: gives the pixels of an Image whose encoding is not among `ACCEPTED_ENCODINGS`, or raises ImageError.

    Raises:
        ImageError: the encoding is not accepted, size, step and data length contradict each other or the encoding,
            or compressed data is empty, cut off, of another format than `coded_image.FORMATS`, of too many pixels, or
            of more than 8 bits a sample.
    """
    return _decompressed(message) if hasattr(message, 'format') else _converted(message, convert)


def _converted(message: Any, convert: Callable[[Any], np.ndarray] | None) -> np.ndarray:
    encoding = message.encoding
    if encoding not in _ENCODINGS:
        if convert is not None:
            return convert(message)
        raise ImageError(
            f'image encoding is {encoding!r}, expected one of {", ".join(ACCEPTED_ENCODINGS)}'
        )
    bytes_a_pixel, conversion = _ENCODINGS[encoding]
    rows = _rows(message, bytes_a_pixel)
    height = message.height
    width = message.width
    pixels = rows[:, : width * bytes_a_pixel]
    if encoding.endswith('16'):
        pixels = pixels.view('>u2' if message.is_bigendian else '<u2').astype(np.uint16)
    elif bytes_a_pixel > 1:
        pixels = pixels.reshape(height, width, bytes_a_pixel)
    if conversion is None:
        return pixels
    try:
        image = cv2.cvtColor(pixels, conversion)
    except cv2.error as error:
        raise ImageError(
            f'image of {width} x {height} px with encoding {encoding} cannot be converted: '
            f'{error.err}'
        ) from error
    if encoding.endswith('16'):
        image = cv2.convertScaleAbs(image, alpha=_TO_8_BITS)
    return image


def _rows(message: Any, bytes_a_pixel: int) -> np.ndarray:
    """A view of the data, uint8 `[rows, step]`, rows of chroma included."""
    encoding = message.encoding
    step = message.step
    height = message.height
    width = message.width
    if height < 1 or width < 1:
        raise ImageError(f'image is {width} x {height} px, expected at least 1 x 1')
    if step < width * bytes_a_pixel:
        raise ImageError(
            f'image step is {step} bytes, expected at least {width * bytes_a_pixel}: {width} px of '
            f'{bytes_a_pixel} bytes each ({encoding})'
        )
    if height % 2 and encoding in _PLANES:
        raise ImageError(f'image is {height} px high, expected an even height for {encoding}')
    if width % 2 and encoding in _EVEN_WIDTH:
        raise ImageError(f'image is {width} px wide, expected an even width for {encoding}')
    count = height * 3 // 2 if encoding in _PLANES else height
    if len(message.data) != step * count:
        raise ImageError(
            f'image holds {len(message.data)} bytes, expected {step * count}: {count} rows of {step}'
        )
    return np.frombuffer(message.data, np.uint8).reshape(count, step)


def _decompressed(message: Any) -> np.ndarray:
    content = bytes(message.data)
    described = (
        f'compressed image (format {printable(repr(message.format), 60)}, {len(content)} bytes)'
    )
    if not content:
        raise ImageError(f'{described} is empty, expected JPEG or PNG data')
    try:
        # Without ANYDEPTH, deeper samples would be cut to their upper 8 bits: depth images would pass for pictures.
        image = decoded(content, cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH)
    except CodedImageError as error:
        raise ImageError(f'{described} {error}') from error
    if image.dtype != np.uint8:
        raise ImageError(
            f'{described} has samples of more than 8 bits ({image.dtype}), expected 8-bit colour or '
            'grey'
        )
    return image
