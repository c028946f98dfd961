"""Which nodes there are and how they start: the one table behind both the launch files and the start-up without ROS.

`python -m deadline_perception.nodes.bringup --help` starts them all, each in a process of its own or all in one, and
plays and records a bag where one is named.
"""
from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from deadline_perception.child_command import module_command
from deadline_perception.errors import DeadlinePerceptionError
from deadline_perception.latency.device import DEFAULT_THREADS, process_environment
from deadline_perception.runtime.loading import share_folder
from deadline_perception.runtime.supervision import ProcessOrder, Supervisor

PACKAGE = 'deadline_perception'
NODES_PACKAGE = f'{PACKAGE}.nodes'  # `python -m` runs it with a node's name
LINGER_S = 1.5  # the last frame of a bag is still on its way when the player ends


@dataclass(frozen=True)
class NodeEntry:
    """One node.

    Attributes:
        name: of the node, its executable, its module in `nodes/` and its file in `config/`.
        remaps: topic of the node -> name of the argument that says what it is called outside.
        parameters: parameter of the node -> name of the argument that sets it, where that is not empty.
        lifecycle: has the lifecycle services.
        pinned_environment: must start with the environment of `latency.device.process_environment`.
        wanted_by: of an optional node, name of the argument that brings it up when it is set.
        unless: name of the argument that leaves it out when it is set.
    """

    name: str
    remaps: tuple[tuple[str, str], ...] = ()
    parameters: tuple[tuple[str, str], ...] = ()
    lifecycle: bool = False
    pinned_environment: bool = False
    wanted_by: str = ''
    unless: str = ''

    @property
    def module(self) -> str:
        """Where its function `main` lies."""
        return f'{NODES_PACKAGE}.{self.name}'


_VEHICLE = (('odom', 'odometry_topic'), ('vehicle/speed', 'speed_topic'))
NODES = (  # started again when they end by themselves
    NodeEntry('vehicle_speed', remaps=_VEHICLE),
    NodeEntry('time_budget', unless='tasks'),
    NodeEntry('contention_monitor', lifecycle=True,
              parameters=(('device', 'device'), ('autostart', 'autostart'), ('levels', 'levels'))),
    NodeEntry('detector', remaps=(('image', 'image_topic'),), lifecycle=True, pinned_environment=True, unless='tasks',
              parameters=(('model', 'model'), ('profile', 'profile'), ('device', 'device'),
                          ('autostart', 'autostart'), ('image_transport', 'image_transport'))),
    NodeEntry('path_visualizer', remaps=(('image', 'image_topic'),), unless='tasks',
              parameters=(('image_transport', 'image_transport'), ('camera_info_topic', 'camera_info_topic'))),
)
OPTIONAL_NODES = (  # the same of those that an argument asks for
    NodeEntry('crop_classifier', remaps=(('image', 'image_topic'),), lifecycle=True, pinned_environment=True,
              parameters=(('device', 'device'), ('autostart', 'autostart'), ('image_transport', 'image_transport')),
              wanted_by='classify_crops', unless='tasks'),
    NodeEntry('qos_scheduler', lifecycle=True, pinned_environment=True,
              parameters=(('tasks', 'tasks'), ('autostart', 'autostart'), ('image_transport', 'image_transport')),
              wanted_by='tasks'),
)
# What a bag says of vehicle and camera, by absolute names, is played to where the nodes listen.
PLAYER = NodeEntry('bag_player', remaps=tuple((f'/{topic}', argument) for topic, argument in _VEHICLE),
                   parameters=(('bag', 'bag'), ('rate', 'rate'), ('camera', 'camera'),
                                ('image_topic', 'image_topic'), ('camera_info_topic', 'camera_info_topic')))
RECORDER = NodeEntry('bag_recorder', remaps=(('camera/camera_info', 'camera_info_topic'),),
                     parameters=(('output', 'record'),))


@dataclass(frozen=True)
class Argument:
    """One argument of the launch files and of the start-up without ROS.

    Attributes:
        name: in launch; on the command line with dashes.
        default: text or truth value.
        description: one line.
        launch: also an argument of `perception.launch.py`.
    """

    name: str
    default: str | bool
    description: str
    launch: bool = True


ARGUMENTS = (
    Argument('namespace', '', 'namespace of all nodes, such as /front'),
    Argument('use_sim_time', False, 'take the time from /clock'),
    Argument('params_file', '', 'parameter file that overrides those of config/'),
    Argument('image_topic', 'camera/image_raw', 'camera images, without /compressed; as all topics, a name that does '
             'not begin with / lies in the namespace'),
    Argument('camera_info_topic', '', 'calibration of the camera; empty: camera_info beside the images'),
    Argument('odometry_topic', 'odom', 'speed of the vehicle as nav_msgs/Odometry'),
    Argument('speed_topic', 'vehicle/speed', 'speed of the vehicle as geometry_msgs/TwistStamped'),
    Argument('image_transport', '', 'raw or compressed; empty: as in the parameter files'),
    Argument('model', '', 'weights (safetensors), the name of a shipped model, or a set of own models (set.yaml, see '
             'deadline-perception adopt); empty: as in config/detector.yaml'),
    Argument('profile', '', "latency profile; empty: this device's own"),
    Argument('levels', '', 'contention levels, as `deadline-perception grade` writes them; empty: none'),
    Argument('device', '', 'processor of the network, cpu or cuda; empty: as in config/detector.yaml'),
    Argument('classify_crops', False, 'bring up crop_classifier as well; off, because it takes a second copy of every '
             'image and time of a core, which the detector may need'),
    Argument('autostart', True, 'lifecycle nodes configure and activate themselves'),
    Argument('tasks', '', 'task file: several networks, scheduled on one machine, in the place of the detector'),
    Argument('use_rviz', False, 'start RViz as well, where it is installed'),
    Argument('log_level', 'info', 'debug, info, warn, error or fatal'),
    Argument('bag', '', 'bag to play; everything ends when it has been played', launch=False),
    Argument('rate', '1.0', 'speed of the replay', launch=False),
    Argument('camera', '', 'image topic of the bag that is played as image_topic; empty: its only camera, or the only '
             'one in colour', launch=False),
    Argument('record', '', 'mcap file to record what the report needs to: all topics of the nodes but images, '
             'camera_info and ground truth', launch=False),
)


class BringupError(DeadlinePerceptionError):
    """The nodes cannot be started as asked."""


def wanted_nodes(values: dict[str, object]) -> tuple[NodeEntry, ...]:
    """The nodes that the arguments bring up.

    Raises:
        BringupError: the task file is not there.
    """
    if values['tasks'] and not Path(str(values['tasks'])).expanduser().is_file():
        raise BringupError(f'task file {values["tasks"]} does not exist')
    return tuple(entry for entry in NODES + OPTIONAL_NODES
                 if not (entry.wanted_by and not values[entry.wanted_by] or entry.unless and values[entry.unless]))


def as_text(value: object) -> str:
    """A parameter value as the ROS command line takes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def parameter_files(entry: NodeEntry, values: dict[str, object]) -> list[Path]:
    """The node's parameter files, later ones override earlier ones.

    Raises:
        BringupError: the user's file is not there.
    """
    files = [share_folder() / 'config' / f'{entry.name}.yaml']
    if values['params_file']:
        files.append(Path(str(values['params_file'])).expanduser())
        if not files[-1].is_file():
            raise BringupError(f'params_file {files[-1]} does not exist')
    return files


def node_parameters(entry: NodeEntry, values: dict[str, object]) -> dict[str, object]:
    """The parameters that the arguments set."""
    given = {parameter: _value(values, argument) for parameter, argument in entry.parameters}
    given = {parameter: value for parameter, value in given.items() if value != ''}
    return {'use_sim_time': values['use_sim_time'], **given}


def node_remaps(entry: NodeEntry, values: dict[str, object]) -> list[tuple[str, str]]:
    """The topics that the arguments rename."""
    return [(topic, str(_value(values, argument))) for topic, argument in entry.remaps
            if _value(values, argument) != '']


def _value(values: dict[str, object], argument: str) -> object:
    if argument == 'camera_info_topic' and not values[argument]:  # beside the images
        return ''.join(str(values['image_topic']).rpartition('/')[:2]) + 'camera_info'
    return values[argument]


def file_arguments(entries: Sequence[NodeEntry], values: dict[str, object]) -> list[str]:
    """The parameter files of nodes that share a process, each once, in the order in which they override.

    They go before `ros_arguments`: ROS forgets single parameters of a node when a file that names the node follows.
    """
    files = dict.fromkeys(file for entry in entries for file in parameter_files(entry, values)[:1])
    files |= dict.fromkeys(file for entry in entries for file in parameter_files(entry, values)[1:])
    return [word for file in files for word in ('--params-file', str(file))]


def ros_arguments(entry: NodeEntry, values: dict[str, object], *, prefix: str = '') -> list[str]:
    """The parameters and topic names that the arguments set, as a node's process gets them after `--ros-args`.

    Args:
        entry: the node.
        values: value of each argument by name.
        prefix: `NAME:` restricts all to that node, for several nodes in one process.
    """
    words = []
    for name, value in node_parameters(entry, values).items():
        words += ['-p', f'{prefix}{name}:={as_text(value)}']
    for topic, outside in node_remaps(entry, values):
        words += ['-r', f'{prefix}{topic}:={outside}']
    return words


def common_ros_arguments(values: dict[str, object]) -> list[str]:
    """Namespace and log level, the same for all nodes."""
    words = ['--log-level', str(values['log_level'])]
    namespace = str(values['namespace']).strip('/')
    return words + (['-r', f'__ns:=/{namespace}'] if namespace else [])


def node_environment(entry: NodeEntry, values: dict[str, object]) -> dict[str, str]:
    """Variables that must be set before the node's process starts.

    Raises:
        BringupError: a parameter file cannot be read, or its number of threads is none.
    """
    if not entry.pinned_environment:
        return {}
    threads = DEFAULT_THREADS
    for file in parameter_files(entry, values):
        try:
            content = yaml.safe_load(file.read_text(encoding='utf-8')) or {}
            for node, section in content.items():
                if node.rsplit('/', 1)[-1] in (entry.name, '**'):
                    threads = section.get('ros__parameters', {}).get('threads', threads)
            environment = process_environment(threads)
        except (OSError, yaml.YAMLError, AttributeError, TypeError, ValueError) as error:
            raise BringupError(f'parameter file {file} cannot be used: {error}') from error
    return environment


def process_order(entry: NodeEntry, values: dict[str, object], *, ends_run: bool = False) -> ProcessOrder:
    """How a node is started as a process; nodes are started again when they end by themselves."""
    command = module_command(NODES_PACKAGE, entry.name, '--ros-args', *common_ros_arguments(values),
                             *file_arguments([entry], values), *ros_arguments(entry, values))
    return ProcessOrder(entry.name, tuple(command), node_environment(entry, values),
                        respawn=entry in NODES + OPTIONAL_NODES, ends_run=ends_run)


def all_in_one_order(values: dict[str, object]) -> ProcessOrder:
    """How all nodes are started as one process."""
    entries = wanted_nodes(values)
    words, environment = [*common_ros_arguments(values), *file_arguments(entries, values)], {}
    for entry in entries:
        words += ros_arguments(entry, values, prefix=f'{entry.name}:')
        environment.update(node_environment(entry, values))
    command = module_command(NODES_PACKAGE, 'one_process', *(entry.name for entry in entries), '--ros-args', *words)
    return ProcessOrder('nodes', tuple(command), environment, respawn=True)


def start_orders(values: dict[str, object], *, one_process: bool) -> list[ProcessOrder]:
    """All that is started at once; the player follows when everybody listens, so that no frame is lost.

    Raises:
        BringupError: a named file cannot be used.
        BagError: nor can the bag.
        FileNotFoundError: it is not there.
    """
    if values['bag']:
        check_replay(values)
    if one_process and values['tasks']:
        raise BringupError('--one-process runs the nodes of one detector, expected no --tasks beside it')
    orders = ([all_in_one_order(values)] if one_process else
              [process_order(entry, values) for entry in wanted_nodes(values)])
    if values['record']:
        orders.append(process_order(RECORDER, values))
    if values['bag']:
        orders.append(readiness_order(values))
    return orders


def readiness_order(values: dict[str, object]) -> ProcessOrder:
    """Waits until all nodes are ready, and then has the bag played."""
    awaited = [entry.name for entry in wanted_nodes(values)] + ([RECORDER.name] if values['record'] else [])
    command = module_command(NODES_PACKAGE, 'readiness', *awaited, '--ros-args', *common_ros_arguments(values))
    # Now and then the middleware does not introduce a new process to the others; the next one meets them.
    player = replace(process_order(PLAYER, values, ends_run=True), retries=2)
    return ProcessOrder('readiness', tuple(command), then=(player,))


def check_replay(values: dict[str, object]) -> None:
    """Finds out what would end a replay, before anything is loaded.

    Raises:
        FileNotFoundError: there is no such bag.
        BagError: the bag is damaged, or its camera is not known.
        BringupError: the recording would replace a file.
    """
    from deadline_perception.datasets.bag_file import BagFile
    from deadline_perception.nodes.bag_source import choose_camera

    bag = BagFile(Path(str(values['bag'])).expanduser())
    choose_camera(bag, str(values['camera']))
    bag.close()
    if values['record'] and Path(str(values['record'])).expanduser().exists():
        raise BringupError(f'{values["record"]} exists already, expected a new name for the recording')


def read_values(texts: dict[str, str]) -> dict[str, object]:
    """Texts, as launch has them, turned into the types of `ARGUMENTS`; what is not given has its default.

    Raises:
        BringupError: a text is no truth value where one is expected.
    """
    values: dict[str, object] = {}
    for argument in ARGUMENTS:
        value = texts.get(argument.name, argument.default)
        if isinstance(argument.default, bool) and isinstance(value, str):
            if value.lower() not in ('true', 'false'):
                raise BringupError(f'{argument.name} is {value!r}, expected true or false')
            value = value.lower() == 'true'
        values[argument.name] = value
    return values


def make_parser() -> argparse.ArgumentParser:
    """The command line of the start-up without ROS: the arguments of the launch files, with dashes."""
    parser = argparse.ArgumentParser(prog='python -m deadline_perception.nodes.bringup', description=(
        'Starts all nodes, plays and records a bag where one is named, and ends everything when it has been played.'),
        formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for argument in ARGUMENTS:
        option = '--' + argument.name.replace('_', '-')
        if isinstance(argument.default, bool):
            parser.add_argument(option, action=argparse.BooleanOptionalAction, default=argument.default,
                                help=argument.description)
        else:
            parser.add_argument(option, default=argument.default, metavar='X', help=argument.description)
    parser.add_argument('--one-process', action='store_true', help='all nodes in one process')
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs until the bag has been played or a signal comes. Returns 0, or 1 when something failed."""
    values = vars(make_parser().parse_args(arguments))
    one_process = values.pop('one_process')
    supervisor = Supervisor()
    with supervisor.catch_signals():
        try:
            orders = start_orders(values, one_process=one_process)
            if values['use_rviz']:
                orders.append(rviz_order(values))
            for order in orders:
                supervisor.start(order)
        except (DeadlinePerceptionError, OSError) as error:
            print(f'bringup: {error}', file=sys.stderr)
            supervisor.stop()
            return 1
        return supervisor.run(linger_s=LINGER_S)


def rviz_order(values: dict[str, object]) -> ProcessOrder:
    """How RViz is started.

    Raises:
        BringupError: it is not installed.
    """
    program = shutil.which('rviz2')
    if program is None:
        raise BringupError('use_rviz is set, but rviz2 is not installed; it comes with ROS, not with the PyPI wheels')
    layout = share_folder() / 'config' / 'perception.rviz'
    return ProcessOrder('rviz2', (program, '-d', str(layout), '--ros-args', '-p',
                                  f'use_sim_time:={as_text(values["use_sim_time"])}'))


if __name__ == '__main__':
    sys.exit(main())
