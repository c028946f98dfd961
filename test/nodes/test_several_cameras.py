"""Four cameras, one detector process, one network: whose images are answered."""

from __future__ import annotations

import numpy as np
import pytest
from deadline_perception.msg import FrameLatency
from made_up_network import write_network
from sensor_msgs.msg import Image
from vision_msgs.msg import Detection2DArray

from deadline_perception.core.device import DEFAULT_THREADS, process_environment
from deadline_perception.nodes.detector_parameters import camera_name
from deadline_perception.nodes.service_quality import RESULTS

TOPICS = {
    'detector': 'image',
    'detector_rear': 'rear/image_raw',
    'detector_left': 'left/image_raw',
    'detector_camera_right': 'camera/right/image_raw',
}
BUDGET_MS = 400.0
FRAMES = 12


@pytest.fixture
def detectors(start_node, tmp_path):
    """A process with four cameras."""
    write_network(tmp_path)
    topics = ', '.join(f'"{topic}"' for topic in list(TOPICS.values())[1:])
    return start_node(
        'detector',
        {
            'model': tmp_path / 'good.safetensors',
            'profile': tmp_path / 'good.json',
            'default_budget_ms': BUDGET_MS,
            'further_cameras': f'[{topics}]',
            'calibration_file': tmp_path / 'learnt.json',
            'priority': "'off'",
        },
        environment=process_environment(DEFAULT_THREADS),
    )


def test_four_cameras_that_send_more_than_can_be_answered_get_as_much_each(
    detectors, observer, repeat, wait_for, namespace
):
    """All at once every 10 ms, which is less than one frame takes: newest images, each with an own deadline."""
    cameras = [observer.speaker(Image, f'{namespace}/{topic}') for topic in TOPICS.values()]
    latencies = {
        name: observer.hear(FrameLatency, f'{namespace}/{name}/latency', RESULTS) for name in TOPICS
    }
    found = {
        name: observer.hear(Detection2DArray, f'{namespace}/{name}/detections', RESULTS)
        for name in TOPICS
    }
    pixels = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    cameras_at_work = repeat(
        lambda: [camera.publish(observer.image(pixels)) for camera in cameras], 0.01
    )

    def own(name):
        """Images that the network answered in time."""
        return sum(
            frame.outcome == FrameLatency.DETECTED and frame.deadline_met
            for frame in latencies[name]
        )

    wait_for(lambda: all(latencies.values()), f'an answer to each: {detectors.output}')
    before = {name: own(name) for name in TOPICS}
    wait_for(
        lambda: max(own(name) - before[name] for name in TOPICS) >= 4 * FRAMES,
        f'answers: {detectors.output}',
    )
    counts = {name: own(name) - before[name] for name in TOPICS}
    cameras_at_work.stop()
    assert min(counts.values()) >= FRAMES, counts
    assert all(found.values()), 'each is published under its own name'
    for name in TOPICS:
        status = observer.status(name)
        assert status[2]['state'] == 'active' and int(status[2]['frames']) > 0, status
    assert detectors.end() == 0, detectors.output


def test_a_camera_leaves_and_comes_back_while_the_others_are_answered(
    detectors, observer, wait_for, namespace
):
    images = {
        name: observer.speaker(Image, f'{namespace}/{topic}') for name, topic in TOPICS.items()
    }
    latencies = {
        name: observer.hear(FrameLatency, f'{namespace}/{name}/latency', RESULTS) for name in TOPICS
    }
    pixels = np.zeros((48, 64, 3), np.uint8)

    def answered(name):
        before = len(latencies[name])
        images[name].publish(observer.image(pixels))
        wait_for(lambda: len(latencies[name]) > before, f'{name}: {detectors.output}')

    for name in TOPICS:
        answered(name)
    for transition in ('deactivate', 'cleanup'):
        assert observer.change(f'{namespace}/detector', transition)
    answered('detector_rear')
    for transition in ('configure', 'activate'):
        assert observer.change(f'{namespace}/detector', transition)
    wait_for(lambda: images['detector'].get_subscription_count(), 'the first camera again')
    answered('detector')
    answered('detector_camera_right')
    assert detectors.end() == 0, detectors.output


@pytest.mark.parametrize(
    ('topic', 'name'),
    [
        ('/camera/rear/image_raw', 'camera_rear'),
        ('rear/image_raw', 'rear'),
        ('/image_rear', 'image_rear'),
    ],
)
def test_a_camera_has_the_name_of_its_topic(topic, name):
    assert camera_name(topic) == name
