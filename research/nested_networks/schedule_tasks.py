"""Select levels and periods for the tasks of a file, for the node qos_scheduler.

    python research/nested_networks/schedule_tasks.py --help

Reads networks, latency profiles and qualities of the tasks, selects for each device the options that together meet all
deadlines, and prints them with the slack of each condition.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from deadline_perception.core.device import use_threads
from deadline_perception.core.share_folder import share_folder
from deadline_perception.core.stopwatch import ms_from_ns
from deadline_perception.extras.several_networks.nested_task import NestedTask, load_nested_task
from deadline_perception.extras.several_networks.network_schedule import analysis_of
from deadline_perception.extras.several_networks.scheduling.allocation import (
    Allocation,
    Method,
    allocate,
)
from deadline_perception.extras.several_networks.scheduling.choices import Infeasible
from deadline_perception.extras.several_networks.task_file import read_tasks
from deadline_perception.tools.command_line import run_alone
from deadline_perception.tools.support.file_arguments import THREADS, check_numbers
from deadline_perception.tools.support.terminal import print_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument('tasks', type=Path, help='task file (YAML)')
    parser.add_argument('--speed', type=float, default=13.9, help='of the vehicle, m/s')
    parser.add_argument(
        '--slowdown', type=float, default=1.0, help='factor of contention on all times'
    )
    parser.add_argument('--threads', type=int, default=1, help='CPU threads per network operation')


def run(args: argparse.Namespace) -> int:
    """Selects and prints; where a deadline could be missed, that is an error."""
    check_numbers(args, slowdown=(1.0, 1e6), speed=(0.0, 1e3), threads=THREADS)
    use_threads(args.threads)
    tasks = [
        load_nested_task(request, share_folder() / 'models', threads=args.threads, warm=False)
        for request in read_tasks(args.tasks)
    ]
    by_device: dict[str, list[NestedTask]] = {}
    for task in tasks:
        task.slowdown = args.slowdown
        by_device.setdefault(task.request.device, []).append(task)
    for device, found in by_device.items():
        options = [task.options(args.speed, task.bounds_ms(), task.segments_ms()) for task in found]
        try:
            allocation = allocate(options, Method.EXACT, names=[task.name for task in found])
        except Infeasible as error:
            raise Infeasible(f'{device}: {error}') from error
        _print(device, found, allocation)
    return 0


def _print(device: str, tasks: Sequence[NestedTask], allocation: Allocation) -> None:
    rows = [
        (
            task.name,
            f'{option.level} of 0-{len(task.paths) - 1}',
            str(task.paths[option.level]),
            f'{option.period_ms:g}',
            f'{option.execution_time_ms:.2f}',
            f'{option.utilisation:.3f}',
            f'{option.quality:.4f}',
        )
        for task, option in zip(tasks, allocation.options)
    ]
    print_table(
        f'{device}: utilisation {allocation.utilisation:.3f}, quality {allocation.quality:.3f}',
        ('task', 'level', 'path', 'period, ms', 'bound of a job, ms', 'share', 'quality'),
        rows,
        left=('task', 'path'),
    )
    for condition in analysis_of(allocation).tightest:
        print(
            f'slack when {tasks[condition.blocker].name} has just begun: {ms_from_ns(condition.slack):.2f} ms within '
            f'{ms_from_ns(condition.length):.2f} ms'
        )
    if allocation.gap == allocation.gap:
        print(f'no selection is better by more than {allocation.gap:.2%}')


if __name__ == '__main__':
    sys.exit(run_alone(sys.modules[__name__]))
