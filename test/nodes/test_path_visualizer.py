from __future__ import annotations

import numpy as np
from deadline_perception.msg import FrameLatency
from sensor_msgs.msg import Image
from stamped_messages import header
from vision_msgs.msg import Detection2DArray

from deadline_perception.core.detections import Detections
from deadline_perception.core.images.annotate import class_colour
from deadline_perception.core.images.image_message import to_bgr
from deadline_perception.nodes.messages import DetectionsMessage, bgr_to_image, ns_to_stamp

NAMES = ('vehicle', 'bike')
FOUND = Detections([(100, 100, 200, 150), (10, 10, 40, 40)], [0.9, 0.1], [0, 1])


def latency(stamp_ns, **changes):
    fields = {
        'budget_ms': 100.0,
        'total_ms': 60.0,
        'network_ms': 40.0,
        'bound_ms': 50.0,
        'deadline_met': True,
        'path': 's01-w0.50-p100-h1',
        **changes,
    }
    return FrameLatency(header=header(stamp_ns), **fields)


class Frames:
    """Sends the three messages of one frame after the other, each with a stamp of its own."""

    def __init__(self, observer, kind, topic):
        self.images = observer.speaker(kind, topic)
        self.detections = observer.speaker(Detection2DArray, 'detector/detections')
        self.latencies = observer.speaker(FrameLatency, 'detector/latency')
        self.stamp_ns = 1_000_000_000

    def send(self, image):
        self.send_image(image, self.stamp_ns + 1_000_000)
        self.send_answer()

    def send_answer(self):
        self.stamp_ns += 1_000_000
        self.latencies.publish(latency(self.stamp_ns))  # before the detections, as may happen
        self.detections.publish(DetectionsMessage(NAMES).fill(FOUND, header(self.stamp_ns)))

    def send_image(self, image, stamp_ns):
        image.header.stamp = ns_to_stamp(stamp_ns)
        self.images.publish(image)


def test_draws_while_watched_and_lets_the_camera_go_after(start_node, observer, wait_for):
    start_node('path_visualizer', {}, {'image': '/cam/image_raw'})
    observer.wait_status('path_visualizer', 'nobody is watching')
    assert observer.node.count_subscribers('/cam/image_raw') == 0
    pictures = []
    watching = observer.node.create_subscription(
        Image, 'path_visualizer/image', pictures.append, 10
    )
    frames = Frames(observer, Image, '/cam/image_raw')
    plain = bgr_to_image(np.full((380, 640, 3), 100, np.uint8), header(0))
    wait_for(lambda: frames.send(plain) or pictures, 'an annotated image')
    drawn = to_bgr(pictures[0])
    assert pictures[0].header.frame_id == 'camera' and drawn.shape[0] > 380
    assert (drawn[125, 100] == class_colour('vehicle')).all()
    np.testing.assert_array_equal(drawn[5:60, 5:60], 100)  # a score of 0.1 is not drawn
    observer.node.destroy_subscription(watching)
    wait_for(lambda: observer.node.count_subscribers('/cam/image_raw') == 0)
    observer.wait_status('path_visualizer', 'nobody is watching')
