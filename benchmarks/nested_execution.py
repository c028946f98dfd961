"""Several networks on one processor under the scheduler and without it: missed deadlines, and quality against what was
promised.

    python benchmarks/nested_execution.py [--minutes 10] [--quick]

Images come at 30 Hz for detectors of two cameras and the classifier of crops. In turn, each for a fourth of the time:
  scheduled, idle         one executor runs the networks by the schedule, as the node qos_scheduler does;
  scheduled, busy         the same beside a busy program;
  three processes, idle   each network in a process of its own, which schedules it as if it had the machine to itself;
  three processes, busy   the same beside a busy program.
A job misses when its result is not there by its deadline, one period after its release. Measured quality is that of the
level of each result in time, at the interval that really passed until the next one; promised is what the schedule said.
Prints a table and writes results/nested_execution.json; with --quick (20 s) below out/benchmarks.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np
from parts.harness import Run, option, run_script, show

from deadline_perception.core.device import use_threads
from deadline_perception.core.share_folder import DEFAULT_MODEL, share_folder
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.extras.contention.load import busy_programs
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.extras.several_networks.nested_task import NestedTask, load_nested_task
from deadline_perception.extras.several_networks.network_schedule import make_schedule
from deadline_perception.extras.several_networks.network_scheduler import NetworkScheduler
from deadline_perception.extras.several_networks.task_file import TaskRequest
from deadline_perception.networks.model_reference import find_weights
from deadline_perception.runtime.executor import Executor
from deadline_perception.runtime.job import Job, JobRecord, Outcome
from deadline_perception.runtime.pipeline import FrameClient
from deadline_perception.system.priority import ThreadPriority
from deadline_perception.tools.profile import restart_with_environment
from deadline_perception.tools.support.ensure_profile import ensure_profile

CAMERA_MS, LOOK_MS, SETTLE_S = 1000.0 / 30.0, 500.0, 5.0
SPEED_MPS, CROP_PX = 13.9, 48
THREADS, PRIORITY = 1, 'auto'
GOAL_MISSES, GOAL_QUALITY = 0.01, 0.97
DETECTOR_PERIODS_MS = (100.0, 150.0, 200.0, 300.0, 400.0, 600.0, 900.0)


SIGN_PERIODS_MS = (50.0, 100.0, 200.0, 400.0)
TASKS = (
    TaskRequest('front', DEFAULT_MODEL, DETECTOR_PERIODS_MS),
    TaskRequest('rear', DEFAULT_MODEL, DETECTOR_PERIODS_MS),
    TaskRequest('signs', 'crop_classifier', SIGN_PERIODS_MS, crops_of='front', distance_m=50.0),
)


class Images:
    """Varied images of a rendered drive, or pieces of them for a task of crops."""

    def __init__(self) -> None:
        frames = [frame.load_bgr() for frame in render_drive(seconds=4.0, seed=3).frames[::4]]
        rng = np.random.default_rng(0)
        corners = [
            (
                int(rng.integers(0, image.shape[0] - CROP_PX)),
                int(rng.integers(0, image.shape[1] - CROP_PX)),
            )
            for image in frames
        ]
        self._whole = frames
        self._pieces = [
            image[y : y + CROP_PX, x : x + CROP_PX] for image, (y, x) in zip(frames, corners)
        ]

    def of(self, task: NestedTask, number: int) -> np.ndarray:
        """Image number N of a task."""
        images = self._pieces if task.request.crops_of else self._whole
        return images[number % len(images)]


def load(requests: Sequence[TaskRequest]) -> list[NestedTask]:
    """The tasks, warm."""
    return [
        load_nested_task(request, share_folder() / 'models', threads=THREADS)
        for request in requests
    ]


class Client(FrameClient):
    """Calibrates a task by its jobs, and keeps their records."""

    def __init__(self, task: NestedTask) -> None:
        self.task, self.records = task, []

    def convert(self, job: Job) -> np.ndarray:
        """See `FrameClient`."""
        return job.message

    def on_record(self, record: JobRecord) -> None:
        """See `FrameClient`."""
        self.task.observe(record)
        self.records.append(record)

    def on_failure(self, error: Exception) -> None:
        """See `FrameClient`."""
        print(error, file=sys.stderr)


def run_tasks(
    tasks: Sequence[NestedTask],
    images: Images,
    seconds: float,
) -> dict[str, list[JobRecord]]:
    """Runs tasks of one device together by the schedule, which follows their calibration; the first seconds are not
    told. Gives the jobs of each task."""
    clients = {task.name: Client(task) for task in tasks}
    executor = Executor()
    executor.start(
        ThreadPriority(PRIORITY),
        lambda error: print(error, file=sys.stderr),
        prepare=lambda: use_threads(THREADS),
    )
    scheduler = NetworkScheduler(
        executor, {name: (client.task, client) for name, client in clients.items()}
    )
    ends = threading.Event()

    def cameras() -> None:
        number, due_s = 0, time.monotonic()
        while not ends.wait(max(0.0, due_s - time.monotonic())):
            for at, task in enumerate(tasks):
                scheduler.submit(task.name, images.of(task, number + 7 * at))
            number, due_s = number + 1, due_s + CAMERA_MS / 1000.0

    schedule = make_schedule(tasks, SPEED_MPS)
    scheduler.follow(schedule.plans)
    camera = threading.Thread(target=cameras, daemon=True)
    camera.start()
    begun_ms = now_ms()
    while now_ms() < begun_ms + 1000.0 * (seconds + SETTLE_S):
        time.sleep(LOOK_MS / 1000.0)
        if not schedule.holds(tasks, SPEED_MPS):
            schedule = make_schedule(tasks, SPEED_MPS)
            scheduler.follow(schedule.plans)
    ends.set()
    camera.join()
    scheduler.stop()
    return {
        name: [
            record for record in client.records if record.arrived_ms >= begun_ms + 1000.0 * SETTLE_S
        ]
        for name, client in clients.items()
    }


def summarise(task: NestedTask, records: Sequence[JobRecord]) -> dict[str, float]:
    """Misses of a task with their limit, and its quality against what was promised."""
    mine = sorted(records, key=lambda record: record.arrived_ms)
    misses = sum(record.outcome is not Outcome.DETECTED for record in mine)
    promised = measured = weight_ms = 0.0
    for record in mine:
        period_ms = record.conditions.budget_ms
        promised += period_ms * task.quality.quality(record.planned_level, period_ms, SPEED_MPS)
        weight_ms += period_ms
    good = [record for record in mine if record.outcome is Outcome.DETECTED]
    total_ms = 0.0
    for record, following in zip(good, good[1:]):
        gap_ms = following.arrived_ms - record.arrived_ms
        measured += gap_ms * task.quality.quality(record.level, gap_ms, SPEED_MPS)
        total_ms += gap_ms
    return {
        'jobs': len(mine),
        'misses': misses,
        'miss_ratio': misses / max(1, len(mine)),
        'promised': promised / weight_ms if weight_ms else 0.0,
        'measured': measured / total_ms if total_ms else 0.0,
    }


def run_alone(name: str, seconds: float) -> subprocess.Popen:
    """A process that runs one task as if it had the machine to itself."""
    words = (sys.executable, __file__, '--alone', name, '--seconds', str(seconds))
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def main(run: Run) -> None:
    args = run.args
    restart_with_environment(THREADS)
    use_threads(THREADS)
    images = Images()
    if args.alone:
        tasks = load([request for request in TASKS if request.name == args.alone])
        print('ready', flush=True)
        records = run_tasks(tasks, images, args.seconds)
        print(json.dumps(summarise(tasks[0], records[args.alone])))
        return
    seconds = 5.0 if run.quick else args.minutes * 60.0 / 4.0
    models = share_folder() / 'models'
    for model in sorted({request.model for request in TASKS}):
        ensure_profile(find_weights(model, models), 'cpu', THREADS, models / 'profiles')
    tasks, found = load(TASKS), {}
    for condition, programs in (('idle', 0), ('beside 1', 1)):
        print(f'{condition}: scheduled, then {len(TASKS)} processes', file=sys.stderr)
        with busy_programs(programs) if programs else nullcontext():
            records = run_tasks(tasks, images, seconds)
            found[f'scheduled, {condition}'] = {
                task.name: summarise(task, records[task.name]) for task in tasks
            }
            processes = {request.name: run_alone(request.name, seconds) for request in TASKS}
            found[f'{len(TASKS)} processes, {condition}'] = {
                name: json.loads(process.communicate()[0].splitlines()[-1])
                for name, process in processes.items()
            }
    report(run, found)
    run.write(
        seconds_per_condition=seconds,
        speed_mps=SPEED_MPS,
        priority=PRIORITY,
        conditions=found,
    )


def report(run: Run, found: dict[str, dict[str, dict[str, float]]]) -> None:
    """Prints the table and what it says of the goals."""
    rows = []
    for condition, by_task in found.items():
        for name, row in by_task.items():
            ratio = row['measured'] / row['promised'] if row['promised'] else 0.0
            rows.append(
                (
                    condition,
                    name,
                    row['jobs'],
                    f'{row["miss_ratio"]:.2%}',
                    row['promised'],
                    row['measured'],
                    ratio,
                )
            )
    show(
        'jobs of networks that share a processor',
        'condition | task | jobs | misses | promised | measured | ratio',
        rows,
    )
    for condition, by_task in found.items():
        if condition.startswith('scheduled'):
            worst = max(row['miss_ratio'] for row in by_task.values())
            ratio = sum(row['measured'] for row in by_task.values()) / max(
                1e-9, sum(row['promised'] for row in by_task.values())
            )
            run.goal(f'{condition}: misses of the worst task', worst, most=GOAL_MISSES)
            run.goal(f'{condition}: measured over promised quality', ratio, least=GOAL_QUALITY)


if __name__ == '__main__':
    run_script(
        main,
        {
            '--minutes': option(10.0, 'of all four conditions together', above=0.0),
            '--alone': option(None, argparse.SUPPRESS),
            '--seconds': option(None, argparse.SUPPRESS, type=float),
        },
        quick='5 s per condition',
    )
