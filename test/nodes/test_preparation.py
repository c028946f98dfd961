"""What a detector that runs as a real process loads: segments that it prepares first, new weights, none that fit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from made_up_network import made_up_profile
from plain_images import noise

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('network_settings')]

torch = pytest.importorskip('torch')
IMAGE = noise(64, 96)


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
