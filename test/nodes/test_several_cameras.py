import pytest
from deadline_perception.msg import FrameLatency
from made_up_network import write_network
from plain_images import noise
from sensor_msgs.msg import Image
from vision_msgs.msg import Detection2DArray

from deadline_perception.nodes.detector_parameters import camera_name
from deadline_perception.nodes.service_quality import RESULTS

TOPICS = {
    'detector': 'image',
    'detector_rear': 'rear/image_raw',
    'detector_left': 'left/image_raw',
    'detector_camera_right': 'camera/right/image_raw',
}


@pytest.mark.slow
@pytest.mark.usefixtures('network_settings')
def test_four_cameras_are_answered(start_node, observer, repeat, wait_for, namespace, tmp_path):
    write_network(tmp_path)
    topics = ', '.join(f'"{topic}"' for topic in list(TOPICS.values())[1:])
    files = {'model': 'good.safetensors', 'profile': 'good.json', 'calibration_file': 'learnt.json'}
    given = {name: tmp_path / file for name, file in files.items()}
    given |= {'default_budget_ms': 400.0, 'further_cameras': f'[{topics}]', 'priority': "'off'"}
    node = start_node('detector', given)
    cameras = [observer.speaker(Image, f'{namespace}/{topic}') for topic in TOPICS.values()]
    latencies, found = (
        {name: observer.hear(kind, f'{namespace}/{name}/{topic}', RESULTS) for name in TOPICS}
        for kind, topic in ((FrameLatency, 'latency'), (Detection2DArray, 'detections'))
    )
    pixels = noise(48, 64)

    def answered(names, count):
        before = {name: len(latencies[name]) for name in names}
        wait_for(lambda: all(len(latencies[name]) >= before[name] + count for name in names))

    # All at once and more than can be computed: the newest image of each, by its own deadline.
    at_work = repeat(lambda: [c.publish(observer.image(pixels)) for c in cameras], 0.01)
    answered(TOPICS, 12)
    assert all(found.values()), 'each is published under its own name'
    for name in TOPICS:
        observer.wait_status(name, state='active')
    at_work.stop()
    for transition in ('deactivate', 'cleanup'):
        assert observer.change(f'{namespace}/detector', transition)
    others = [name for name in TOPICS if name != 'detector']
    repeat(lambda: [camera.publish(observer.image(pixels)) for camera in cameras])
    answered(others, 3)
    for transition in ('configure', 'activate'):
        assert observer.change(f'{namespace}/detector', transition)
    answered(TOPICS, 3)
    assert node.end() == 0, node.output


def test_a_camera_has_the_name_of_its_topic():
    topics = '/camera/rear/image_raw', 'rear/image_raw', '/image_rear'
    assert list(map(camera_name, topics)) == ['camera_rear', 'rear', 'image_rear']
