"""The node as a real process, with the shipped weights, on an image of rendered lights and signs."""

from __future__ import annotations

import time

import numpy as np
import pytest
from deadline_perception.msg import TimeBudget
from hanging_network import FLAG
from hanging_network import make_classifier as make_hanging
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Image
from std_msgs.msg import Header
from vision_msgs.msg import (
    Detection2D,
    Detection2DArray,
    ObjectHypothesis,
    ObjectHypothesisWithPose,
)

from deadline_perception.core.detections import Detections
from deadline_perception.core.device import DEFAULT_THREADS, process_environment
from deadline_perception.extras.rendered_drive.single_object import render_object
from deadline_perception.extras.several_networks.classifier.classes import CLASS_NAMES
from deadline_perception.nodes.crop_classifier import refined
from deadline_perception.nodes.messages import DetectionsMessage
from deadline_perception.timing.profile import measure_profile

torch = pytest.importorskip('torch')
NAMES = ('vehicle', 'traffic_light', 'traffic_sign', 'tram')
SHOWN = ('red_light', 'green_light', 'stop', 'speed_limit_30', 'give_way', 'vehicle')
WEIGHTS = 'models/crop_classifier.safetensors'


@pytest.fixture(scope='module')
def street():
    """An image of several objects that the upper levels read, each 48 px long, and what the detector says of them."""
    image, boxes, labels = np.full((200, 900, 3), 110, np.uint8), [], []
    for number, name in enumerate(SHOWN):
        view = render_object(
            np.random.default_rng(80 + number), name, 48.0, np.full((40, 40, 3), 110, np.uint8)
        )
        height, width = view.image_bgr.shape[:2]
        image[10 : 10 + height, 140 * number : 140 * number + width] = view.image_bgr
        boxes.append(np.array(view.box_xyxy_px) + [140 * number, 10] * 2)
        labels.append(1 if name.endswith('_light') else 0 if name == 'vehicle' else 2)
    return image, Detections(np.array(boxes), np.full(len(boxes), 0.8), np.array(labels))


@pytest.fixture(scope='module')
def profile(tmp_path_factory, repository):
    from deadline_perception.extras.several_networks.classifier.checkpoint import load_classifier

    file = tmp_path_factory.mktemp('profile') / 'profile.json'
    crop = np.zeros((60, 60, 3), np.uint8)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    measure_profile(
        load_classifier(repository / WEIGHTS), [crop], repeats=5, whole_paths=10, path_repeats=3
    ).save(file)
    torch.set_num_threads(before)
    return file


class Stand:
    """The node beside what speaks to it; sends an image and its detections."""

    def __init__(
        self, start_node, observer, wait_for, namespace, profile, repository, **parameters
    ):
        self.node = start_node(
            'crop_classifier',
            {'model': repository / WEIGHTS, 'profile': profile, 'engine': 'eager', **parameters},
            environment=process_environment(DEFAULT_THREADS),
        )
        self.answers = observer.hear(Detection2DArray, f'{namespace}/crop_classifier/detections')
        wait_for(
            lambda: observer.status('crop_classifier')[2].get('state') == 'active',
            'the active node',
        )
        self.budgets = observer.speaker(
            TimeBudget, f'{namespace}/time_budget/budget', QoSProfile(depth=5)
        )
        self.camera = observer.speaker(Image, f'{namespace}/image')
        self.detector = observer.speaker(Detection2DArray, f'{namespace}/detector/detections', 5)
        self._observer, self._wait_for = observer, wait_for

    def send(self, image, found, budget_ms=20_000.0, image_first=True):
        """Returns the answer."""
        count = len(self.answers)
        self._wait_for(
            lambda: (
                self.budgets.publish(
                    TimeBudget(
                        budget_ms=budget_ms, min_budget_ms=budget_ms, max_budget_ms=budget_ms
                    )
                )
                or self._observer.status('crop_classifier')[2].get('budget_ms')
                == f'{budget_ms:.6g}'
            ),
            'the budget in force',
        )
        header = self.speak(image, found, image_first)
        self._wait_for(lambda: len(self.answers) > count, f'an answer: {self.node.output}')
        assert self.answers[-1].header == header
        return self.answers[-1]

    def speak(self, image, found, image_first=True):
        """Returns the header."""
        picture = self._observer.image(np.zeros((1, 1, 3), np.uint8) if image is None else image)
        header = picture.header
        messages = [(self.detector, DetectionsMessage(NAMES).fill(found, header))]
        if image is not None:
            messages.insert(0 if image_first else 1, (self.camera, picture))
        for speaker, message in messages:
            speaker.publish(message)
        return header

    def counts(self, name):
        return int(self._observer.status('crop_classifier')[2].get(name, 0))


@pytest.fixture
def stand(start_node, observer, wait_for, namespace, profile, repository):
    return Stand(start_node, observer, wait_for, namespace, profile, repository)


def classes(message):
    return [detection.results[0].hypothesis.class_id for detection in message.detections]


def test_lights_get_their_colour_and_signs_their_meaning(stand, street, wait_for):
    image, found = street
    for image_first in (True, False):
        answer = stand.send(image, found, image_first=image_first)
        assert classes(answer) == list(SHOWN)
        for detection, label in zip(answer.detections, found.labels):
            assert detection.results[-1].hypothesis.class_id == NAMES[label]
            assert detection.results[-1].hypothesis.score == pytest.approx(0.8)
            assert all(result.hypothesis.score <= 0.8 + 1e-6 for result in detection.results)
        np.testing.assert_allclose(
            answer.detections[0].bbox.center.position.x, found.boxes_xyxy_px[0, [0, 2]].mean()
        )
    wait_for(lambda: stand.counts('rounds') == 2, 'the diagnostic')
    assert stand.counts('classified') == 12 and stand.counts('missing_images') == 0

    # Without time, without an image, with boxes that are none: every message is answered, and it is said why.
    late = stand.send(image, found, budget_ms=1.0)
    assert classes(late) == [NAMES[label] for label in found.labels]
    wait_for(
        lambda: (
            stand.counts('late_rounds')
            + stand.counts('missing_images')
            + stand.counts('out_of_time')
            >= 1
        ),
        'the late round',
    )
    missing = stand.counts('missing_images')
    assert classes(stand.send(None, found, budget_ms=300.0)) == [
        NAMES[label] for label in found.labels
    ]
    wait_for(lambda: stand.counts('missing_images') == missing + 1, 'the missing image')
    strange = Detections(
        np.array([(5000.0, 10, 5040, 50), (10, 10, 50, 50), (10, 10, 14, 14)]),
        np.full(3, 0.9),
        np.array([2, 3, 2]),
    )
    assert classes(stand.send(image, strange)) == ['traffic_sign', 'tram', 'traffic_sign']
    wait_for(
        lambda: stand.counts('refused_boxes') == 1 and stand.counts('unknown_classes') == 1,
        'the strange boxes',
    )
    # With 20 s of time, at once what no image will ever belong to: a camera without stamps.
    stand.detector.publish(DetectionsMessage(NAMES).fill(found, Header()))
    header = stand.speak(image, found)
    wait_for(lambda: stand.answers[-1].header == header, 'the answer')
    assert stand.answers[-2].header == Header()
    assert stand.node.end() == 0


def test_a_node_whose_network_hung_through_a_cleanup_is_not_configured_again_and_ends_to_be_replaced(
    start_node, observer, wait_for, namespace, street, tmp_path, monkeypatch, repository
):
    flag, times = tmp_path / 'hang', tmp_path / 'times.json'
    monkeypatch.setenv(FLAG, str(flag))
    monkeypatch.setenv('PYTHONPATH', str(repository / 'test'))
    measure_profile(
        make_hanging(), [np.zeros((48, 64, 3), np.uint8)], repeats=2, whole_paths=4, path_repeats=2
    ).save(times)
    stand = Stand(
        start_node,
        observer,
        wait_for,
        namespace,
        times,
        repository,
        model='hanging_network:make_classifier',
    )
    image, found = street
    stand.send(image, found)
    wait_for(lambda: stand.counts('rounds') == 1, 'a round')
    flag.touch()
    stand.speak(image, found)
    time.sleep(1.0)
    assert observer.change('crop_classifier', 'deactivate') and observer.change(
        'crop_classifier', 'cleanup'
    )
    wait_for(
        lambda: observer.status('crop_classifier')[:2] == (2, 'the network still hangs in a frame'),
        'the hang',
    )
    assert not observer.change('crop_classifier', 'configure')
    assert stand.node.wait_ended() == 70
    assert 'cannot be configured: the network still hangs in a frame' in stand.node.output


def test_weights_of_another_network_are_refused_in_one_line(
    start_node, observer, wait_for, repository, profile
):
    start_node('crop_classifier', {'model': 'compact', 'profile': profile, 'engine': 'eager'})
    wait_for(lambda: observer.status('crop_classifier')[0] == 2, 'the refusal')
    _, message, _ = observer.status('crop_classifier')
    assert (
        message.startswith('cannot be configured: ')
        and 'does not fit' in message
        and '\n' not in message
    )


def detection(name, score=0.6):
    return Detection2D(
        results=[ObjectHypothesisWithPose(hypothesis=ObjectHypothesis(class_id=name, score=score))]
    )


def scores(**shares):
    return [shares.get(name, 0.0) for name in CLASS_NAMES]


def test_a_hypothesis_has_the_detector_s_score_times_its_share():
    found = refined(
        detection('traffic_light'),
        scores(red_light=0.6, yellow_light=0.2, background=0.2),
        CLASS_NAMES,
    )
    said = {result.hypothesis.class_id: result.hypothesis.score for result in found.results}
    assert list(said)[0] == 'red_light' and list(said)[-1] == 'traffic_light'
    assert said['red_light'] == pytest.approx(0.45) and said['yellow_light'] == pytest.approx(0.15)


def test_what_contradicts_the_detector_is_not_published():
    assert refined(detection('traffic_sign'), scores(background=0.6, stop=0.4), CLASS_NAMES) is None
    assert refined(detection('vehicle'), scores(background=0.9, vehicle=0.1), CLASS_NAMES) is None
    same = detection('vehicle')
    assert refined(same, scores(vehicle=0.9, background=0.1), CLASS_NAMES) is same
