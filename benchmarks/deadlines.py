"""A drive at varying speed through the detector as it ships: how many of the images that it promises are late.

    python benchmarks/deadlines.py [--quick] [--minutes 2.4]

The drive over and over, ten images a second, alone, beside programs that load the machine in bursts, and beside them
without the priority that the node asks the kernel for; an image that waits is replaced by a newer one, as in the node.
How slow the machine is the detector learns from its frames alone, as in the Python API: no contention monitor runs.
A frame is promised where the bound of a path fitted when it was planned. How accurate decisions are says `replay.py`.

Budgets follow the speed as in the node, but over a range of the machine's own, so that there is something to decide on
any: from LEAST_FACTOR times what the cheapest path's bound and the reserve take to FULL_FACTOR times what an image
without a limit takes, both measured at the begin of the run.

The co-runners are as many programs as there are cores, whose duty cycle changes every 0.5 to 3 s.
Writes results/deadlines.json.
"""

from __future__ import annotations

import gc
import os
import statistics
import time
from collections.abc import Sequence

import numpy as np
import yaml
from parts.beside_programs import beside_programs
from parts.harness import ROOT, Run, option, run_script

from deadline_perception.core.device import DEFAULT_THREADS
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.deadline_detector import DeadlineDetector
from deadline_perception.decision.speed_budget import TableBudget
from deadline_perception.extras.data.source import open_source
from deadline_perception.extras.evaluation.confidence_limit import clopper_pearson_upper
from deadline_perception.extras.report.scenario import with_speed_in_every_frame
from deadline_perception.runtime.job import JobRecord
from deadline_perception.runtime.loading import NetworkOptions
from deadline_perception.runtime.pipeline import FrameRules
from deadline_perception.system.priority import Role
from deadline_perception.timing.profile import wait_for_frame
from deadline_perception.tools.profile import restart_with_environment
from deadline_perception.tools.support.file_arguments import DEFAULT_WEIGHTS

LEAST_FACTOR = 2.0
RESERVE_MS = 1.0  # least that the time model keeps for publishing
FULL_FACTOR = 1.5
FULL_FRAMES = 20
PERIOD_MS = 100.0  # of the demo's camera
QUICK_S = 6.0
DRIVE = 'drive:seconds=30,rate_hz=7'
GOAL_MISSES, GOAL_LIMIT = 0.01, 0.015  # of promised frames, and of the 95 % limit of their share
# Each co-runner works for a share of every 20 ms.
CO_RUNNER = """
import random, sys, time
import numpy as np
rng, memory = random.Random(int(sys.argv[1])), np.ones(1 << 20, np.float32)
while True:
    share, until = rng.choice((0.0, 0.3, 0.6, 1.0)), time.monotonic() + rng.uniform(0.5, 3.0)
    while time.monotonic() < until:
        rest = time.monotonic() + 0.02 * share
        while time.monotonic() < rest:
            np.sqrt(memory, out=memory)
        time.sleep(0.02 * (1.0 - share))
"""


def drive_on(
    detector: DeadlineDetector,
    images: Sequence[np.ndarray],
    budgets_ms: Sequence[float],
    limit_s: float,
) -> tuple[list[JobRecord], int, str]:
    """The drive at the camera's pace until the time is up; records of its frames, how many images were replaced, and
    the priority in force."""
    records = []
    next_number = replaced = 0
    with detector.stream(rules=FrameRules(spare_next_image=True)) as stream:
        detector.priority.raise_thread(Role.SUPPORTING)  # receives images
        begun_ms = now_ms()
        while now_ms() - begun_ms < 1000.0 * limit_s:
            # The newest image there is, or the next to come.
            number = max(next_number, int((now_ms() - begun_ms) / PERIOD_MS))
            dropped = number - next_number
            next_number = number + 1
            captured_ms = begun_ms + number * PERIOD_MS
            time.sleep(max(0.0, captured_ms - now_ms()) / 1000.0)
            index = number % len(images)
            answer = stream.detect(
                images[index],
                budgets_ms[index],
                stamp_ns=int((number + 1) * PERIOD_MS * 1e6),
                age_ms=max(0.0, now_ms() - captured_ms),
                dropped=dropped,
            )
            replaced += dropped
            records.append(answer.record)
            gc.collect(1)  # as the node does after each frame
        if stream.failures:
            raise RuntimeError(f'{stream.failures} frames failed, expected none; see above')
        priority = '; '.join((detector.priority.in_force, *detector.priority.refusals))
    return records, replaced, priority


def figures(records: Sequence[JobRecord]) -> dict:
    """All that is said about the frames of one condition."""
    promised = [record for record in records if record.feasible]
    missed = sum(not record.is_in_time for record in promised)
    return {
        'frames': len(records),
        'feasible': {
            'frames': len(promised),
            'misses': missed,
            'ratio': missed / len(promised) if promised else None,
            'upper_95': clopper_pearson_upper(missed, len(promised)),
        },
        'infeasible_ratio': 1.0 - len(promised) / len(records),
    }


def budget_range(
    detector: DeadlineDetector, images: Sequence[np.ndarray], speeds_mps: Sequence[float]
) -> dict:
    """This machine's range of budgets, those of the node's table, and what the range was made of."""
    values = yaml.safe_load((ROOT / 'config' / 'time_budget.yaml').read_text())
    values = values['/**/time_budget']['ros__parameters']
    names = ('table_speeds_mps', 'table_budgets_ms', 'min_budget_ms', 'max_budget_ms')
    table = TableBudget(*(values[name] for name in names))
    full_ms = []
    for number in range(FULL_FRAMES):
        wait_for_frame()  # as for a camera's, which takes longer than one right after another
        full_ms.append(detector.detect(images[number % len(images)], None).network_ms)
    task = detector.loaded.task
    times = task.times.begin(1.0, keeps_bounds=True)
    cheapest_ms = task.policy.plan(0.0, times.factor).bound_ms + times.interruption_ms
    return {
        'least_ms': LEAST_FACTOR * (cheapest_ms + RESERVE_MS),
        'most_ms': FULL_FACTOR * statistics.median(full_ms),
        'full_path_median_ms': statistics.median(full_ms),
        'cheapest_bound_ms': cheapest_ms,
        'table_ms': [table.budget_ms(speed_mps).budget_ms for speed_mps in speeds_mps],
    }


def main(run: Run) -> None:
    restart_with_environment(DEFAULT_THREADS)
    sequence, note = with_speed_in_every_frame(open_source(DRIVE))
    images = [frame.load_bgr() for frame in sequence.frames]
    options = NetworkOptions(model=str(ROOT / DEFAULT_WEIGHTS), threads=DEFAULT_THREADS)
    limit_s = QUICK_S if run.quick else 60.0 * run.args.minutes
    budgets = {}
    loads = {}
    gc.disable()  # within a frame, as in the node
    co_runners = len(os.sched_getaffinity(0))
    beside = f'beside {co_runners} co-runners'
    for load, programs, mode in (
        ('alone', 0, 'auto'),
        (beside, co_runners, 'auto'),
        (f'{beside}, priority off', co_runners, 'off'),
    ):
        with DeadlineDetector(options, priority=mode) as detector:
            if not budgets:
                budgets = budget_range(
                    detector, images, [frame.speed_mps for frame in sequence.frames]
                )
                print(f'budgets {budgets["least_ms"]:.1f} to {budgets["most_ms"]:.1f} ms')
                table_ms = budgets.pop('table_ms')
                limits_ms = budgets['least_ms'], budgets['most_ms']
                budgets_ms = np.interp(table_ms, (min(table_ms), max(table_ms)), limits_ms)
            arguments = [(str(seed),) for seed in range(programs)]
            with beside_programs(CO_RUNNER, arguments):
                records, replaced, priority = drive_on(
                    detector, images, budgets_ms.tolist(), limit_s
                )
            loads[load] = {
                **figures(records),
                'replaced': replaced,
                'priority': priority,
                'engine': detector.loaded.task.network.engine.identity,
            }
        print(f'{load}: {loads[load]}', flush=True)
        feasible = loads[load]['feasible']
        run.goal(f'{load}: promised frames missed', feasible['ratio'], most=GOAL_MISSES)
        run.goal(f'{load}: 95 % limit of it', feasible['upper_95'], most=GOAL_LIMIT)
    run.write(
        weights=DEFAULT_WEIGHTS.name,
        data=sequence.name,
        note=note,
        period_ms=PERIOD_MS,
        budgets=budgets,
        loads=loads,
    )


if __name__ == '__main__':
    run_script(
        main,
        {'--minutes': option(2.4, 'time of each condition', above=0.0)},
        quick='6 s of each condition',
    )
