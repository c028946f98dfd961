"""A valid profile is used as it is; without one a new one is measured in a process of its own."""

import subprocess
from dataclasses import replace
from types import SimpleNamespace

import pytest
from latency_profiles import profile_of

from deadline_perception.core.device import process_environment, read_device_facts
from deadline_perception.extras.weights_writer import build_detector, save_detector
from deadline_perception.timing.profile import default_profile_path
from deadline_perception.timing.quantiles import Quantiles
from deadline_perception.tools.support import ensure_profile as profile_at_hand
from deadline_perception.tools.support.ensure_profile import MeasurementFailed, ensure_profile

NAMES = ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign')


@pytest.fixture
def setting(tmp_path, monkeypatch):
    """Weights, a cache folder of the test's own, and a profile that fits both."""
    import torch

    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    torch.set_num_threads(1)
    network = build_detector('compact', NAMES)
    weights = tmp_path / 'weights.safetensors'
    save_detector(network, weights)
    facts = read_device_facts('cpu', environment=process_environment(1))
    times = {'pre': Quantiles.from_samples([1.0, 2.0])}
    profile = profile_of(times, facts=facts, network_hash=network.network_hash)
    return SimpleNamespace(
        weights=weights,
        profile=profile,
        shipped=tmp_path / 'shipped',
        own=default_profile_path('compact', facts),
        in_shipped=default_profile_path('compact', facts, tmp_path / 'shipped'),
    )


def test_a_profile_that_fits_is_not_measured_again(setting, monkeypatch):
    monkeypatch.setattr(subprocess, 'run', None)
    monkeypatch.setattr(profile_at_hand, 'is_installed', lambda: False)
    for file in (setting.in_shipped, setting.own):
        file.parent.mkdir(parents=True, exist_ok=True)
        setting.profile.save(file)
        found = ensure_profile(setting.weights, 'cpu', 1, setting.shipped)
        assert (found.file, found.measured) == (file, False)


@pytest.mark.parametrize('damage', ['none', 'foreign', 'truncated'])
def test_anything_else_is_measured_with_the_settings_of_the_node(setting, monkeypatch, damage):
    setting.own.parent.mkdir(parents=True, exist_ok=True)
    if damage == 'foreign':
        replace(setting.profile, network_hash='another').save(setting.own)
    elif damage == 'truncated':
        setting.own.write_text('{"format": 1')
    calls, status = [], [0]

    def run(command, *, env, **rest):
        calls.append((command, env))
        return SimpleNamespace(returncode=status[0])

    monkeypatch.setattr(profile_at_hand.subprocess, 'run', run)
    found = ensure_profile(setting.weights, 'cpu', 1, setting.shipped)
    ((command, environment),) = calls
    assert (found.file, found.measured) == (setting.own, True)
    assert '--quick' in command and str(setting.weights) in command and str(setting.own) in command
    assert process_environment(1).items() <= environment.items()
    status[0] = 1
    with pytest.raises(MeasurementFailed, match='could not be measured .*deadline-perception'):
        ensure_profile(setting.weights, 'cpu', 1, setting.shipped)
