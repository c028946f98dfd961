"""What is concluded from what a machine has; every missing thing comes with a way to get it."""

import re
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from latency_profiles import profile_of

from deadline_perception.core.device import read_device_facts
from deadline_perception.engines import segment_store
from deadline_perception.extras.weights_writer import write_tensors
from deadline_perception.timing.profile import default_profile_path
from deadline_perception.timing.quantiles import Quantiles
from deadline_perception.tools.support import environment_checks as machine_findings
from deadline_perception.tools.support.environment_checks import State

FINE, NOTE, MISSING = State.FINE, State.NOTE, State.MISSING
Usage = namedtuple('Usage', 'total used free')
TORCH = {'torch': '2.9.0', 'torchvision': '0.24.0', 'cuda': '12.8', 'devices': []}


def probe(error: str = '', **facts: object) -> SimpleNamespace:
    """What an import in another process gave."""
    return SimpleNamespace(error=error, facts=facts)


ROS, OWN = probe(rmw='rmw_fastrtps_cpp'), ['TimeBudget', 'Schedule', '_schedule', '__file__']
GPU = probe(**{**TORCH, 'devices': ['Orin']})
LIBRARIES = {'json': 'json', 'no_such': 'Some-Pkg'}
NO_NMS = 'RuntimeError: operator torchvision::nms does not exist'
RAISED = ('SCHED_FIFO 10, nice -15, memory locked', ())
REFUSED = ('SCHED_OTHER, nice 0', ('SCHED_FIFO 10 is not permitted (limit rtprio)',))


@pytest.mark.parametrize(
    'check, given, state, words, remedy',
    [
        ('python', ((3, 9),), MISSING, '3.9', '3.1'),
        ('python', ((3, 10),), FINE, '3.10', ''),
        ('python', ((3, 14),), MISSING, '3.14', '3.1'),
        ('ros', (ROS, 'jazzy'), FINE, 'jazzy, .*, rmw_fastrtps_cpp', ''),
        ('interfaces', (probe(ours=OWN, boxes=['Detection2DArray']),), FINE, '^2 of', ''),
        ('interfaces', (probe('no msg'),), MISSING, 'no msg', 'make setup'),
        ('torch', (probe(NO_NMS),), MISSING, 'torchvision::nms', 'pip install'),
        ('cuda', (GPU, Path('/absent')), FINE, '^12.8: Orin$', ''),
        ('libraries', (LIBRARIES,), MISSING, '^not installed: Some-Pkg$', 'pip install Some-Pkg'),
        ('priority', (RAISED,), FINE, 'SCHED_FIFO 10', ''),
        ('priority', (REFUSED,), NOTE, 'limit rtprio', 'docs/device.md'),
    ],
)
def test_what_is_missing_comes_with_the_way_to_get_it(check, given, state, words, remedy):
    finding = getattr(machine_findings, f'check_{check}')(*given)
    assert finding.state is state and re.search(words, finding.found)
    assert remedy in finding.remedy and bool(remedy) == bool(finding.remedy)


@pytest.mark.parametrize('machine, remedy', [('x86_64', 'make setup'), ('aarch64', 'colcon')])
def test_missing_ros_is_got_by_wheels_or_by_colcon(monkeypatch, machine, remedy):
    monkeypatch.setattr(machine_findings.platform, 'machine', lambda: machine)
    finding = machine_findings.check_ros(probe("ModuleNotFoundError: No module named 'rclpy'"), '')
    assert finding.state is State.MISSING
    assert 'rclpy' in finding.found and remedy in finding.remedy


def test_driver_that_torch_does_not_see_is_noted(tmp_path):
    assert machine_findings.check_cuda(probe(**TORCH), tmp_path).state is State.FINE
    driver = tmp_path / 'proc/driver/nvidia/version'
    driver.parent.mkdir(parents=True)
    driver.write_text('NVRM version: 570.00\n')
    finding = machine_findings.check_cuda(probe(**TORCH), tmp_path)
    assert finding.state is State.NOTE
    assert '12.8' in finding.found and str(driver) in finding.remedy


def test_weights_are_required_and_their_licence_is_told(tmp_path):
    assert machine_findings.check_weights(tmp_path).state is State.MISSING
    (tmp_path / 'models').mkdir()
    weights = tmp_path / 'models/street.safetensors'
    weights.write_bytes(b'x' * 1_500_000)
    finding = machine_findings.check_weights(tmp_path)
    assert (finding.state, finding.found) == (State.FINE, 'street.safetensors (1.5 MB)')
    write_tensors(weights, {'a': torch.zeros(1)}, {'licence': 'research, not for sale'})
    found = machine_findings.check_weights(tmp_path).found
    assert found.endswith('; street.safetensors: research, not for sale')


def test_prepared_segments_are_counted(prepared, tmp_path, monkeypatch):
    finding = machine_findings.check_engine()
    assert finding.state is State.FINE
    assert prepared.folder.name in finding.found and 'segments 8 bit' in finding.found
    next(prepared.folder.glob('*.blob')).unlink()
    finding = machine_findings.check_engine()
    assert finding.state is State.NOTE
    assert 'damaged' in finding.found and finding.remedy.endswith('profile')
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'empty'))
    assert 'nothing prepared' in machine_findings.check_engine().found
    monkeypatch.setattr(segment_store, 'LIBRARIES', {'OpenVINO': 'no-such-package'})
    finding = machine_findings.check_engine()
    expected = (State.NOTE, 'OpenVINO is not installed: pip install no-such-package')
    assert (finding.state, finding.remedy) == expected


def test_profile_of_this_device_is_found_among_other_json(tmp_path, monkeypatch):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    models = tmp_path / 'models'
    models.mkdir()
    (models / 'quality.json').write_text('{"metric": "AP"}')
    assert machine_findings.check_profile(tmp_path).state is State.NOTE
    times = {'pre': Quantiles.from_samples([1.0, 2.0, 3.0])}
    profile = profile_of(times, facts=read_device_facts('cpu'))
    profile.save(models / 'here.json')
    finding = machine_findings.check_profile(tmp_path)
    assert finding.state is FINE and finding.found.startswith('here.json')
    (models / 'here.json').unlink()
    own = default_profile_path('compact', profile.facts)
    own.parent.mkdir(parents=True)
    profile.save(own)
    assert machine_findings.check_profile(tmp_path).found.startswith(own.name)


@pytest.mark.parametrize('free, state', [(64_000_000, NOTE), (5_000_000_000, FINE)])
def test_little_shared_memory_is_noted(monkeypatch, tmp_path, free, state):
    usage = Usage(0, 0, free)
    monkeypatch.setattr(machine_findings.shutil, 'disk_usage', lambda folder: usage)
    finding = machine_findings.check_shared_memory(tmp_path)
    assert finding.state is state and bool(finding.remedy) == (state is NOTE)
    absent = machine_findings.check_shared_memory(tmp_path / 'absent')
    assert absent.state is NOTE and '--ipc=host' in absent.remedy
