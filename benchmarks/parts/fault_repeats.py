"""Faults that show only when something is done again and again: growth, files rewritten while read, lossy cameras."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager

from deadline_perception.core.share_folder import DEFAULT_MODEL
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.nodes.middleware import VARIABLES
from parts.fault_acts import other_program, weights
from parts.node_process import ProcessFigures, StandError
from parts.node_stand import Stand

GROWTH_MB = 40.0  # a network that stayed would be more, each time
ANSWER_S = 120.0
CAMERA_S, CAMERA_HZ = 5.0, 10.0
HEARD_SHARE = 0.9  # of the images of a camera of `CAMERA_HZ`
_CAMERA = f"""
import array, itertools
from sensor_msgs.msg import Image
from vision_msgs.msg import BoundingBox2D, Detection2D, ObjectHypothesis, ObjectHypothesisWithPose
from deadline_perception.msg import FrameLatency
light = Detection2D(bbox=BoundingBox2D(size_x=20.0, size_y=40.0), results=[ObjectHypothesisWithPose(
    hypothesis=ObjectHypothesis(class_id='traffic_light', score=0.9))])
light.bbox.center.position.x, light.bbox.center.position.y = 300.0, 100.0
out = node.create_publisher(Image, 'image', 10)
judges = [node.create_publisher(kind, 'detector/' + topic, 10) for kind, topic in (
    (Detection2DArray, 'detections'), (FrameLatency, 'latency'))] if {{detects}} else []
pixels = array.array('B', bytes(640 * 380 * 3))
numbers = itertools.count()
def send():
    image = Image(width=640, height=380, step=1920, encoding='bgr8', data=pixels)
    image.header.frame_id, image.header.stamp = f'default {{{{next(numbers)}}}}', node.get_clock().now().to_msg()
    out.publish(image)
    for judge in judges:
        found = judge.msg_type(header=image.header)
        if judge.msg_type is Detection2DArray:
            found.detections = [light]
        judge.publish(found)
node.create_timer({1.0 / CAMERA_HZ}, send)
"""


def growth_between(figures: list[ProcessFigures]) -> str:
    """What grew from the second fifth of these, the first being warm-up, to the last; empty when nothing did."""
    fifth = len(figures) // 5
    before, after = figures[fifth : 2 * fifth], figures[-fifth:]
    first_mb, last_mb = (
        statistics.median(found.memory_kb / 1024.0 for found in some) for some in (before, after)
    )
    grown = (
        [f'memory grew from {first_mb:.0f} to {last_mb:.0f} MB']
        if last_mb - first_mb > GROWTH_MB
        else []
    )
    for name in ('threads', 'descriptors'):
        most, fewest = (
            pick(getattr(found, name) for found in some)
            for pick, some in ((max, before), (min, after))
        )
        grown += [f'{name} grew from {most} to {fewest}'] if fewest > most else []
    return '; '.join(grown)


def configured_again(times: int) -> Callable[[Stand], str]:
    """Takes the detector through all states; memory, threads and descriptors must not grow."""

    def inflict(stand: Stand) -> str:
        def once(number: int) -> str:
            found = stand.turn(
                'detector', 'deactivate', 'cleanup', 'configure', 'activate', limit_s=ANSWER_S
            )
            return (
                '' if found == [True] * 4 else f'round {number + 1}: transitions answered {found}'
            )

        return _growth_over(stand, times, once)

    return inflict


def rewritten_in_place(times: int) -> Callable[[Stand], str]:
    """Configures anew, again and again, while another program writes over the file of weights without end."""

    def inflict(stand: Stand) -> str:
        content, ends = weights(stand), threading.Event()

        def rewrite() -> None:
            while not ends.is_set():
                with file.open('r+b', buffering=0) as stream:
                    stream.truncate(0)
                    for begin in range(0, len(content), 2**20):
                        stream.write(content[begin : begin + 2**20])
                time.sleep(0.01)

        with _weights_of_its_own(stand) as file:
            stand.turn('detector', 'deactivate', limit_s=ANSWER_S)
            writer = threading.Thread(target=rewrite)
            writer.start()
            try:
                answers = [
                    answer
                    for _ in range(times)
                    for answer in stand.turn('detector', 'cleanup', 'configure', limit_s=ANSWER_S)
                ]
            finally:
                ends.set()
                writer.join()
            if None in answers:
                return f'transitions answered {answers}'
            stand.turn('detector', 'cleanup', limit_s=ANSWER_S)
            last = stand.turn('detector', 'configure', 'activate', limit_s=ANSWER_S)
            return '' if last == [True, True] else f'the whole file again, it answered {last}'

    return inflict


def default_camera(kind: type, topic: str, *, detects: bool = False) -> Callable[[Stand], str]:
    """A camera driver with the middleware's default settings, in a process of its own: nearly all of its images must
    reach the node, which answers each on a topic; or the diagnostics tell how many were lost.

    Args:
        kind, topic: of the answers.
        detects: the driver's process says what a detector would, too.
    """

    def inflict(stand: Stand) -> str:
        node, heard, begun_ms = topic.partition('/')[0], [], now_ms()
        subscription = stand.node.create_subscription(
            kind, topic, lambda message: heard.append(message.header.frame_id), 100
        )
        lines = _CAMERA.format(detects=detects)
        driver = other_program(stand, lines, 'driver', environment=dict.fromkeys(VARIABLES, ''))
        try:
            # Before, it may not have loaded its network.
            stand.wait(lambda: heard, f'an answer of {node}', ANSWER_S)
            # The stand's own camera is silent, the node and the driver know each other.
            time.sleep(3.0)
            begun = len(heard)
            time.sleep(CAMERA_S)
        finally:
            driver.end()
            stand.node.destroy_subscription(subscription)
        numbers = {
            int(frame.partition(' ')[2]) for frame in heard[begun:] if frame.startswith('default ')
        }
        found, wanted = len(numbers), max(numbers, default=1) - min(numbers, default=0) + 1
        told = any('lost' in text for text in stand.heard.problems(begun_ms))
        print(
            f'           {found} of {wanted} images answered{", and told" if told else ""}',
            flush=True,
        )
        if found >= HEARD_SHARE * wanted or told:
            return ''
        return f'{found} of {wanted} images heard, and no word of it'

    return inflict


@contextmanager
def _weights_of_its_own(stand: Stand):
    """A copy of the weights that the detector has loaded meanwhile."""
    file = stand.folder / 'own' / f'{DEFAULT_MODEL}.safetensors'
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(weights(stand))
    _use_model(stand, str(file))
    try:
        yield file
    finally:
        _use_model(stand, DEFAULT_MODEL)


def _use_model(stand: Stand, model: str) -> None:
    ended = stand.turn('detector', 'deactivate', 'cleanup', limit_s=ANSWER_S)
    reason = stand.set_parameters('detector', model=model)
    begun = stand.turn('detector', 'configure', 'activate', limit_s=ANSWER_S)
    if (ended, reason, begun) != ([True, True], '', [True, True]):
        raise StandError(
            f'for the model {model}, deactivate and cleanup answered {ended}, its parameter {reason!r}, '
            f'configure and activate {begun}'
        )


def _growth_over(stand: Stand, times: int, once: Callable[[int], str]) -> str:
    """Does something again and again, as long as it goes well; what grew, or the first problem."""
    figures = []
    for number in range(times):
        problem = once(number)
        if problem:
            return problem
        figures.append(stand.figures()['detector'])
    memory = [round(found.memory_kb / 1024.0) for found in figures]
    print(
        f'           resident MB: {memory}; threads {figures[0].threads} to {figures[-1].threads}, descriptors '
        f'{figures[0].descriptors} to {figures[-1].descriptors}',
        flush=True,
    )
    return growth_between(figures)
