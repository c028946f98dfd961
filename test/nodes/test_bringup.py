import importlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from waiting import WAIT_S

from deadline_perception.extras.data.bag import write_bag
from deadline_perception.extras.data.bag_file import BagError
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.nodes import bag_replay, bringup
from deadline_perception.nodes.launch_arguments import ARGUMENTS, read_values
from deadline_perception.nodes.node_table import NODES, OPTIONAL_NODES, PLAYER, RECORDER
from deadline_perception.nodes.parameter_document import document_of
from deadline_perception.nodes.parameters import validate

ALL = (*NODES, *OPTIONAL_NODES, PLAYER, RECORDER)
DETECTOR = next(entry for entry in NODES if entry.name == 'detector')


def module_of(entry):
    return importlib.import_module(f'deadline_perception.nodes.{entry.name}')


def values(**given):
    return {**read_values({}), **given}


@pytest.mark.parametrize('entry', ALL, ids=lambda entry: entry.name)
def test_every_executable_exists_and_every_parameter_that_the_table_sets(entry, repository):
    known = {row.name for row in module_of(entry).PARAMETERS}
    assert callable(module_of(entry).main) and {name for name, _ in entry.parameters} <= known
    arguments = {argument.name for argument in ARGUMENTS}
    assert {argument for _, argument in (*entry.parameters, *entry.remaps)} <= arguments
    assert entry.wanted_by in arguments if entry in OPTIONAL_NODES else not entry.wanted_by
    assert not entry.unless or entry.unless in arguments
    # And its file is what the declaration writes.
    text = (repository / 'config' / f'{entry.name}.yaml').read_text()
    assert text == document_of(entry.name), 'run `make parameters`'
    ((node, section),) = yaml.safe_load(text).items()
    assert node == f'/**/{entry.name}'
    defaults = validate(module_of(entry).PARAMETERS, {})  # which are legal
    assert section['ros__parameters'] == defaults
    lines = text.splitlines()
    above = [before for before, line in zip(lines, lines[1:]) if re.match(r' {4}\w', line)]
    assert all(before.startswith('    # ') for before in above)


def test_a_task_file_starts_the_nodes_of_several_networks(tmp_path):
    file = tmp_path / 'tasks.yaml'
    file.write_text('tasks: {}')
    orders = bringup.start_orders(values(tasks=str(file)))
    names = ['vehicle_speed', 'contention_monitor', 'qos_scheduler']
    assert [order.name for order in orders] == names
    scheduler = orders[-1]
    assert f'tasks:="{file}"' in scheduler.command and scheduler.respawn
    assert scheduler.environment['OMP_NUM_THREADS'] == '2'
    for given, waits in ((values(tasks=str(file)), True), (values(), False)):
        assert ('qos_scheduler' in bringup.readiness_order(given).command) is waits
        started = [order.name for order in bringup.start_orders(given)]
        assert ('qos_scheduler' in started) is waits and ('detector' in started) is not waits


def test_a_node_gets_its_files_before_single_parameters(tmp_path):
    """ROS forgets single parameters of a node when a file that names the node follows."""
    file = tmp_path / 'mine.yaml'
    file.write_text('detector:\n  ros__parameters:\n    threads: 1\n')
    command = bringup.process_order(
        DETECTOR, values(params_file=str(file), image_transport='compressed')
    ).command
    files = [index for index, word in enumerate(command) if word == '--params-file']
    names = [Path(command[index + 1]).name for index in files]
    assert names == ['detector.yaml', 'mine.yaml']
    assert max(files) < command.index('-p') < command.index('image_transport:="compressed"')


def test_the_environment_follows_this_nodes_parameters(tmp_path):
    file = tmp_path / 'own.yaml'
    for namespace, node, threads in (
        ('', 'detector', '3'),
        ('/front', 'detector', '2'),
        ('front/', '/front/detector', '3'),
    ):
        file.write_text(f'{node}: {{ros__parameters: {{threads: 3}}}}')
        given = values(params_file=str(file), namespace=namespace)
        environment = bringup.node_environment(DETECTOR, given)
        assert environment['OMP_NUM_THREADS'] == threads
        assert environment['OMP_WAIT_POLICY'] == 'PASSIVE'
    assert bringup.node_environment(NODES[0], values()) == {}


def test_parameters_of_no_node_are_told_with_a_name_that_would_fit(tmp_path):
    file, values_of = tmp_path / 'own.yaml', '{ros__parameters: {threads: 1}}'
    given = values(params_file=str(file), namespace='/front')
    assert bringup.unused_sections(values()) == []
    wrong = {'/detektor': '/front/detector', '/rear/time_budget': '/front/time_budget'}
    sections = ''.join(f'{name}: {values_of}\n' for name in (*wrong, '/**/bag_player'))
    file.write_text(f'{sections}front: {{detector: {values_of}}}')
    told = bringup.unused_sections(given)
    assert [line.split(': ', 1)[1] for line in told] == [
        f'{name} is no node here, and its parameters have no effect; expected a name such as {right}'
        for name, right in wrong.items()
    ]


@pytest.fixture(scope='module')
def bags(tmp_path_factory):
    """Folder with bags of one camera, raw.mcap and compressed.mcap, and unusable parameter files."""
    folder = tmp_path_factory.mktemp('bags')
    (folder / 'broken.yaml').write_text('detector: [')
    (folder / 'no_threads.yaml').write_text('detector: {ros__parameters: {threads: 0}}')
    drive = render_drive(seconds=0.2, rate_hz=10, width=96, height=64)
    for name in ('raw', 'compressed'):
        write_bag(drive, folder / f'{name}.mcap', compressed=name == 'compressed')
    return folder


@pytest.mark.parametrize('name', ['raw', 'compressed'])
def test_a_replay_takes_the_transport_of_the_bag(bags, name):
    for given in ('', name):
        orders = bringup.start_orders(values(bag=str(bags / f'{name}.mcap'), image_transport=given))
        detector = next(order for order in orders if order.name == 'detector')
        assert f'image_transport:="{name}"' in detector.command
    with pytest.raises(BagError, match='bag is empty, expected the name of a bag folder'):
        bag_replay.prepare_replay(values())


@pytest.mark.parametrize(
    ('words', 'complaint'),
    [
        ('--bag raw.mcap --image-transport compressed', 'of the bag holds sensor_msgs/msg/Image'),
        ('--bag compressed.mcap --image-transport raw', "expected 'compressed', or nothing"),
        ('--bag raw.mcap --record none/run.mcap', 'cannot be recorded to: there is no folder'),
        ('--bag raw.mcap --record run', 'expected a name that ends with .mcap'),
        ('--record raw.mcap', 'raw.mcap exists already'),
        ('--bag missing', 'missing does not exist'),
        ('--params-file missing', 'missing does not exist'),
        ('--params-file broken.yaml', 'broken.yaml cannot be used'),
        ('--params-file no_threads.yaml', 'no_threads.yaml cannot be used'),
        ('--tasks missing.yaml', 'missing.yaml does not exist'),
    ],
)
def test_what_cannot_be_started_is_refused_in_one_line(bags, monkeypatch, capsys, words, complaint):
    monkeypatch.chdir(bags)
    before = sorted(bags.iterdir())
    assert bringup.main(words.split()) == 1
    said = capsys.readouterr().err
    assert complaint in said and len(said.splitlines()) == 1
    assert sorted(bags.iterdir()) == before


# --- as processes ---


@pytest.mark.slow
def test_all_nodes_start_killed_ones_come_back_and_none_outlives_the_start_up(
    observer, wait_for, namespace, tmp_path, load_benchmark
):
    log = (tmp_path / 'log').open('w+')
    words = f'--namespace {namespace} --no-autostart --image-topic /cam'.split()
    program = [sys.executable, '-m', 'deadline_perception.nodes', 'bringup']
    process = subprocess.Popen([*program, *words], stderr=log)
    names = {entry.name for entry in NODES}

    def running():
        """Process number of each node."""
        lines = load_benchmark('node_process').children(process.pid)
        return {name: pid for name in names for pid, line in lines.items() if f' {name} ' in line}

    try:
        wait_for(lambda: names <= set(observer.node.get_node_names()), 'all nodes')
        for topic in ('vehicle_speed/speed', 'time_budget/budget'):
            wait_for(lambda: observer.node.count_publishers(topic), topic)
        assert observer.state('detector') == observer.state('contention_monitor') == 'unconfigured'
        killed = running()
        for pid in killed.values():
            os.kill(pid, signal.SIGKILL)
        for name in names:
            wait_for(lambda: running().get(name, killed[name]) != killed[name])
        assert observer.state('detector') == 'unconfigured'
        said = (tmp_path / 'log').read_text()
        assert all(f'{name} died: killed by SIGKILL' in said for name in names)
        pids = running().values()
        assert len(pids) == len(names)
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 0
        assert not [pid for pid in pids if Path(f'/proc/{pid}').exists()]
    finally:
        process.kill()
        log.close()


@pytest.mark.parametrize('name', ['/data/a: b #3', '20240131', 'yes', '*cam', 'a"b\\c', "it's"])
def test_a_text_reaches_the_node_as_it_is(make_node, name):
    node = make_node('bag_player', words=bringup.ros_arguments(PLAYER, values(bag=name)))
    assert node.declare_parameter('bag', '').value == name
