"""The launch files as real launch descriptions; only where `launch` is installed, which is not on PyPI."""
from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys

import pytest
from nav_msgs.msg import Odometry

# `launch` alone would find this repository's folder of that name.
pytest.importorskip('launch.actions', reason='launch comes with a ROS install')
pytest.importorskip('launch_ros', reason='launch_ros comes with a ROS install')
pytest.importorskip('ros2launch', reason='ros2 launch comes with a ROS install')

from launch import LaunchContext, LaunchDescription, LaunchService  # noqa: E402
from launch.actions import LogInfo  # noqa: E402
from launch.event_handlers import OnProcessIO  # noqa: E402

from deadline_perception.msg import TimeBudget  # noqa: E402
from deadline_perception.nodes.bringup import ARGUMENTS, NODES  # noqa: E402


def load(repository, name):
    spec = importlib.util.spec_from_file_location(name, repository / 'launch' / f'{name}.launch.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize('name', ['perception', 'replay'])
def test_declares_its_arguments_without_model_or_data(repository, name):
    description = load(repository, name).generate_launch_description()
    declared = {action.name for action in description.get_launch_arguments()}
    assert declared == {argument.name for argument in ARGUMENTS if argument.launch or name == 'replay'}


def test_starts_the_nodes_of_the_table(repository):
    module = load(repository, 'perception')
    context = LaunchContext()
    for action in module.generate_launch_description().get_launch_arguments():
        action.execute(context)
    nodes = module._nodes(context)
    assert [node.node_executable for node in nodes] == [entry.name for entry in NODES]


def test_killed_nodes_come_back_in_their_namespace_and_odometry_there_makes_budgets(repository, observer, wait_for,
                                                                                    tmp_path):
    """The real launch: each node is killed once, then the vehicle drives at 10 m/s."""
    arguments = ['namespace:=' + observer.node.get_namespace(), 'autostart:=false']
    code = 'import sys; from ros2cli.cli import main; sys.exit(main())'
    with (tmp_path / 'log').open('w') as log:
        launch = subprocess.Popen([sys.executable, '-c', code, 'launch', repository / 'launch' / 'perception.launch.py',
                                   *arguments], stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        said = (tmp_path / 'log').read_text
        names = [entry.name for entry in NODES]
        wait_for(lambda: set(names) <= set(observer.node.get_node_names()), 'all nodes')
        started = r'-\d+\]: process started with pid \[(\d+)\]'
        first = {name: int(re.search(rf'\[{name}{started}', said())[1]) for name in names}
        for pid in first.values():
            os.kill(pid, signal.SIGKILL)
        for name in names:
            wait_for(lambda: len(re.findall(rf'\[{name}-\d+\]: process started', said())) == 2, f'{name} to come back')
        budgets = observer.hear(TimeBudget, 'time_budget/budget')
        vehicle, message = observer.speaker(Odometry, 'odom'), Odometry()
        message.twist.twist.linear.x = 10.0
        wait_for(lambda: vehicle.publish(message) or (budgets and budgets[-1].budget_ms == 100.0), 'a budget of 100 ms')
        assert budgets[-1].budget_ms > budgets[-1].min_budget_ms
        launch.send_signal(signal.SIGINT)
        assert launch.wait(60) == 0
        assert 'Traceback' not in said()
    finally:
        if launch.poll() is None:
            os.killpg(launch.pid, signal.SIGKILL)


def test_a_node_that_dies_again_and_again_is_given_up_with_a_word(repository, monkeypatch, tmp_path):
    module = load(repository, 'perception')
    if not module._LIMIT:
        pytest.skip('this version of launch starts again for ever')
    monkeypatch.setattr(module, 'MAX_RESPAWNS', 2)
    monkeypatch.setitem(module._LIMIT, 'respawn_max_retries', 2)
    monkeypatch.setattr(module.bringup, 'RESPAWN_DELAY_S', 0.1)
    said = []
    broken = tmp_path / 'broken.yaml'
    broken.write_text('/**/time_budget:\n  ros__parameters:\n    rate_hz: 5000.0\n')
    entry = next(entry for entry in NODES if entry.name == 'time_budget')
    node = module._node(entry, module.bringup.read_values({'params_file': str(broken)}))
    service = LaunchService(noninteractive=True)
    service.include_launch_description(LaunchDescription([node]))
    service.context.register_event_handler(OnProcessIO(on_stderr=lambda event: said.append(event.text.decode())))
    logged = []
    monkeypatch.setattr(module, 'LogInfo', lambda msg: logged.append(msg) or LogInfo(msg=msg))
    assert service.run() == 0
    assert logged == ['time_budget died 3 times: it stays down, the others go on without it']
    assert ''.join(said).count('rate_hz is 5000.0 Hz, expected [0.1, 100] Hz') == 3
