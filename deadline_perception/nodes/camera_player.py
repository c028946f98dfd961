"""The node `camera_player`: a webcam, a video or a folder of images as a camera, so that all nodes run on a laptop."""

from __future__ import annotations

import threading
import time

from rclpy.node import Node
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.extras.data.shown_source import ShownSource, open_shown
from deadline_perception.nodes.health import Health, Report, report_of
from deadline_perception.nodes.messages import bgr_to_image
from deadline_perception.nodes.parameters import Parameter, declare
from deadline_perception.nodes.process import run_node
from deadline_perception.nodes.service_quality import REPLAY, open_output

PARAMETERS = (
    Parameter(
        'source',
        '0',
        'What is played, again and again: number of a webcam, or its device; a video, a folder of images, or any other '
        'source of the command line.',
        read_only=True,
    ),
    Parameter(
        'rate_hz',
        0.0,
        'Images per second; 0: as the source has them.',
        'Hz',
        0.0,
        1000.0,
        read_only=True,
    ),
    Parameter('frame_id', 'camera', 'Frame of the images.', read_only=True),
)
_DEVICE = '/dev/video'


class CameraPlayerNode(Node):
    """Publishes `image` on a thread of its own; stamps are the time at which an image was there."""

    def __init__(self) -> None:
        super().__init__('camera_player')
        self._values = declare(self, PARAMETERS)
        self._source = open_shown(self._values['source'].removeprefix(_DEVICE))
        self._image_out = open_output(self, Image, 'image', REPLAY)
        self._sent, self._problem = 0, ''
        self._stopped = threading.Event()
        self._health = Health(self, self._report)
        self._thread = threading.Thread(target=self._run, name='camera player')
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._play(self._source)
            except (ValueError, OSError, DeadlinePerceptionError) as error:
                self._problem = str(error)  # a camera that was unplugged may come back
                self._stopped.wait(1.0)

    def _play(self, source: ShownSource) -> None:
        is_camera = source.count is None
        period_s = 1.0 / (self._values['rate_hz'] or source.rate_hz)
        due_s = time.monotonic()
        for image in source.images():
            if not is_camera or self._values['rate_hz']:
                due_s = max(due_s + period_s, time.monotonic())
                if is_camera and due_s > time.monotonic() + period_s:
                    continue
                self._stopped.wait(due_s - time.monotonic())
            if self._stopped.is_set() or not self.context.ok():
                return
            header = Header(
                stamp=self.get_clock().now().to_msg(), frame_id=self._values['frame_id']
            )
            self._image_out.publish(bgr_to_image(image.image_bgr, header))
            self._sent += 1
            self._problem = ''

    def destroy_node(self) -> None:
        """Ends the player's thread first."""
        self._stopped.set()
        self._thread.join()
        super().destroy_node()

    def _report(self) -> Report:
        values = {'source': self._source.name, 'images': self._sent}
        return report_of(values, f'playing {self._source.name}', concerns=(self._problem,))


def main() -> int:
    return run_node('camera_player', CameraPlayerNode, sends_images=True)
