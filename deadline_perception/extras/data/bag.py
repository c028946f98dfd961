"""Sequences in ROS 2 bags: written as mcap, read from whatever `BagFile` reads."""

from __future__ import annotations

import io
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np

from deadline_perception.core.images.image_message import ImageError, to_bgr
from deadline_perception.core.opencv import cv2
from deadline_perception.extras.data.bag_file import IMAGE_TYPES, BagError, BagFile, BagTopic
from deadline_perception.extras.data.bag_messages import (
    BagMessages,
    class_names_of,
    objects_of,
    speed_of,
)
from deadline_perception.extras.data.ground_truth import MAX_IMAGE_PX, GroundTruthCollector
from deadline_perception.extras.data.image_size import upright_size
from deadline_perception.extras.data.message_definitions import message_types
from deadline_perception.extras.data.records import Frame, Sequence
from deadline_perception.extras.data.speed_trace import SpeedTrace

IMAGE_TOPIC = '/camera/image_raw'
COMPRESSED_TOPIC = '/camera/image_raw/compressed'
CAMERA_INFO_TOPIC = '/camera/camera_info'
SPEED_TOPIC = '/vehicle/speed'
GROUND_TRUTH_TOPIC = '/ground_truth'
JPEG_QUALITY = 92
FIRST_STAMP_NS = 1_000_000_000
_SPEED_TYPES = ('geometry_msgs/msg/TwistStamped', 'nav_msgs/msg/Odometry')


def write_bag(
    sequence: Sequence,
    file: Path,
    *,
    compressed: bool = False,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Writes images, camera info, speed and ground truth; returns the number of messages.

    A sequence that starts before its first second is moved there, because ROS takes a stamp of zero for none.
    Nothing remains of a bag that could not be finished.

    Args:
        sequence: what to write; its images are loaded one by one.
        file: a name that ends with `.mcap` gives one file, any other a bag folder with metadata.
        compressed: JPEG in CompressedImage instead of raw bgr8 in Image.
        overwrite: whether a bag of that name may be replaced.
        progress: called with the number of frames written so far.

    Raises:
        BagError: the file exists already.
    """
    from rosbags.rosbag2 import StoragePlugin, Writer

    file = Path(file)
    check_new_bag(file, overwrite=overwrite)
    part = file.with_name(f'.{file.name}.part')
    shutil.rmtree(part, ignore_errors=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    folder = part / file.name
    try:
        part.mkdir()
        with Writer(folder, version=8, storage_plugin=StoragePlugin.MCAP) as writer:
            count = _write(writer, sequence, compressed, progress)
        if file.is_dir():
            shutil.rmtree(file)
        written = folder / f'{folder.name}.mcap' if file.suffix == '.mcap' else folder
        written.replace(file)
    finally:
        # Twice, since a call or an allocation that fails once ends the first; without `suppress`, which allocates.
        try:
            shutil.rmtree(part, ignore_errors=True)
        except Exception:
            pass
        if part.exists():
            shutil.rmtree(part, ignore_errors=True)
    return count


def check_new_bag(file: Path, *, overwrite: bool) -> None:
    """Makes sure that a bag of that name may be written, before any image is read.

    Raises:
        BagError: the file exists already.
    """
    if file.exists() and not (overwrite and _is_bag(file)):
        expected = (
            'a new name, or --overwrite'
            if _is_bag(file)
            else 'a new name, for it is no bag that could be replaced'
        )
        raise BagError(f'{file} exists already, expected {expected}')


def _is_bag(file: Path) -> bool:
    from mcap.writer import MCAP0_MAGIC

    if file.is_dir():
        return (file / 'metadata.yaml').is_file()
    with file.open('rb') as stream:
        return stream.read(len(MCAP0_MAGIC)) == MCAP0_MAGIC


def _write(
    writer: object, sequence: Sequence, compressed: bool, progress: Callable[[int], None] | None
) -> int:
    messages = BagMessages(message_types())
    image_topic = COMPRESSED_TOPIC if compressed else IMAGE_TOPIC
    topics = {
        image_topic: IMAGE_TYPES[int(compressed)],
        CAMERA_INFO_TOPIC: 'sensor_msgs/msg/CameraInfo',
        SPEED_TOPIC: _SPEED_TYPES[0],
        GROUND_TRUTH_TOPIC: 'vision_msgs/msg/Detection2DArray',
    }
    if all(frame.speed_mps is None for frame in sequence.frames):
        del topics[SPEED_TOPIC]
    if all(frame.ground_truth is None for frame in sequence.frames):
        del topics[GROUND_TRUTH_TOPIC]
    connections = {
        topic: writer.add_connection(topic, kind, typestore=messages.types)
        for topic, kind in topics.items()
    }
    shift_ns = max(0, FIRST_STAMP_NS - sequence.frames[0].stamp_ns)
    count = 0
    for index, frame in enumerate(sequence.frames):
        stamp_ns = frame.stamp_ns + shift_ns
        for topic, message in _of_frame(messages, frame, stamp_ns, sequence, image_topic):
            writer.write(
                connections[topic], stamp_ns, messages.types.serialize_cdr(message, topics[topic])
            )
            count += 1
        if progress is not None:
            progress(index + 1)
    return count


def _of_frame(
    messages: BagMessages, frame: Frame, stamp_ns: int, sequence: Sequence, image_topic: str
) -> Iterator[tuple[str, object]]:
    """Speed first: whoever plays the bag then knows it when the image arrives."""
    image = frame.load_bgr()
    if frame.speed_mps is not None:
        yield SPEED_TOPIC, messages.speed(stamp_ns, frame.speed_mps)
    yield (
        CAMERA_INFO_TOPIC,
        messages.camera_info(stamp_ns, image.shape[1], image.shape[0], sequence.camera_matrix),
    )
    if frame.ground_truth is not None:
        yield (
            GROUND_TRUTH_TOPIC,
            messages.ground_truth(stamp_ns, frame.ground_truth, sequence.class_names),
        )
    if image_topic == IMAGE_TOPIC:
        yield image_topic, messages.image(stamp_ns, image)
    else:
        coded, data = cv2.imencode('.jpg', image, (cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY))
        if not coded:
            raise BagError(f'frame {frame.name!r} of {image.shape} cannot be encoded as JPEG')
        yield image_topic, messages.compressed_image(stamp_ns, data.ravel())


def read_bag(file: Path) -> Sequence:
    """Reads a bag, mcap or sqlite3, the first topic of it with images that can be used; they are decoded when
    a frame is loaded.

    Stamps are those of the image headers, or the times of recording where headers have none or run backwards; of
    several images with one stamp the first counts. Ground truth comes from a topic that ends with `ground_truth`,
    of several the one whose name begins most like the camera's, matched by the same. Speed comes from TwistStamped or
    Odometry messages, interpolated, by header where both images and speeds have usable ones, else by recording.

    Args:
        file: bag folder, or a bare .mcap or .db3 file.

    Raises:
        FileNotFoundError: there is no such file.
        BagError: the bag cannot be read or holds no image.
    """
    file = Path(file)
    bag = BagFile(file)
    camera = _camera(bag)
    try:
        marked = _select(
            bag,
            lambda t: t.name.endswith('ground_truth') and t.msgtype.endswith('/Detection2DArray'),
        )
        # of several cameras, that of the same namespace
        annotated = sorted(
            (topic.name for topic in marked),
            key=lambda name: -len(os.path.commonprefix((name, camera.name))),
        )[:1]
        entries = [
            (bag.stamp_ns(raw), logged_ns, _size_px(bag, raw, msgtype) if annotated else None)
            for _, msgtype, logged_ns, raw in bag.messages([camera.name])
        ]
        stamped = _has_stamps([entry[:2] for entry in entries])
        entries = _later_ones(entries, 0 if stamped else 1)
        trace, trace_stamped = _speeds(bag, stamped)
        ground_truths = {
            bag.stamp_ns(raw) if stamped else logged_ns: bag.parse(raw, msgtype)
            for _, msgtype, logged_ns, raw in bag.messages(annotated)
        }
        class_names = class_names_of(ground_truths.values())
        frames, lock = [], threading.Lock()
        collector = GroundTruthCollector(str(file))
        for index, (header_ns, logged_ns, size_px) in enumerate(entries):
            stamp_ns = header_ns if stamped else logged_ns
            driven_ns = header_ns if trace_stamped else logged_ns
            known = None
            if stamp_ns in ground_truths:
                boxes, labels, scores = objects_of(ground_truths[stamp_ns], class_names)
                known = collector.collect(boxes, labels, scores == 0.0, *size_px)
            frames.append(
                Frame(
                    f'{file.stem}_{index:06d}',
                    stamp_ns,
                    partial(_load_image, bag, lock, camera.name, logged_ns, header_ns),
                    trace.speed_mps(driven_ns / 1e9) if trace else None,
                    known,
                )
            )
        collector.report()
        return Sequence(file.stem, class_names, tuple(frames), _camera_matrix(bag, camera))
    except (
        ValueError,
        AttributeError,
    ) as error:  # values that cannot be, or definitions that lack a field
        raise BagError(f'{file}: {error}') from error


def _camera(bag: BagFile) -> BagTopic:
    """The first topic with images that can be used, as those of depth cannot; else the first with images."""
    images = _select(bag, lambda t: t.is_image)
    if not images:
        known = sorted(f'{t.name} ({t.msgtype})' for t in bag.topics)
        raise BagError(
            f'{bag.file} holds no image on any topic, only {", ".join(known) or "nothing"}'
        )
    for topic in images:
        _, msgtype, _, raw = next(bag.messages([topic.name]))
        with suppress(BagError, ImageError, AttributeError):
            to_bgr(bag.parse(raw, msgtype))
            return topic
    return images[0]


def _size_px(bag: BagFile, raw: bytes, msgtype: str) -> tuple[int, int]:
    """Width and height of an image, as it states; the largest there can be where it cannot be used."""
    with suppress(BagError, ImageError, AttributeError):  # reported when that image is asked for
        image = bag.parse(raw, msgtype)
        coded = hasattr(image, 'format')
        size = upright_size(io.BytesIO(bytes(image.data))) if coded else (image.width, image.height)
        if size and 0 < min(size) and max(size) <= MAX_IMAGE_PX:
            return size
    return MAX_IMAGE_PX, MAX_IMAGE_PX


def _select(bag: BagFile, wanted: Callable[[BagTopic], bool]) -> list[BagTopic]:
    """Topics with messages in the order of their names, those of raw images before compressed ones."""
    return sorted(
        (topic for topic in bag.topics if topic.count and wanted(topic)),
        key=lambda topic: (topic.msgtype.endswith('CompressedImage'), topic.name),
    )


def _load_image(
    bag: BagFile, lock: threading.Lock, topic: str, logged_ns: int, header_ns: int
) -> np.ndarray:
    """One image, uint8 `[height, width, 3]` BGR, read from the file each time."""
    with lock:
        for _, msgtype, _, raw in bag.messages([topic], logged_ns, logged_ns + 1):
            if bag.stamp_ns(raw) == header_ns:
                try:
                    # A view of the raw data cannot be written to, and whoever loads an image may draw on it.
                    return np.require(to_bgr(bag.parse(raw, msgtype)), requirements=['C', 'W'])
                except (ImageError, AttributeError) as error:
                    raise BagError(f'image at {header_ns} ns of {bag.file}: {error}') from error
    raise BagError(f'{bag.file} no longer holds the image at {header_ns} ns')


def _speeds(bag: BagFile, images_stamped: bool) -> tuple[SpeedTrace | None, bool]:
    """The first speed topic, and whether its times are header stamps; messages whose time is not later are dropped.

    Times of recording are taken where the images or the speeds have no usable stamps: one clock for both.
    """
    for topic in _select(bag, lambda t: t.msgtype in _SPEED_TYPES):
        found = [
            (bag.stamp_ns(raw), logged_ns, speed_of(bag.parse(raw, msgtype)))
            for _, msgtype, logged_ns, raw in bag.messages([topic.name])
        ]
        stamped = images_stamped and _has_stamps([row[:2] for row in found])
        clock = 0 if stamped else 1
        in_s = [(row[clock] / 1e9, row[2]) for row in found if np.isfinite(row[2])]
        rows = _later_ones(in_s, 0)  # in s, of which some ns apart may be the same
        if rows:
            return SpeedTrace(*zip(*rows)), stamped
    return None, False


def _has_stamps(times_ns: list[tuple[int, int]]) -> bool:
    """Whether messages are in order by their headers, rather than by the times of recording.

    Where a clock was set back, the order by the other has one step back, and its own many: what came before and after
    lies in turn.

    Args:
        times_ns: stamp of the header and time of recording of each message, in the order of the latter.
    """
    if times_ns[0][0] == 0:
        return False
    back = _steps_back([header_ns for header_ns, _ in times_ns])
    return back == 0 or _steps_back([logged_ns for _, logged_ns in sorted(times_ns)]) < back


def _steps_back(times_ns: list[int]) -> int:
    return sum(after < before for before, after in zip(times_ns, times_ns[1:]))


def _later_ones(rows: list[tuple], clock: int) -> list[tuple]:
    """Rows in the order of one of their times, without those of the same time as the row before."""
    kept: list[tuple] = []
    for row in sorted(rows, key=lambda row: row[clock]):
        if not kept or row[clock] > kept[-1][clock]:
            kept.append(row)
    return kept


def _camera_matrix(bag: BagFile, camera: BagTopic) -> np.ndarray | None:
    name = f'{camera.name.removesuffix("/compressed").rpartition("/")[0]}/camera_info'  # as drivers have it
    for topic in _select(
        bag, lambda t: t.name == name and t.msgtype == 'sensor_msgs/msg/CameraInfo'
    ):
        _, msgtype, _, raw = next(bag.messages([topic.name]))
        matrix = np.asarray(bag.parse(raw, msgtype).k, dtype=np.float64).reshape(3, 3)
        return matrix if matrix[0, 0] > 0 else None
    return None
