"""The launch files as real launch descriptions; only where `launch` is installed, which is not on PyPI."""

import importlib.util
import os
import re
import signal
import subprocess
import sys

import pytest
from made_up_network import write_network

from deadline_perception.extras.data.bag import write_bag
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.extras.report.recorded_bag import read_recording

# `launch` alone would find this repository's folder of that name.
pytest.importorskip('launch.actions', reason='launch comes with a ROS install')
pytest.importorskip('launch_ros', reason='launch_ros comes with a ROS install')
pytest.importorskip('ros2launch', reason='ros2 launch comes with a ROS install')

from launch.actions import LogInfo  # noqa: E402
from launch.event_handlers import OnProcessIO  # noqa: E402
from launch_ros.actions import PushRosNamespace  # noqa: E402

from deadline_perception.nodes.launch_arguments import ARGUMENTS, read_values  # noqa: E402
from deadline_perception.nodes.node_table import NODES  # noqa: E402
from launch import LaunchContext, LaunchDescription, LaunchService  # noqa: E402


def load(repository, name):
    spec = importlib.util.spec_from_file_location(name, repository / 'launch' / f'{name}.launch.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize('name', ['perception', 'replay'])
def test_declares_its_arguments_without_model_or_data(repository, name):
    description = load(repository, name).generate_launch_description()
    declared = {action.name for action in description.get_launch_arguments()}
    assert declared == {'use_rviz'} | {
        argument.name for argument in ARGUMENTS if argument.launch or name == 'replay'
    }


def test_starts_the_nodes_of_the_table_or_of_a_task_file(repository):
    module = load(repository, 'perception')
    for given, names in (
        ({}, [entry.name for entry in NODES]),
        ({'tasks': __file__}, ['vehicle_speed', 'contention_monitor', 'qos_scheduler']),
    ):
        context = LaunchContext()
        context.launch_configurations.update(given)
        for action in module.generate_launch_description().get_launch_arguments():
            action.execute(context)
        assert [node.node_executable for node in module._nodes(context)] == names


def test_a_namespace_of_the_including_file_counts_for_all(repository, tmp_path):
    file = tmp_path / 'own.yaml'
    file.write_text(
        '/fleet/front/detector: {ros__parameters: {threads: 3}}\n'
        '/front/detector: {ros__parameters: {threads: 1}}'
    )
    module, context = load(repository, 'perception'), LaunchContext()
    PushRosNamespace('fleet').execute(context)
    context.launch_configurations.update(namespace='front', params_file=str(file), use_rviz='true')
    replay = load(repository, 'replay')
    for file in (module, replay):
        for action in file.generate_launch_description().get_launch_arguments():
            action.execute(context)
    # Of player, recorder and what waits for the nodes.
    assert replay._values(context)['namespace'] == '/fleet/front'
    told, *nodes = module._nodes(context)
    said = ''.join(part.perform(context) for part in told.msg)
    assert '/front/detector is no node here' in said
    assert 'expected a name such as /fleet/front/detector' in said
    detector = next(node for node in nodes if node.node_executable == 'detector')
    words = [
        ''.join(part.perform(context) for part in parts)
        for pair in detector.additional_env
        for parts in pair
    ]
    assert words[words.index('OMP_NUM_THREADS') + 1] == '3'
    assert nodes[-1].node_executable == 'rviz2'
    for node in nodes:
        node._perform_substitutions(context)
        assert node.expanded_node_namespace == '/fleet/front'


# --- replay.launch.py as a process ---

RUN = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
service = LaunchService()
service.include_launch_description(LaunchDescription([IncludeLaunchDescription(
    PythonLaunchDescriptionSource(sys.argv[1]), launch_arguments=[word.split(':=') for word in sys.argv[2:]])]))
sys.exit(service.run())
"""
FRAMES = 12


@pytest.fixture
def start_replay(tmp_path, repository):
    """Starts it in a process group of its own, with a program `ros2` that fails; what it says is in `log`."""
    write_network(tmp_path)
    drive = render_drive(seconds=FRAMES / 5, rate_hz=5, width=160, height=96)
    write_bag(drive, tmp_path / 'drive.mcap')
    write_bag(drive, tmp_path / 'compressed.mcap', compressed=True)
    (tmp_path / 'bin').mkdir()
    (tmp_path / 'bin' / 'ros2').write_text('#!/bin/sh\nexit 9\n')
    (tmp_path / 'bin' / 'ros2').chmod(0o755)
    started = []

    def start(bag, *words):
        files = {'bag': bag, 'model': 'good.safetensors', 'profile': 'good.json'}
        given = [f'{name}:={tmp_path / file}' for name, file in files.items()]
        launched = repository / 'launch' / 'replay.launch.py'
        environment = {'AMENT_PREFIX_PATH': sys.prefix, **os.environ, 'PYTHONUNBUFFERED': '1'}
        environment |= {'ROS_LOG_DIR': str(tmp_path)}
        environment['PATH'] = f'{tmp_path / "bin"}{os.pathsep}{environment["PATH"]}'
        with (tmp_path / 'log').open('w') as log:
            process = subprocess.Popen(
                [sys.executable, '-c', RUN, launched, *given, *words],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=tmp_path,
                start_new_session=True,
                # A shell's background jobs ignore SIGINT, and so would all that they start.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                env=environment,
            )
        started.append(process)
        return process, (tmp_path / 'log').read_text

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


COMPLAINTS = re.compile('Traceback|Caught exception|process has died|terminate called')


@pytest.mark.parametrize(('bag', 'sim_time'), [('drive', 'true'), ('compressed', 'false')])
def test_a_recorded_replay_ends_with_0(start_replay, tmp_path, bag, sim_time):
    process, log = start_replay(
        f'{bag}.mcap', f'record:={tmp_path / "run.mcap"}', f'use_sim_time:={sim_time}'
    )
    assert process.wait(200) == 0 and not COMPLAINTS.search(log()), log()
    assert len(read_recording(tmp_path / 'run.mcap').sent_stamps_ns) == FRAMES


def test_what_cannot_be_played_ends_with_1_before_it_loads(start_replay):
    process, log = start_replay('none.mcap')
    assert process.wait(60) == 1
    assert 'none.mcap does not exist' in log() and 'process started' not in log()


def test_a_bag_that_nobody_listens_to_ends_with_1(start_replay, tmp_path):
    (tmp_path / 'own.yaml').write_text(
        'bag_player:\n  ros__parameters:\n    wait_timeout_s: 0.5\n    wait_for_subscribers: 9\n'
    )
    process, log = start_replay('drive.mcap', f'params_file:={tmp_path / "own.yaml"}')
    assert process.wait(200) == 1
    assert log().count('has fewer than 9 subscribers') == 3
    assert 'bag_player ended with exit status 75' in log()


@pytest.mark.parametrize(
    'moment', ['process started', 'vehicle_speed]: in order again'], ids=['loading', 'playing']
)
def test_an_interrupt_of_the_whole_group_ends_it_cleanly(start_replay, wait_for, tmp_path, moment):
    process, log = start_replay('drive.mcap', f'record:={tmp_path / "run.mcap"}', 'rate:=0.3')
    wait_for(lambda: moment in log(), moment)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == 0, log()
    assert 'ROS adapter' not in log() and 'Caught exception' not in log(), log()


def test_a_node_that_dies_too_often_is_given_up(repository, monkeypatch, tmp_path):
    module = load(repository, 'perception')
    if not module._LIMIT:
        pytest.skip('this version of launch starts again for ever')
    monkeypatch.setattr(module, 'MAX_RESPAWNS', 2)
    monkeypatch.setitem(module._LIMIT, 'respawn_max_retries', 2)
    monkeypatch.setattr(module, 'RESPAWN_DELAY_S', 0.1)
    said = []
    broken = tmp_path / 'broken.yaml'
    broken.write_text('/**/time_budget:\n  ros__parameters:\n    speed_timeout_s: 5000.0\n')
    entry = next(entry for entry in NODES if entry.name == 'time_budget')
    node = module._node(entry, read_values({'params_file': str(broken)}))
    service = LaunchService(noninteractive=True)
    service.include_launch_description(LaunchDescription([node]))
    service.context.register_event_handler(
        OnProcessIO(on_stderr=lambda event: said.append(event.text.decode()))
    )
    logged = []
    monkeypatch.setattr(module, 'LogInfo', lambda msg: logged.append(msg) or LogInfo(msg=msg))
    assert service.run() == 0
    assert logged == ['time_budget died 3 times: it stays down, the others go on without it']
    assert ''.join(said).count('speed_timeout_s is 5000.0 s, expected [0.01, 60] s') == 3
