"""The node `path_visualizer`: what the detector saw and did, as an annotated image.

Listens to the camera only while somebody looks at that, so that it costs nothing otherwise.
"""

from __future__ import annotations

from dataclasses import replace

from rclpy.node import Node
from sensor_msgs.msg import CompressedImage, Image
from vision_msgs.msg import Detection2DArray

from deadline_perception.core.images.annotate import annotate
from deadline_perception.core.images.image_message import ImageError
from deadline_perception.msg import FrameLatency
from deadline_perception.nodes.frame_join import FrameJoin, Parts
from deadline_perception.nodes.health import Health, Report, report_of
from deadline_perception.nodes.image_input import RELIABILITY, TRANSPORT, ImageInput
from deadline_perception.nodes.message_intake import MessageIntake
from deadline_perception.nodes.messages import bgr_to_image, message_to_detections, to_bgr
from deadline_perception.nodes.parameters import Parameter, declare
from deadline_perception.nodes.periodic_clock import steady_timer
from deadline_perception.nodes.process import run_node
from deadline_perception.nodes.service_quality import RESULTS, open_output
from deadline_perception.runtime.job import Outcome

PARAMETERS = (
    replace(TRANSPORT, read_only=True),
    replace(RELIABILITY, read_only=True),
    Parameter('min_score', 0.3, 'Detections with a lower score are not drawn.', '', 0.0, 1.0),
)
OUTCOMES = {outcome.value: outcome.name.lower() for outcome in Outcome}
_LOOK_PERIOD_S = 0.5
_IMAGE_DEPTH = 10  # images that come while one is drawn


class PathVisualizerNode(Node):
    """Publishes `~/image`, only when subscribed."""

    def __init__(self) -> None:
        super().__init__('path_visualizer')
        self._values = declare(self, PARAMETERS)
        self._frames = FrameJoin(3)
        self._problem = ''
        self._images_in: ImageInput | None = None  # while somebody watches
        self._intake = MessageIntake(self)
        self._image_out = open_output(self, Image, '~/image')
        for kind, topic in (Detection2DArray, 'detections'), (FrameLatency, 'latency'):
            self._intake.listen(kind, f'detector/{topic}', self._on_message, RESULTS)
        steady_timer(self, _LOOK_PERIOD_S, self._look_for_viewers)
        self._health = Health(self, self._report)

    def _look_for_viewers(self) -> None:
        """Opens the camera's topic while somebody watches, else closes it."""
        values = self._values
        is_watched = self._image_out.get_subscription_count() > 0
        if is_watched and self._images_in is None:
            self._images_in = ImageInput(
                self,
                'image',
                values['image_transport'],
                values['reliability'],
                on_image=lambda message, waited_ns, left_out: self._on_message(message),
                depth=_IMAGE_DEPTH,
            )
        elif not is_watched and self._images_in is not None:
            self._images_in.close()
            self._images_in = None
            self._frames.clear()

    def _on_message(
        self, message: Image | CompressedImage | Detection2DArray | FrameLatency
    ) -> None:
        if self._images_in is None:
            return
        frame = self._frames.join(message)
        if frame is None:
            return
        try:
            self._draw(frame)
        except (ImageError, ValueError) as error:
            self._problem = f'a frame cannot be shown: {error}'

    def _draw(self, frame: Parts) -> None:
        detections, names = message_to_detections(frame[Detection2DArray])
        latency = frame[FrameLatency]
        # The bound concerns the network alone; the bar shows the whole frame.
        drawn = annotate(
            to_bgr(frame[Image]),
            detections.with_score(self._values['min_score']),
            names,
            budget_ms=latency.budget_ms,
            bound_ms=latency.total_ms - latency.network_ms + latency.bound_ms,
            latency_ms=latency.total_ms,
            path=latency.path,
            outcome=OUTCOMES.get(latency.outcome, f'outcome {latency.outcome}'),
            met=latency.deadline_met,
        )
        self._image_out.publish(bgr_to_image(drawn, latency.header))

    def _report(self) -> Report:
        values = {
            'viewers': self._image_out.get_subscription_count(),
            'refused_messages': self._intake.refused,
        }
        concerns = [self._intake.concern, self._problem]
        self._problem = ''
        if self._images_in is None:
            return report_of(values, 'nobody is watching', concerns=concerns)
        values['middleware_lost'] = self._images_in.flow.lost
        return report_of(values, 'drawing', concerns=(*concerns, *self._images_in.concerns))


def main() -> int:
    return run_node('path_visualizer', PathVisualizerNode, sends_images=True)
