"""Conversions between ROS messages and the package's own types: images, detections, ground truth, time stamps.

Images of common encodings are read by `core/images/image_message.py`, which bags need as well; all others go through
cv_bridge where it is installed.
"""

from __future__ import annotations

import array
from collections.abc import Sequence

import numpy as np
from builtin_interfaces.msg import Time
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header
from vision_msgs.msg import (
    Detection2D,
    Detection2DArray,
    ObjectHypothesis,
    ObjectHypothesisWithPose,
)

from deadline_perception.core.detections import Detections
from deadline_perception.core.images import image_message
from deadline_perception.core.images.image_message import ImageError

try:
    from cv_bridge import CvBridge

    _BRIDGE = CvBridge()
    _BRIDGE.encoding_to_cvtype2(
        'bgr8'
    )  # loads its compiled part, which may not fit the numpy at hand
except ImportError:  # it comes with a ROS install, not with the PyPI wheels
    _BRIDGE = None
_BILLION = 1_000_000_000

# As the package's own message types bound them, so that the middleware refuses what is longer before Python sees it.
MOST_TEXT_BYTES = 1000
MOST_ROWS = 100


def bounded(text: object) -> str:
    """A text as far as the package's messages take it."""
    return str(text).encode(errors='replace')[:MOST_TEXT_BYTES].decode(errors='ignore')


def stamp_to_ns(stamp: Time) -> int:
    """Nanoseconds since the clock's epoch; 0 for a stamp that was never set."""
    return stamp.sec * _BILLION + stamp.nanosec


def ns_to_stamp(stamp_ns: int) -> Time:
    """A stamp from nanoseconds, within the range of 32 bit seconds.

    Raises:
        ValueError: the time does not fit into the message.
    """
    seconds, nanoseconds = divmod(int(stamp_ns), _BILLION)
    if not -(2**31) <= seconds < 2**31:
        raise ValueError(
            f'stamp is {stamp_ns} ns, expected seconds within 32 bits, [-2147483648, 2147483647] s'
        )
    return Time(sec=seconds, nanosec=nanoseconds)


def to_bgr(message: Image | CompressedImage) -> np.ndarray:
    """The pixels of an incoming image, uint8 `[height, width, 3]`, BGR; see `image_message.to_bgr`.

    Raises:
        ImageError: the message cannot be used, or its encoding needs cv_bridge, which is not installed.
    """
    return image_message.to_bgr(message, None if _BRIDGE is None else _bridge_to_bgr)


def _bridge_to_bgr(message: Image) -> np.ndarray:
    try:
        return _BRIDGE.imgmsg_to_cv2(message, 'bgr8')
    except (
        TypeError,
        ValueError,
        RuntimeError,
        AttributeError,
    ) as error:  # its own is a TypeError; last: numpy 2
        raise ImageError(
            f'image of {message.width} x {message.height} px with encoding {message.encoding!r} cannot be '
            f'converted by cv_bridge: {error}; expected a colour or grey image, best one of '
            f'{", ".join(image_message.ACCEPTED_ENCODINGS)}'
        ) from error


def bgr_to_image(image_bgr: np.ndarray, header: Header) -> Image:
    """An image message with encoding `bgr8` of uint8 `[height, width, 3]`; one copy of the pixels."""
    height, width, _ = image_bgr.shape
    data = array.array('B')  # the message's own type: assigned without a check of every byte
    data.frombytes(np.ascontiguousarray(image_bgr).data.cast('B'))
    return Image(
        header=header, height=height, width=width, encoding='bgr8', step=3 * width, data=data
    )


class DetectionsMessage:
    """Detections as ROS tools show them: `class_id` carries the class's name, the header stands on array and each, `id`
    is that of the track, empty without.

    One message is filled anew for every frame: making its parts takes many times as long as filling them, and that time
    lies between the end of the network and the deadline.

    Args:
        class_names: what the labels mean.
        room: objects whose parts are made at once; more are made as they are needed.
    """

    def __init__(self, class_names: Sequence[str], room: int = 0) -> None:
        self._class_names = class_names
        self._parts = [_blank_detection() for _ in range(room)]

    def fill(self, detections: Detections, header: Header) -> Detection2DArray:
        """The message of some detections; its content changes with the next call.

        Raises:
            ValueError: a label has no name.
        """
        boxes = detections.boxes_xyxy_px
        labels = detections.labels
        names = self._class_names
        if len(labels) and not 0 <= labels.min() <= labels.max() < len(names):
            raise ValueError(
                f'labels lie in [{labels.min()}, {labels.max()}], expected indices below {len(names)}, '
                f'the number of class names'
            )
        while len(self._parts) < len(labels):
            self._parts.append(_blank_detection())
        centres = ((boxes[:, :2] + boxes[:, 2:]) / 2).tolist()
        sizes = (boxes[:, 2:] - boxes[:, :2]).tolist()
        ids = [str(track) if track > 0 else '' for track in detections.ids.tolist()]
        for part, (x, y), (width, height), label, score, track in zip(
            self._parts, centres, sizes, labels.tolist(), detections.scores.tolist(), ids
        ):
            part.header = header
            part.id = track
            box = part.bbox
            hypothesis = part.results[0].hypothesis
            box.center.position.x = x
            box.center.position.y = y
            box.size_x = width
            box.size_y = height
            hypothesis.class_id = names[label]
            hypothesis.score = score
        return Detection2DArray(header=header, detections=self._parts[: len(labels)])


def _blank_detection() -> Detection2D:
    return Detection2D(results=[ObjectHypothesisWithPose()])


def message_to_detections(message: Detection2DArray) -> tuple[Detections, tuple[str, ...]]:
    """The inverse of `DetectionsMessage.fill`: detections, and what their labels mean, in the order of appearance.

    Raises:
        ValueError: a detection has no hypothesis.
    """
    if not all(detection.results for detection in message.detections):
        raise ValueError('a detection has no hypothesis, expected at least one with a class name')
    best = [best_hypothesis(detection) for detection in message.detections]
    names = tuple(dict.fromkeys(one.class_id for one in best))
    boxes = [box_xyxy_px(detection) for detection in message.detections]
    scores = [one.score for one in best]
    labels = [names.index(one.class_id) for one in best]
    return Detections(
        np.array(boxes, np.float32).reshape(-1, 4),
        np.array(scores, np.float32),
        np.array(labels, np.int64),
    ), names


def best_hypothesis(detection: Detection2D) -> ObjectHypothesis:
    """The hypothesis of the highest score; there must be one."""
    return max(
        (result.hypothesis for result in detection.results), key=lambda hypothesis: hypothesis.score
    )


def box_xyxy_px(detection: Detection2D) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a detection's box."""
    centre = detection.bbox.center.position
    half_x = detection.bbox.size_x / 2
    half_y = detection.bbox.size_y / 2
    return centre.x - half_x, centre.y - half_y, centre.x + half_x, centre.y + half_y
