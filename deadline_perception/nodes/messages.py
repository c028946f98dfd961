"""Conversions between ROS messages and the package's own types: images, detections, ground truth, time stamps.

Images are views of the message's own bytes where their layout allows it and one copy elsewhere, which cv_bridge never
undercuts; so there is one implementation for machines with and without it.
"""
from __future__ import annotations

import array
import re
from collections.abc import Sequence

import cv2
import numpy as np
from builtin_interfaces.msg import Time
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header
from vision_msgs.msg import Detection2D, Detection2DArray, ObjectHypothesisWithPose

from deadline_perception.datasets.records import GroundTruth
from deadline_perception.detector.detections import Detections
from deadline_perception.errors import DeadlinePerceptionError

_BILLION = 1_000_000_000
# Encoding -> channels per pixel and OpenCV's conversion to BGR; None: it is BGR already. The names of OpenCV's Bayer
# patterns start at the second pixel of the second row, those of ROS at the first of the first.
_ENCODINGS = {
    'bgr8': (3, None), '8UC3': (3, None), 'rgb8': (3, cv2.COLOR_RGB2BGR),
    'bgra8': (4, cv2.COLOR_BGRA2BGR), 'rgba8': (4, cv2.COLOR_RGBA2BGR),
    'mono8': (1, cv2.COLOR_GRAY2BGR), '8UC1': (1, cv2.COLOR_GRAY2BGR),
    'yuv422': (2, cv2.COLOR_YUV2BGR_UYVY), 'uyvy': (2, cv2.COLOR_YUV2BGR_UYVY),
    'yuv422_yuy2': (2, cv2.COLOR_YUV2BGR_YUY2), 'yuyv': (2, cv2.COLOR_YUV2BGR_YUY2),
    'bayer_rggb8': (1, cv2.COLOR_BayerBG2BGR), 'bayer_bggr8': (1, cv2.COLOR_BayerRG2BGR),
    'bayer_gbrg8': (1, cv2.COLOR_BayerGR2BGR), 'bayer_grbg8': (1, cv2.COLOR_BayerGB2BGR)}
ACCEPTED_ENCODINGS = tuple(_ENCODINGS)
_DEEP_ENCODING = re.compile(r'(16|32|64)[USF]C|mono16|(rgb|bgr)a?16|bayer_\w+16|compressedDepth')
_JPEG_START, _JPEG_END = b'\xff\xd8', b'\xff\xd9'
_JPEG_TAIL = 4096  # cameras pad their files; the end marker cannot occur within the pixels


class ImageError(DeadlinePerceptionError):
    """An image message that cannot be used; says what it holds and what was expected."""


def stamp_to_ns(stamp: Time) -> int:
    """Nanoseconds since the clock's epoch; 0 for a stamp that was never set."""
    return stamp.sec * _BILLION + stamp.nanosec


def ns_to_stamp(stamp_ns: int) -> Time:
    """A stamp from nanoseconds, within the range of 32 bit seconds.

    Raises:
        ValueError: the time does not fit into the message.
    """
    seconds, nanoseconds = divmod(int(stamp_ns), _BILLION)
    if not -2 ** 31 <= seconds < 2 ** 31:
        raise ValueError(f'stamp is {stamp_ns} ns, expected seconds within 32 bits, [-2147483648, 2147483647] s')
    return Time(sec=seconds, nanosec=nanoseconds)


def image_to_bgr(message: Image) -> np.ndarray:
    """The pixels of an image message, uint8 `[height, width, 3]` in OpenCV's channel order.

    For `bgr8` and `8UC3` a view of the message's data (do not write to it), otherwise one copy. Eight-bit samples have
    no byte order, so `is_bigendian` is of no account.

    Raises:
        ImageError: the encoding is not accepted, or size, step and data length contradict each other.
    """
    if message.encoding not in _ENCODINGS:
        raise ImageError(f'image encoding is {message.encoding!r}, expected one of {", ".join(ACCEPTED_ENCODINGS)}')
    channels, conversion = _ENCODINGS[message.encoding]
    height, width, step = message.height, message.width, message.step
    if height < 1 or width < 1:
        raise ImageError(f'image is {width} x {height} px, expected at least 1 x 1')
    if step < width * channels:
        raise ImageError(f'image step is {step} bytes, expected at least {width * channels}: {width} px of '
                         f'{channels} bytes each ({message.encoding})')
    if len(message.data) != step * height:
        raise ImageError(f'image holds {len(message.data)} bytes, expected {step * height}: {height} rows of {step}')
    if channels == 2 and width % 2:
        raise ImageError(f'image is {width} px wide, expected an even width for {message.encoding}')
    rows = np.frombuffer(message.data, dtype=np.uint8).reshape(height, step)[:, :width * channels]
    pixels = rows if channels == 1 else rows.reshape(height, width, channels)
    if conversion is None:
        return pixels
    try:
        return cv2.cvtColor(pixels, conversion)
    except cv2.error as error:
        raise ImageError(f'image of {width} x {height} px with encoding {message.encoding} cannot be converted: '
                         f'{error.err}') from error


def compressed_to_bgr(message: CompressedImage) -> np.ndarray:
    """The decoded pixels of a compressed image message (JPEG, PNG, ...), uint8 `[height, width, 3]`, BGR.

    Raises:
        ImageError: the data is empty, cut off or not an image, or it holds samples of more than 8 bits.
    """
    data = np.frombuffer(message.data, dtype=np.uint8)
    described = f'compressed image (format {message.format!r}, {len(data)} bytes)'
    if _DEEP_ENCODING.search(message.format):
        raise ImageError(f'{described} has samples of more than 8 bits, expected 8-bit colour or grey')
    if not len(data):
        raise ImageError(f'{described} is empty, expected JPEG or PNG data')
    # OpenCV fills what a cut JPEG lacks with grey and says nothing.
    if data[:2].tobytes() == _JPEG_START and _JPEG_END not in data[-_JPEG_TAIL:].tobytes():
        raise ImageError(f'{described} is cut off: expected the JPEG end marker')
    try:
        decoded = cv2.imdecode(data, cv2.IMREAD_COLOR)
    except cv2.error as error:
        raise ImageError(f'{described} cannot be decoded: {error.err}') from error
    if decoded is None:
        raise ImageError(f'{described} cannot be decoded, expected valid JPEG or PNG data')
    return decoded


def to_bgr(message: Image | CompressedImage) -> np.ndarray:
    """The pixels of either kind of image message; see `image_to_bgr` and `compressed_to_bgr`.

    Raises:
        ImageError: the message cannot be used.
    """
    return compressed_to_bgr(message) if isinstance(message, CompressedImage) else image_to_bgr(message)


def bgr_to_image(image_bgr: np.ndarray, header: Header) -> Image:
    """An image message with encoding `bgr8`; one copy of the pixels.

    Args:
        image_bgr: uint8 `[height, width, 3]`.
        header: taken over as it is.

    Raises:
        ValueError: the array has another shape or type.
    """
    if image_bgr.dtype != np.uint8 or image_bgr.ndim != 3 or image_bgr.shape[2] != 3:
        raise ValueError(f'image is {image_bgr.dtype} {image_bgr.shape}, expected uint8 [height, width, 3]')
    height, width, _ = image_bgr.shape
    message = Image(header=header, height=height, width=width, encoding='bgr8', is_bigendian=0, step=3 * width)
    message.data = _byte_array(np.ascontiguousarray(image_bgr))
    return message


def _byte_array(pixels: np.ndarray) -> array.array:
    data = array.array('B')  # the message's own type: assigned without a check of every byte
    data.frombytes(memoryview(pixels).cast('B'))
    return data


def detections_to_message(detections: Detections, class_names: Sequence[str], header: Header) -> Detection2DArray:
    """Detections as ROS tools show them: `class_id` carries the class's name, the header stands on array and each.

    Raises:
        ValueError: a label has no name.
    """
    return _boxes_message(detections.boxes_xyxy_px, detections.labels, detections.scores, class_names, header)


def message_to_detections(message: Detection2DArray, class_names: Sequence[str]) -> Detections:
    """The inverse of `detections_to_message`.

    Raises:
        ValueError: a class is not among the names, or a detection has no hypothesis.
    """
    boxes, labels, scores = _read_boxes(message, class_names)
    return Detections(boxes, scores, labels)


def truth_to_message(truth: GroundTruth, class_names: Sequence[str], header: Header) -> Detection2DArray:
    """Known objects as a message: score 1, and 0 for a crowd region.

    Raises:
        ValueError: a label has no name.
    """
    return _boxes_message(truth.boxes_xyxy_px, truth.labels, 1.0 - truth.crowd, class_names, header)


def message_to_truth(message: Detection2DArray, class_names: Sequence[str]) -> GroundTruth:
    """The inverse of `truth_to_message`.

    Raises:
        ValueError: a class is not among the names, or an object has no hypothesis.
    """
    boxes, labels, scores = _read_boxes(message, class_names)
    return GroundTruth(boxes, labels, scores == 0.0)


def class_names_in(message: Detection2DArray) -> tuple[str, ...]:
    """The distinct class names of a message, in the order of first appearance."""
    return tuple(dict.fromkeys(detection.results[0].hypothesis.class_id
                               for detection in message.detections if detection.results))


def _boxes_message(boxes: np.ndarray, labels: np.ndarray, scores: np.ndarray, class_names: Sequence[str],
                   header: Header) -> Detection2DArray:
    if len(labels) and not 0 <= labels.min() <= labels.max() < len(class_names):
        raise ValueError(f'labels lie in [{labels.min()}, {labels.max()}], expected indices below {len(class_names)}, '
                         f'the number of class names')
    message = Detection2DArray(header=header)
    centres = ((boxes[:, :2] + boxes[:, 2:]) / 2).tolist()
    sizes = (boxes[:, 2:] - boxes[:, :2]).tolist()
    for centre, size, label, score in zip(centres, sizes, labels.tolist(), scores.tolist()):
        detection = Detection2D(header=header)
        detection.bbox.center.position.x, detection.bbox.center.position.y = centre
        detection.bbox.size_x, detection.bbox.size_y = size
        result = ObjectHypothesisWithPose()
        result.hypothesis.class_id = class_names[label]
        result.hypothesis.score = float(score)
        detection.results.append(result)
        message.detections.append(detection)
    return message


def _read_boxes(message: Detection2DArray, class_names: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    index = {name: label for label, name in enumerate(class_names)}
    boxes, labels, scores = [], [], []
    for detection in message.detections:
        if not detection.results:
            raise ValueError('a detection has no hypothesis, expected at least one with a class name')
        best = max((result.hypothesis for result in detection.results), key=lambda hypothesis: hypothesis.score)
        if best.class_id not in index:
            raise ValueError(f'class is {best.class_id!r}, expected one of {", ".join(class_names)}')
        centre, half_x, half_y = detection.bbox.center.position, detection.bbox.size_x / 2, detection.bbox.size_y / 2
        boxes.append((centre.x - half_x, centre.y - half_y, centre.x + half_x, centre.y + half_y))
        labels.append(index[best.class_id])
        scores.append(best.score)
    return (np.array(boxes, np.float32).reshape(-1, 4), np.array(labels, np.int64), np.array(scores, np.float32))
