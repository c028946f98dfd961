"""How the nodes of the table start: what is behind both the launch files and the start-up without ROS.

`python -m deadline_perception.nodes bringup --help` starts them all, each in a process of its own, and plays and
records a bag where one is named.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from deadline_perception.core.child_command import module_command
from deadline_perception.core.device import DEFAULT_THREADS, process_environment
from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.share_folder import share_folder
from deadline_perception.nodes.bag_replay import check_recording, prepare_replay
from deadline_perception.nodes.launch_arguments import ARGUMENTS, read_values
from deadline_perception.nodes.node_table import (
    NODES,
    OPTIONAL_NODES,
    PLAYER,
    RECORDER,
    BringupError,
    NodeEntry,
    Values,
    node_parameters,
    node_remaps,
)
from deadline_perception.nodes.parameter_file import fits, parameters_of, read_sections
from deadline_perception.system.supervision import ProcessOrder, Supervisor

NODES_PACKAGE = 'deadline_perception.nodes'  # `python -m` runs it with a node's name
LINGER_S = 1.5  # the last frame of a bag is still on its way when the player ends


def wanted_nodes(values: Values) -> tuple[NodeEntry, ...]:
    """The nodes that the arguments bring up.

    Raises:
        BringupError: the task file is not there.
    """
    if values['tasks'] and not Path(str(values['tasks'])).expanduser().is_file():
        raise BringupError(f'task file {values["tasks"]} does not exist')
    return tuple(
        entry
        for entry in NODES + OPTIONAL_NODES
        if not (
            entry.wanted_by and not values[entry.wanted_by] or entry.unless and values[entry.unless]
        )
    )


def parameter_files(entry: NodeEntry, values: Values) -> list[Path]:
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


def ros_arguments(entry: NodeEntry, values: Values) -> list[str]:
    """The parameters and topic names that the arguments set, as a node's process gets them after `--ros-args`.

    Files go before them: ROS forgets single parameters of a node when a file that names the node follows.
    """
    words = []
    for name, value in node_parameters(entry, values).items():
        # ROS reads YAML, in which a bare name may be a number or end at a #.
        words += ['-p', f'{name}:={json.dumps(value, ensure_ascii=False)}']
    for topic, outside in node_remaps(entry, values):
        words += ['-r', f'{topic}:={outside}']
    return words


def common_ros_arguments(values: Values) -> list[str]:
    """Namespace and log level, the same for all nodes."""
    words = ['--log-level', str(values['log_level'])]
    namespace = str(values['namespace']).strip('/')
    return [*words, '-r', f'__ns:=/{namespace}'] if namespace else words


def node_environment(entry: NodeEntry, values: Values) -> dict[str, str]:
    """Variables that must be set before the node's process starts.

    Raises:
        BringupError: a parameter file is not there, or its number of threads is none.
        ParameterFileError: it cannot be used.
    """
    if not entry.pinned_environment:
        return {}
    files = parameter_files(entry, values)
    threads = parameters_of(_full_name(entry, values), read_sections(files)).get(
        'threads', DEFAULT_THREADS
    )
    try:
        return process_environment(threads)
    except (TypeError, ValueError) as error:
        raise BringupError(f'parameter file {files[-1]} cannot be used: {error}') from error


def unused_sections(values: Values) -> list[str]:
    """One line for each part of the user's parameter file that is for no node that there is.

    Raises:
        BringupError: the file is not there.
        ParameterFileError: it cannot be used.
    """
    nodes = {
        entry.name: _full_name(entry, values)
        for entry in (*NODES, *OPTIONAL_NODES, PLAYER, RECORDER)
    }
    lines = []
    for pattern in read_sections(parameter_files(PLAYER, values)[1:]):
        if not any(fits(pattern, node) for node in nodes.values()):
            near = difflib.get_close_matches(pattern.rpartition('/')[2], nodes, n=1) or ['detector']
            lines.append(
                f'params_file {values["params_file"]}: {pattern} is no node here, and its parameters have no '
                f'effect; expected a name such as {nodes[near[0]]}'
            )
    return lines


def _full_name(entry: NodeEntry, values: Values) -> str:
    namespace = str(values['namespace']).strip('/')
    return f'/{namespace}/{entry.name}'.replace('//', '/')


def process_order(entry: NodeEntry, values: Values) -> ProcessOrder:
    """How a node is started as a process; nodes are started again when they end by themselves."""
    files = parameter_files(entry, values)
    return ProcessOrder(
        entry.name,
        (
            *module_command(NODES_PACKAGE, entry.name, '--ros-args', *common_ros_arguments(values)),
            *(word for file in files for word in ('--params-file', str(file))),
            *ros_arguments(entry, values),
        ),
        node_environment(entry, values),
        respawn=entry in NODES + OPTIONAL_NODES,
    )


def readiness_order(values: Values) -> ProcessOrder:
    """Waits until all nodes are ready, and then has the bag played."""
    awaited = (*wanted_nodes(values), *([RECORDER] if values['record'] else []))
    command = module_command(
        NODES_PACKAGE,
        'bag_readiness',
        *(entry.name for entry in awaited),
        '--ros-args',
        *common_ros_arguments(values),
    )
    # Now and then the middleware does not introduce a new process to the others; the next one meets them.
    player = replace(process_order(PLAYER, values), ends_run=True, retries=2)
    return ProcessOrder('readiness', tuple(command), then=(player,))


def start_orders(values: Values) -> list[ProcessOrder]:
    """All that is started at once; the player follows when everybody listens, so that no frame is lost.

    Raises:
        BringupError: a named file cannot be used.
        BagError: nor can the bag.
        FileNotFoundError: it is not there.
    """
    if values['bag']:
        values = prepare_replay(values)
    check_recording(values)
    orders = [process_order(entry, values) for entry in wanted_nodes(values)]
    if values['record']:
        orders.append(process_order(RECORDER, values))
    if values['bag']:
        orders.append(readiness_order(values))
    return orders


def make_parser() -> argparse.ArgumentParser:
    """The command line of the start-up without ROS: the arguments of the launch files, with dashes."""
    parser = argparse.ArgumentParser(
        prog='python -m deadline_perception.nodes bringup',
        description=(
            'Starts all nodes, plays and records a bag where one is named, and ends everything when it has been played.'
        ),
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    for argument in ARGUMENTS:
        is_flag = isinstance(argument.default, bool)
        parser.add_argument(
            '--' + argument.name.replace('_', '-'),
            action=argparse.BooleanOptionalAction if is_flag else 'store',
            default=argument.default,
            metavar=None if is_flag else 'X',
            help=argument.description,
        )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs until the bag has been played or a signal comes. Returns 0, or 1 when something failed."""
    given = vars(make_parser().parse_args(arguments))
    supervisor = Supervisor()
    with supervisor.catch_signals():
        try:
            values = read_values(given)
            orders = start_orders(values)
            for line in unused_sections(values):
                print(f'bringup: {line}', file=sys.stderr)
            for order in orders:
                supervisor.start(order)
        except (DeadlinePerceptionError, OSError) as error:
            print(f'bringup: {error}', file=sys.stderr)
            supervisor.stop()
            return 1
        return supervisor.run(linger_s=LINGER_S)
