"""The node `path_visualizer`: what the detector saw and did, as an annotated image and as markers for RViz.

Listens to the camera only while somebody looks at the annotated image, so that it costs nothing otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from rclpy.node import Node
from rclpy.subscription import Subscription
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from vision_msgs.msg import Detection2DArray
from visualization_msgs.msg import MarkerArray

from deadline_perception.core.detections import Detections
from deadline_perception.core.images.annotate import annotate
from deadline_perception.core.images.image_message import ImageError
from deadline_perception.msg import FrameLatency
from deadline_perception.nodes.health import Health, Report, report_of
from deadline_perception.nodes.image_input import RELIABILITY, TRANSPORT, ImageInput
from deadline_perception.nodes.markers import PinholeCamera, detection_markers
from deadline_perception.nodes.message_intake import MessageIntake
from deadline_perception.nodes.messages import (
    bgr_to_image,
    message_to_detections,
    stamp_to_ns,
    to_bgr,
)
from deadline_perception.nodes.parameters import Parameter, declare
from deadline_perception.nodes.periodic_clock import steady_timer
from deadline_perception.nodes.process import run_node
from deadline_perception.nodes.service_quality import ANY_SOURCE, RESULTS, open_output
from deadline_perception.nodes.stamp_cache import StampCache
from deadline_perception.runtime.job import Outcome

PARAMETERS = (
    replace(TRANSPORT, read_only=True),
    replace(RELIABILITY, read_only=True),
    Parameter(
        'camera_info_topic',
        '',
        "Topic of the camera's calibration; empty: camera_info beside the image.",
        read_only=True,
    ),
    Parameter('min_score', 0.3, 'Detections with a lower score are not drawn.', '', 0.0, 1.0),
)
_CACHED_IMAGES = 20  # until their detections come
_ASSUMED_CAMERA = PinholeCamera((500.0, 500.0), (320.0, 190.0))  # while no camera_info has come
OUTCOMES = {outcome.value: outcome.name.lower() for outcome in Outcome}
_LOOK_PERIOD_S = 0.5
_IMAGE_DEPTH = 10  # images that come while one is drawn


class PathVisualizerNode(Node):
    """Publishes `~/image` and `~/markers`, each only when subscribed."""

    def __init__(self) -> None:
        super().__init__('path_visualizer')
        self._values = declare(self, PARAMETERS)
        self._images: StampCache[Image | CompressedImage] = StampCache(_CACHED_IMAGES)
        # What the detector has said about a frame so far, by the type of message.
        self._answers: StampCache[dict[type, Detection2DArray | FrameLatency]] = StampCache(
            _CACHED_IMAGES
        )
        # What draws a frame whose image is still on its way, as on a busy machine: it is larger than what is said of it.
        self._undrawn: StampCache[Callable[[Image | CompressedImage], None]] = StampCache(
            _CACHED_IMAGES
        )
        self._camera = _ASSUMED_CAMERA
        self._drawn = self._rejected = self._told_without_image = 0
        self._problem = ''
        self._images_in: ImageInput | None = None  # while somebody watches the annotated image
        self._info_in: Subscription | None = None  # while somebody watches
        self._intake = MessageIntake(self)
        self._image_out = open_output(self, Image, '~/image')
        self._markers_out = open_output(self, MarkerArray, '~/markers')
        for kind, topic in (Detection2DArray, 'detections'), (FrameLatency, 'latency'):
            self._intake.listen(kind, f'detector/{topic}', self._on_answer, RESULTS)
        steady_timer(self, _LOOK_PERIOD_S, self._look_for_viewers)
        self._health = Health(self, self._report)

    def _look_for_viewers(self) -> None:
        """Opens the camera's topics while somebody watches, images for the annotated one alone; else closes them."""
        values = self._values
        shown = self._image_out.get_subscription_count() > 0
        watched = shown or self._markers_out.get_subscription_count() > 0
        if shown and self._images_in is None:
            self._images_in = ImageInput(
                self,
                'image',
                values['image_transport'],
                values['reliability'],
                on_image=self._on_image,
                depth=_IMAGE_DEPTH,
            )
        elif not shown and self._images_in is not None:
            self._images_in.close()
            self._images_in = None
            self._images.clear()
            self._undrawn.clear()
        if watched and self._info_in is None:
            # Empty: where image_transport puts it.
            info = (
                values['camera_info_topic']
                or f'{self.resolve_topic_name("image").rpartition("/")[0]}/camera_info'
            )
            self._info_in = self._intake.listen(
                CameraInfo, info, self._on_camera_info, ANY_SOURCE, meaning='camera_info'
            )
        elif not watched and self._info_in is not None:
            self._intake.close(self._info_in)
            self._info_in = None
            self._answers.clear()

    def _on_image(
        self,
        message: Image | CompressedImage,
        waited_ns: int,
        left_out: int,
    ) -> None:
        stamp_ns = stamp_to_ns(message.header.stamp)
        draw = self._undrawn.take(stamp_ns)
        if draw is None:
            self._images.put(stamp_ns, message)
        else:
            draw(message)

    def _on_camera_info(self, message: CameraInfo) -> None:
        focal_x, _, centre_x, _, focal_y, centre_y, *_ = map(float, message.k)
        if focal_x == 0.0:  # not calibrated, as sensor_msgs says
            return
        try:
            self._camera = PinholeCamera((focal_x, focal_y), (centre_x, centre_y))
        except ValueError as error:
            self._reject(f'camera_info is not used: {error}')

    def _on_answer(self, message: Detection2DArray | FrameLatency) -> None:
        if self._info_in is None:
            return
        stamp_ns = stamp_to_ns(message.header.stamp)
        answer = self._answers.take(stamp_ns) or {}
        answer[type(message)] = message
        if len(answer) < 2:
            self._answers.put(stamp_ns, answer)
        else:
            self._show(stamp_ns, answer[Detection2DArray], answer[FrameLatency])

    def _show(
        self,
        stamp_ns: int,
        found: Detection2DArray,
        latency: FrameLatency,
    ) -> None:
        try:
            detections, names = message_to_detections(found)
        except ValueError as error:
            self._reject(f'detections cannot be shown: {error}')
            return
        detections = detections.with_score(self._values['min_score'])
        if self._markers_out.get_subscription_count():
            self._markers_out.publish(
                detection_markers(
                    detections,
                    names,
                    found.header,
                    self._camera,
                    headline(latency),
                )
            )
        if self._image_out.get_subscription_count():
            draw = partial(self._draw, detections, names, latency)
            image = self._images.take(stamp_ns)
            if image is None:
                self._undrawn.put(stamp_ns, draw)
            else:
                draw(image)

    def _draw(
        self,
        detections: Detections,
        names: tuple[str, ...],
        latency: FrameLatency,
        image: Image | CompressedImage,
    ) -> None:
        try:
            picture = to_bgr(image)
        except ImageError as error:
            self._reject(str(error))
            return
        # The bound concerns the network alone; the bar shows the whole frame.
        drawn = annotate(
            picture,
            detections,
            names,
            budget_ms=latency.budget_ms,
            bound_ms=latency.total_ms - latency.network_ms + latency.bound_ms,
            latency_ms=latency.total_ms,
            path=latency.path,
            outcome=OUTCOMES.get(latency.outcome, f'outcome {latency.outcome}'),
            met=latency.deadline_met,
        )
        self._image_out.publish(bgr_to_image(drawn, latency.header))
        self._drawn += 1

    def _reject(self, problem: str) -> None:
        self._rejected += 1
        self._problem = problem

    def _report(self) -> Report:
        values = {
            'drawn': self._drawn,
            'frames_without_image': self._undrawn.unused,
            'images_without_frame': self._images.unused,
            'rejected': self._rejected,
            'viewers': self._image_out.get_subscription_count()
            + self._markers_out.get_subscription_count(),
            'refused_messages': self._intake.refused,
        }
        problem = self._problem
        self._problem = ''
        without_image = self._undrawn.unused - self._told_without_image
        self._told_without_image = self._undrawn.unused
        concerns = [self._intake.concern, problem]
        if without_image:
            concerns.append(f'the images of {without_image} frames have not come')
        if self._images_in is not None:
            values['middleware_lost'] = self._images_in.flow.lost
            concerns += self._images_in.concerns
        return report_of(
            values, 'nobody is watching' if self._info_in is None else 'drawing', concerns=concerns
        )


def headline(latency: FrameLatency) -> str:
    """The frame in one line."""
    taken = f'{latency.total_ms:.0f}' if math.isfinite(latency.total_ms) else '-'
    verdict = '' if latency.deadline_met else ' MISSED'
    worst = (
        f'  bound {latency.bound_ms:.0f}, WCET {latency.wcet_ms:.0f} ms'
        if latency.wcet_ms > 0.0
        else ''
    )
    return f'{taken} of {latency.budget_ms:.0f} ms{verdict}  {latency.path}{worst}'


def main() -> int:
    return run_node('path_visualizer', PathVisualizerNode, sends_images=True)
