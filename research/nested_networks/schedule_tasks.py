"""Select levels and periods for the tasks of a file, as the node qos_scheduler would, and draw what follows.

    python research/nested_networks/schedule_tasks.py --help

Reads networks, latency profiles and qualities of the tasks, selects for each device the options that together meet all
deadlines, and prints them with the slack of each condition. The plot shows the first jobs of the schedule when all
tasks are released at once and every job takes its bound.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from simulation import Jobs, simulate

from deadline_perception.core.device import use_threads
from deadline_perception.core.share_folder import share_folder
from deadline_perception.core.stopwatch import NS_PER_MS, ms_from_ns
from deadline_perception.extras.several_networks.nested_task import NestedTask, load_nested_task
from deadline_perception.extras.several_networks.scheduling.allocation import (
    Allocation,
    Method,
    allocate,
)
from deadline_perception.extras.several_networks.scheduling.choices import Infeasible
from deadline_perception.extras.several_networks.scheduling.feasibility import analyse, whole_ns
from deadline_perception.extras.several_networks.task_file import read_tasks
from deadline_perception.tools.command_line import run_alone
from deadline_perception.tools.support.file_arguments import THREADS, check_file, check_numbers
from deadline_perception.tools.support.terminal import print_table

_SHOWN_PERIODS = 4  # of the longest one


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument('tasks', type=Path, help='task file (YAML)')
    parser.add_argument('--speed', type=float, default=13.9, help='of the vehicle, m/s')
    parser.add_argument(
        '--slowdown', type=float, default=1.0, help='factor of contention on all times'
    )
    parser.add_argument('--threads', type=int, default=1, help='CPU threads per network operation')
    parser.add_argument('--out', type=Path, default=Path('out/schedule.png'), help='plot to write')


def run(args: argparse.Namespace) -> int:
    """Selects, prints and draws; where a deadline could be missed, that is an error."""
    check_numbers(args, slowdown=(1.0, 1e6), speed=(0.0, 1e3), threads=THREADS)
    check_file('--out', args.out)
    use_threads(args.threads)
    tasks = [
        load_nested_task(request, share_folder() / 'models', threads=args.threads, warm=False)
        for request in read_tasks(args.tasks)
    ]
    by_device: dict[str, list[NestedTask]] = {}
    for task in tasks:
        task.slowdown = args.slowdown
        by_device.setdefault(task.request.device, []).append(task)
    schedules = []
    for device, found in by_device.items():
        options = [task.options(args.speed, task.bounds_ms(), task.segments_ms()) for task in found]
        try:
            allocation = allocate(options, Method.EXACT, names=[task.name for task in found])
        except Infeasible as error:
            raise Infeasible(f'{device}: {error}') from error
        _print(device, found, allocation)
        schedules.append((device, [task.name for task in found], allocation))
    draw(schedules, args.out)
    print(f'wrote {args.out}')
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
    analysis = analyse(*_whole(allocation))
    for condition in analysis.tightest:
        print(
            f'slack when {tasks[condition.blocker].name} has just begun: {ms_from_ns(condition.slack):.2f} ms within '
            f'{ms_from_ns(condition.length):.2f} ms'
        )
    if allocation.gap == allocation.gap:
        print(f'no selection is better by more than {allocation.gap:.2%}')


def _whole(allocation: Allocation) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return (
        whole_ns([option.execution_time_ms for option in allocation.options], 'execution time'),
        whole_ns([option.period_ms for option in allocation.options], 'period'),
    )


def first_jobs(allocation: Allocation) -> Jobs:
    """The first jobs when all tasks are released at once and every job takes its bound."""
    times, periods = _whole(allocation)
    until = _SHOWN_PERIODS * max(periods)
    return simulate([np.arange(0, until, period) for period in periods], times, periods)


def draw(schedules: Sequence[tuple[str, Sequence[str], Allocation]], file: Path) -> None:
    """Gantt plot: a panel per device, a row per task; releases are marks, missed jobs are red."""
    from matplotlib.figure import Figure

    rows = sum(len(names) for _, names, _ in schedules)
    figure = Figure(figsize=(11, 1.2 * len(schedules) + 0.6 * rows), layout='constrained')
    panels = figure.subplots(len(schedules), squeeze=False)[:, 0]
    for axes, (device, names, allocation) in zip(panels, schedules):
        jobs = first_jobs(allocation)
        for place, name in enumerate(names):
            mine = jobs.task == place
            start_ms, took_ms = (
                jobs.start[mine] / NS_PER_MS,
                (jobs.finish - jobs.start)[mine] / NS_PER_MS,
            )
            colours = np.where(jobs.missed[mine], 'tab:red', f'C{place % 10}')
            axes.broken_barh(
                list(zip(start_ms, took_ms)),
                (place - 0.35, 0.7),
                facecolors=colours.tolist(),
                edgecolor='black',
                linewidth=0.4,
            )
            axes.plot(
                jobs.release[mine] / NS_PER_MS,
                np.full(mine.sum(), place - 0.42),
                'k^',
                markersize=4,
            )
        axes.set(
            yticks=range(len(names)),
            yticklabels=list(names),
            xlabel='ms',
            title=device,
            ylim=(len(names) - 0.4, -0.6),
        )
        axes.grid(axis='x', alpha=0.3)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)


if __name__ == '__main__':
    sys.exit(run_alone(sys.modules[__name__]))
