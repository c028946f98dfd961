"""What a detector that runs as a real process loads: segments that it prepares first, new weights, none that fit."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from made_up_detector import TINY
from made_up_network import CLASSES, made_up_profile
from plain_images import noise
from sensor_msgs.msg import Image
from vision_msgs.msg import Detection2DArray

from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.extras.weights_writer import build_detector, save_detector
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.nodes.messages import stamp_to_ns

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('network_settings')]

torch = pytest.importorskip('torch')
SMALL = replace(TINY, name='small', scales=(1.0,), widths=(1.0, 0.5))
IMAGE = noise(64, 96)
PERIOD_S = 0.1


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


def test_weights_change_by_a_lifecycle_cycle_and_what_cannot_be_loaded_is_refused(
    files, start_node, observer, wait_for, namespace, start_camera
):
    node = start_node(
        'detector',
        {
            'model': files / 'vehicles.safetensors',
            'profile': files / 'profile.json',
            'engine': 'eager',
            'policy': 'one_path_policies:cheapest',
            'default_budget_ms': 20_000.0,
        },
    )
    found = observer.hear(Detection2DArray, f'{namespace}/detector/detections')

    def said(detections):
        return {detection.results[0].hypothesis.class_id for detection in detections.detections}

    camera = start_camera()
    wait_for(lambda: found and said(found[-1]) == {'vehicle'}, f'detections: {node.output}')
    assert observer.change('detector', 'deactivate') and observer.change('detector', 'cleanup')
    for model, reason in (
        (str(files / 'damaged.safetensors'), 'cannot be read as safetensors'),
        (str(files / 'unsuited.safetensors'), 'path qualities were measured on weights'),
        ('refusing_networks:exits', 'SystemExit: 3'),
        ('refusing_networks:has_no_memory', 'MemoryError'),
    ):
        assert not observer.set_parameters(f'{namespace}/detector', model=model)
        assert not observer.change('detector', 'configure')
        observer.wait_status('detector', reason)
    assert not observer.set_parameters(
        f'{namespace}/detector', model=str(files / 'bikes.safetensors')
    )
    assert observer.change('detector', 'configure') and observer.change('detector', 'activate')
    wait_for(lambda: said(found[-1]) == {'bike'}, 'detections of the new network')
    camera.stop()
    path = load_detector(files / 'bikes.safetensors').path_space.smallest
    expected = (
        load_detector(files / 'bikes.safetensors').detect(IMAGE, path).with_score(0.05).scores
    )
    scores = [detection.results[0].hypothesis.score for detection in found[-1].detections]
    assert scores == pytest.approx(expected, abs=1e-4)


@pytest.fixture
def unprepared(prepared, tmp_path, monkeypatch):
    """Weights with their quantised models beside them, and parameters of a node without segments."""
    weights, profile = tmp_path / 'small.safetensors', tmp_path / 'profile.json'
    shutil.copy(prepared.weights, weights)
    shutil.copy(prepared.weights.with_name('small.models'), weights.with_suffix('.quantised'))
    made_up_profile(
        prepared.network(), image_size=IMAGE.shape[:2], scaled_from='Another board'
    ).save(profile)
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'empty'))
    return weights, {'model': weights, 'profile': profile}


def test_a_device_is_prepared_once(unprepared, start_node, observer, wait_for, namespace):
    weights, parameters = unprepared

    def preparing():
        return [
            int(entry.name)
            for entry in Path('/proc').iterdir()
            if entry.name.isdigit()
            and str(weights).encode() in _words_of(entry)
            and b'--prepare-only' in _words_of(entry)
        ]

    node = start_node('detector', parameters)
    wait_for(preparing, f'a process that prepares: {node.output}')
    assert node.end() == 0, node.output
    wait_for(lambda: not preparing(), 'the end of the process that prepares')
    for prepares in (True, False):  # goes on, then has all at hand
        node = start_node('detector', parameters)
        wait_for(lambda: 'inference runs with' in node.output, 'the active node')
        wait_for(lambda: observer.status('detector')[2].get('engine', '').startswith('openvino'))
        assert ('prepares the segments of' in node.output) is prepares
        assert node.end() == 0, node.output
        assert not preparing()


def _words_of(process):
    try:
        return (process / 'cmdline').read_bytes()
    except OSError:  # it has ended
        return b''
