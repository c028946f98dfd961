"""New weights for a detector that runs as a real process, while images come."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from deadline_perception.msg import FrameLatency
from made_up_network import CLASSES, made_up_profile
from sensor_msgs.msg import Image
from std_srvs.srv import Trigger
from vision_msgs.msg import Detection2DArray

from deadline_perception.core.device import DEFAULT_THREADS, process_environment
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.networks.multi_path.checkpoint import (
    build_detector,
    load_detector,
    save_detector,
)
from deadline_perception.networks.multi_path.configuration import COMPACT
from deadline_perception.nodes.messages import stamp_to_ns
from deadline_perception.nodes.reload import short_turns

torch = pytest.importorskip('torch')
SMALL = replace(COMPACT, name='small', input_size=(64, 96), scales=(1.0,), widths=(1.0, 0.5))
IMAGE = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
PERIOD_S = 0.1
TESTS = str(Path(__file__).parents[1])


def write(file, label, seed, config=SMALL, class_names=CLASSES):
    """Weights that take every region for an object of one class."""
    detector = build_detector(config, class_names, seed=seed)
    with torch.no_grad():
        for head in detector.heads.subnets:
            head.classes.bias[1 + label] = 4.0
    save_detector(detector, file)
    return detector


@pytest.fixture
def files(tmp_path):
    write(tmp_path / 'vehicles.safetensors', 0, 1)
    bikes = write(tmp_path / 'bikes.safetensors', 1, 2)
    write(tmp_path / 'wider.safetensors', 1, 2, replace(SMALL, stage_channels=(64, 128, 256, 352)))
    write(tmp_path / 'fewer.safetensors', 1, 2, class_names=CLASSES[:-1])
    write(tmp_path / 'unsuited.safetensors', 0, 3)
    PathQuality({bikes.path_space.largest: 0.5}, weights_hash=bikes.weights_hash).save(
        tmp_path / 'unsuited.quality.json'
    )
    whole = (tmp_path / 'bikes.safetensors').read_bytes()
    (tmp_path / 'damaged.safetensors').write_bytes(whole[: len(whole) // 2])
    made_up_profile(bikes, image_size=IMAGE.shape[:2]).save(tmp_path / 'profile.json')
    return tmp_path


@pytest.fixture
def start_camera(observer, repeat, namespace):
    """Publishes an image after each period, and keeps the stamps, until it is stopped."""

    def start():
        speaker, stamps_ns = observer.speaker(Image, f'{namespace}/image'), []

        def show():
            image = observer.image(IMAGE)
            stamps_ns.append(stamp_to_ns(image.header.stamp))
            speaker.publish(image)

        camera = repeat(show, PERIOD_S)
        camera.stamps_ns = stamps_ns
        return camera

    return start


def check_all_answered_once(latencies, camera):
    """Every image from the first answer on is answered or replaced, in order."""
    answered = [stamp_to_ns(latency.header.stamp) for latency in latencies]
    begin = camera.stamps_ns.index(answered[0])
    assert answered == sorted(set(answered))
    assert (
        len(answered) + sum(latency.replaced_frames for latency in latencies[1:])
        == len(camera.stamps_ns) - begin
    )


def test_new_weights_are_taken_between_two_frames_and_what_does_not_fit_is_refused(
    files, start_node, observer, wait_for, namespace, start_camera
):
    bikes = load_detector(files / 'bikes.safetensors')
    path = bikes.path_space.smallest
    shutil.copy(files / 'vehicles.safetensors', files / 'model.safetensors')
    node = start_node(
        'detector',
        {
            'model': files / 'model.safetensors',
            'profile': files / 'profile.json',
            'engine': 'eager',
            'policy': 'one_path_policies:cheapest',
            'default_budget_ms': 20_000.0,
            'autostart': False,
        },
        environment={**process_environment(DEFAULT_THREADS), 'PYTHONPATH': TESTS},
    )
    found = observer.hear(Detection2DArray, f'{namespace}/detector/detections')
    latencies = observer.hear(FrameLatency, f'{namespace}/detector/latency')

    def reload():
        return observer.call(Trigger, f'{namespace}/detector/reload', Trigger.Request())

    answer = reload()
    assert not answer.success and 'the node is not configured' in answer.message
    assert not observer.set_parameters(f'{namespace}/detector', model='refusing_networks:exits')
    assert not observer.change('detector', 'configure')
    wait_for(
        lambda: observer.status('detector')[1] == 'cannot be configured: SystemExit: 3',
        'the diagnostic',
    )
    assert not observer.set_parameters(
        f'{namespace}/detector', model=str(files / 'model.safetensors')
    )
    assert observer.change('detector', 'configure') and observer.change('detector', 'activate')

    def said(detections):
        return {detection.results[0].hypothesis.class_id for detection in detections.detections}

    camera = start_camera()
    wait_for(lambda: found and said(found[-1]) == {'vehicle'}, f'detections: {node.output}')
    for name, reason in (
        ('damaged', 'cannot be read as safetensors'),
        ('wider', 'its shape: small'),
        ('fewer', f'its classes: {", ".join(CLASSES[:-1])}; expected'),
        ('unsuited', 'path qualities were measured on weights'),
        ('missing', 'does not exist'),
    ):
        assert not observer.set_parameters(
            f'{namespace}/detector', model=str(files / f'{name}.safetensors')
        )
        answer = reload()
        assert not answer.success and reason in answer.message and '\n' not in answer.message, (
            answer.message
        )
        assert answer.message in node.output
    for name, reason in (
        ('exits', 'SystemExit: 3'),
        ('has_no_memory', 'MemoryError'),
        ('is_misnamed', 'AttributeError: '),
        ('overflows', 'OverflowError: too large'),
        ('is_interrupted', 'KeyboardInterrupt'),
    ):
        assert not observer.set_parameters(
            f'{namespace}/detector', model=f'refusing_networks:{name}'
        )
        answer = reload()
        assert not answer.success and f'nothing changed: {reason}' in answer.message, answer.message
    seen = len(found)
    wait_for(lambda: len(found) > seen + 2, 'detections of the old network')
    assert said(found[-1]) == {'vehicle'}

    # As `tune` and `train` do it: another file in the place of the one that runs.
    assert not observer.set_parameters(
        f'{namespace}/detector', model=str(files / 'model.safetensors')
    )
    (files / 'bikes.safetensors').replace(files / 'model.safetensors')
    answer = reload()
    assert answer.success and answer.message == f'reloaded {files / "model.safetensors"}: it runs'
    after_ns = observer.node.get_clock().now().nanoseconds
    wait_for(
        lambda: stamp_to_ns(found[-1].header.stamp) > after_ns, 'detections of the new network'
    )
    camera.stop()
    wait_for(
        lambda: stamp_to_ns(latencies[-1].header.stamp) == camera.stamps_ns[-1], 'the last answer'
    )

    check_all_answered_once(latencies, camera)
    assert all(latency.outcome == FrameLatency.DETECTED for latency in latencies[1:])
    classes = [said(detections) for detections in found]
    assert all(len(names) == 1 for names in classes)
    changes = [one for one, next_one in zip(classes, classes[1:]) if one != next_one]
    assert changes == [{'vehicle'}]  # once, between two frames
    expected = bikes.detect(IMAGE, path).with_score(0.05)
    scores = [detection.results[0].hypothesis.score for detection in found[-1].detections]
    assert scores == pytest.approx(expected.scores, abs=1e-4)


def test_a_network_on_prepared_segments_is_replaced_and_given_back_without_a_lost_image(
    prepared, start_node, observer, wait_for, namespace, start_camera
):
    network = prepared.network()
    profile = prepared.weights.with_name('profile.json')
    made_up_profile(network, image_size=IMAGE.shape[:2]).save(profile)
    node = start_node(
        'detector',
        {
            'model': prepared.weights,
            'profile': profile,
            'engine': 'openvino',
            'policy': 'one_path_policies:largest',
            'default_budget_ms': 20_000.0,
            'min_score': 0.0,
        },
        environment={**process_environment(DEFAULT_THREADS), 'PYTHONPATH': TESTS},
    )
    found = observer.hear(Detection2DArray, f'{namespace}/detector/detections')
    latencies = observer.hear(FrameLatency, f'{namespace}/detector/latency')
    camera = start_camera()
    wait_for(lambda: found, f'detections: {node.output}')
    for _ in range(3):
        assert observer.call(Trigger, f'{namespace}/detector/reload', Trigger.Request()).success, (
            node.output
        )
        seen = len(found)
        wait_for(lambda: len(found) > seen + 20, 'frames while the network before is given back')
    camera.stop()
    wait_for(
        lambda: stamp_to_ns(latencies[-1].header.stamp) == camera.stamps_ns[-1], 'the last answer'
    )
    check_all_answered_once(latencies, camera)
    assert {latency.outcome for latency in latencies} == {FrameLatency.DETECTED}
    scores = [
        [detection.results[0].hypothesis.score for detection in array.detections] for array in found
    ]
    assert scores[0] and all(
        one == scores[0] for one in scores
    )  # the same segments of the same weights
    assert node.end() == 0, node.output


@pytest.fixture
def unprepared(prepared, tmp_path):
    """Weights with their quantised models beside them, and parameters and environment of a node without segments."""
    weights, profile = tmp_path / 'small.safetensors', tmp_path / 'profile.json'
    shutil.copy(prepared.weights, weights)
    shutil.copy(prepared.weights.with_name('small.models'), weights.with_suffix('.quantised'))
    made_up_profile(
        prepared.network(), image_size=IMAGE.shape[:2], scaled_from='Another board'
    ).save(profile)
    return (
        weights,
        {'model': weights, 'profile': profile},
        {**process_environment(DEFAULT_THREADS), 'XDG_CACHE_HOME': str(tmp_path / 'empty')},
    )


def test_a_device_that_nobody_prepared_answers_at_once_and_changes_over_to_segments_that_it_prepares_meanwhile(
    unprepared, start_node, observer, wait_for, namespace, start_camera
):
    weights, parameters, environment = unprepared
    node = start_node(
        'detector',
        {**parameters, 'default_budget_ms': 20_000.0, 'min_score': 0.0},
        environment=environment,
    )
    found = observer.hear(Detection2DArray, f'{namespace}/detector/detections')
    latencies = observer.hear(FrameLatency, f'{namespace}/detector/latency')
    camera = start_camera()
    wait_for(lambda: found, f'detections: {node.output}')
    wait_for(lambda: 'engine' in observer.status('detector')[2], 'diagnostics')
    assert observer.status('detector')[2]['engine'] == 'eager'
    wait_for(
        lambda: observer.status('detector')[2]['engine'].startswith('openvino'),
        f'the change: {node.output}',
    )
    wait_for(
        lambda: 'goes by the times that its first frames took' in node.output,
        'times of the new segments',
    )
    seen = len(latencies)
    wait_for(lambda: len(latencies) > seen + 20, 'frames on what was prepared')
    camera.stop()
    assert {latency.outcome for latency in latencies} == {FrameLatency.DETECTED}
    assert node.end() == 0, node.output
    assert 'prepared beside the node' in node.output and 'not reloaded' not in node.output


def test_a_node_that_ends_while_it_prepares_leaves_no_process_and_the_next_one_goes_on(
    unprepared, start_node, observer, wait_for, namespace, start_camera
):
    weights, parameters, environment = unprepared

    def preparing():
        return [
            int(entry.name)
            for entry in Path('/proc').iterdir()
            if entry.name.isdigit()
            and str(weights).encode() in _words_of(entry)
            and b'--prepare-only' in _words_of(entry)
        ]

    for ends_early in (True, False):
        node = start_node('detector', parameters, environment=environment)
        if ends_early:
            wait_for(preparing, f'a process that prepares: {node.output}')
        else:
            wait_for(lambda: f'{weights}: it runs' in node.output, f'the change: {node.output}')
        assert node.end() == 0, node.output
        wait_for(lambda: not preparing(), 'the end of the process that prepares')


def _words_of(process):
    try:
        return (process / 'cmdline').read_bytes()
    except OSError:  # it has ended
        return b''


def test_failed_reloads_leave_no_memory_behind(
    start_node, observer, wait_for, namespace, tmp_path, repository
):
    """Of a node that was started by hand, without the settings of `process_environment` for the allocator."""
    weights = tmp_path / 'compact.safetensors'
    shutil.copy(repository / 'models' / 'compact.safetensors', weights)
    network = load_detector(weights)
    made_up_profile(network, image_size=IMAGE.shape[:2]).save(tmp_path / 'profile.json')
    node = start_node(
        'detector',
        {
            'model': weights,
            'profile': tmp_path / 'profile.json',
            'engine': 'eager',
            'policy': 'one_path_policies:cheapest',
        },
        environment={'OMP_WAIT_POLICY': 'PASSIVE', 'PYTHONPATH': TESTS},
    )
    wait_for(
        lambda: observer.status('detector')[2].get('state') == 'active',
        f'the active node: {node.output}',
    )
    for _ in range(2):
        answer = observer.call(Trigger, f'{namespace}/detector/reload', Trigger.Request())
        assert answer.success, answer.message
    PathQuality({network.path_space.largest: 0.5}, weights_hash='0' * 16).save(
        tmp_path / 'compact.quality.json'
    )
    sizes_mb = []

    def grown_mb() -> int:
        status = Path(f'/proc/{node.process.pid}/status').read_text()
        sizes_mb.append(int(re.search(r'VmRSS:\s+(\d+)', status)[1]) // 1024)
        return sizes_mb[-1] - min(sizes_mb)  # the first may still hold what its reload loaded

    for _ in range(10):
        answer = observer.call(Trigger, f'{namespace}/detector/reload', Trigger.Request())
        assert not answer.success and 'path qualities were measured on weights' in answer.message
        wait_for(
            lambda: grown_mb() < 40,
            'what was loaded in vain to be given back, which begins with the answer',
        )


def test_turns_are_short_only_as_long_as_they_are_asked_for():
    before = sys.getswitchinterval()
    with pytest.raises(KeyError), short_turns():
        assert sys.getswitchinterval() == pytest.approx(1e-4)
        raise KeyError
    assert sys.getswitchinterval() == before
