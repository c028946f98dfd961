import itertools

import numpy as np
from deadline_perception.msg import FrameLatency
from sensor_msgs.msg import Image
from stamped_messages import header
from vision_msgs.msg import Detection2DArray

from deadline_perception.core.detections import Detections
from deadline_perception.core.images.annotate import class_colour
from deadline_perception.core.images.image_message import to_bgr
from deadline_perception.nodes.messages import DetectionsMessage, bgr_to_image

FOUND = Detections([(100, 100, 200, 150), (10, 10, 40, 40)], [0.9, 0.1], [0, 1])
MET = {'budget_ms': 100.0, 'total_ms': 60.0, 'network_ms': 40.0, 'deadline_met': True}


def test_draws_while_watched_and_lets_the_camera_go_after(start_node, observer, wait_for):
    start_node('path_visualizer', {}, {'image': '/cam/image_raw'})
    observer.wait_status('path_visualizer', 'nobody is watching')
    assert observer.node.count_subscribers('/cam/image_raw') == 0
    pictures, stamps_ns = [], itertools.count(10**9, 10**6)
    node, topic = observer.node, 'path_visualizer/image'
    watching = node.create_subscription(Image, topic, pictures.append, 10)
    images = observer.speaker(Image, '/cam/image_raw')
    latencies = observer.speaker(FrameLatency, 'detector/latency')
    detections = observer.speaker(Detection2DArray, 'detector/detections')
    plain = np.full((380, 640, 3), 100, np.uint8)

    def send(encoding='bgr8'):
        image = bgr_to_image(plain, head := header(next(stamps_ns)))
        image.encoding = encoding
        images.publish(image)
        latencies.publish(FrameLatency(header=head, path='s01-w0.50-p100-h1', **MET))
        detections.publish(DetectionsMessage(('vehicle', 'bike')).fill(FOUND, head))

    wait_for(lambda: send() or pictures, 'an annotated image')
    drawn = to_bgr(pictures[0])
    assert pictures[0].header.frame_id == 'camera' and drawn.shape[0] > 380
    assert (drawn[125, 100] == class_colour('vehicle')).all()
    np.testing.assert_array_equal(drawn[5:60, 5:60], 100)  # a score of 0.1 is not drawn
    send(encoding='none')
    observer.wait_status('path_visualizer', "a frame cannot be shown: image encoding is 'none'")
    node.destroy_subscription(watching)
    wait_for(lambda: node.count_subscribers('/cam/image_raw') == 0)
    observer.wait_status('path_visualizer', 'nobody is watching')
