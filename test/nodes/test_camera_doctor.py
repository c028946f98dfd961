"""Staged faults of cameras: real publishers in processes of their own, watched over the middleware."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from python_run import run_python

from deadline_perception.extras.camera.diagnosis import diagnose
from deadline_perception.nodes.camera_doctor import watch
from deadline_perception.nodes.middleware import VARIABLES

pytestmark = pytest.mark.slow

# What is staged, and a word of its remedy.
FAULTS = {
    'reliability': 'reliability: auto',
    'durability': 'durability volatile',
    'message_type': 'there are /',
    'two_publishers': 'ros2 topic info -v',
    'silent_camera': 'ros2 lifecycle get',
    'encoding': 'pixel format',
    'image_layout': 'step is the bytes of a row',
    'zero_stamps': 'time of capture',
    'constant_stamps': 'anew for each image',
    'stamps_go_back': 'loop a bag',
    'old_stamps': 'use_sim_time:=true',
    'future_stamps': 'chrony',
    'dropped_images': 'exposure',
    'jittering_stamps': 'V4L2',
    'shared_memory': 'FASTRTPS_DEFAULT_PROFILES_FILE',
    'domain': 'export ROS_DOMAIN_ID=',
    'no_publisher': 'image_topic: there are /',
}
OWN_PROCESS = ('shared_memory', 'domain', 'no_publisher')
OTHER_DOMAIN = 117  # none that a test session claims
WATCHED_S = 3.0


@pytest.fixture(scope='module')
def cameras(tmp_path_factory):
    """All of them at once, and a good one; a driver without this package's settings, and one of another domain."""
    script = Path(__file__).with_name('faulty_cameras.py')
    bare = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    elsewhere = {**os.environ, 'ROS_DOMAIN_ID': str(OTHER_DOMAIN)}
    usual = ['good', *(name for name in FAULTS if name not in OWN_PROCESS)]
    orders = [(os.environ, usual), (bare, ['shared_memory']), (elsewhere, ['domain'])]
    processes = [
        subprocess.Popen([sys.executable, script, *names], env=environment, stdout=subprocess.PIPE)
        for environment, names in orders
    ]
    assert [process.stdout.readline() for process in processes] == [b'ready\n'] * len(orders)
    yield processes
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture(scope='module')
def seen(cameras):
    names = ['good', *FAULTS]
    return dict(zip(names, watch(names, WATCHED_S)))


@pytest.mark.parametrize('name', FAULTS)
def test_a_staged_fault_is_found_and_its_remedy_named(seen, name):
    faults = diagnose(seen[name])
    assert [fault.name for fault in faults] == [name.replace('_', ' ')], seen[name]
    assert FAULTS[name] in faults[0].remedy and faults[0].found


def test_nothing_is_said_of_a_good_camera_and_the_command_says_it_of_one(seen, cameras):
    assert len(seen['good'].arrivals) > 10
    assert diagnose(seen['good']) == []
    shown = run_python(
        *'-m deadline_perception.tools.command_line doctor --json --camera /zero_stamps'.split()
    )
    answer = json.loads(shown.stdout)
    assert shown.returncode == 1 and answer['topic'] == '/zero_stamps' and answer['images'] > 10
    assert [fault['name'] for fault in answer['faults']] == ['zero stamps']
