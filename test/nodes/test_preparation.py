import shutil
from pathlib import Path

import pytest
from made_up_network import made_up_profile

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('network_settings')]

pytest.importorskip('torch')


def preparing(weights):
    """Whether a process prepares segments of these weights."""
    for process in Path('/proc').glob('[0-9]*'):
        try:
            words = (process / 'cmdline').read_bytes()
        except OSError:  # it has ended
            continue
        if str(weights).encode() in words and b'--prepare-only' in words:
            return True
    return False


def test_a_device_is_prepared_once(prepared, tmp_path, monkeypatch, start_node, observer, wait_for):
    weights, profile = tmp_path / 'small.safetensors', tmp_path / 'profile.json'
    shutil.copy(prepared.weights, weights)
    shutil.copy(prepared.weights.with_name('small.models'), weights.with_suffix('.quantised'))
    network = prepared.network()
    made_up_profile(network, image_size=(64, 96), scaled_from='Another board').save(profile)
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'empty'))

    def start():
        return start_node('detector', {'model': weights, 'profile': profile})

    node = start()
    wait_for(lambda: preparing(weights), f'a process that prepares: {node.output}')
    assert node.end() == 0, node.output
    wait_for(lambda: not preparing(weights), 'the end of the process that prepares')
    for prepares in (True, False):  # goes on, then has all at hand
        node = start()
        wait_for(lambda: 'inference runs with' in node.output, 'the active node')
        wait_for(lambda: observer.status('detector')[2].get('engine', '').startswith('openvino'))
        assert ('prepares the segments of' in node.output) is prepares
        assert node.end() == 0, node.output
        assert not preparing(weights)
