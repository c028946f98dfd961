"""The SubFlow paper's Fig. 7, and its Table IV with Fig. 12: usefulness over deadlines, budget and actual time per
speed.

    python research/subflow/subflow_utility.py [--jobs 50000] [--iterations 200] [--quick]

Fig. 7: at each deadline the elastic network runs the largest sub-network whose bound fits, the ordinary one runs
always; an answer counts with its accuracy when it is in time and with nothing else. Table IV: a robot's budgets at 2 to
20 cm/s, scaled so that the largest is 1.1 times the whole network's bound here, drawn for each job at random; a job is
one inference with the utilisation that is chosen, construction included. Jobs whose budget not even the smallest
sub-network's bound fits are counted apart: they are stated infeasible before they run. Writes
results/subflow_utility.json and .png, with --quick below out/benchmarks.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median

import torch
from subflow_shapes import (
    SHAPES,
    Split,
    accuracy,
    accuracy_by_setting,
    made_elastic,
    nested_training,
    trained,
)
from time_bounds import TimeBounds
from torch import nn

from deadline_perception.core.device import read_device_facts
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.extras.elastic.elastic import ElasticModule
from deadline_perception.system.kernel_thread import name_thread
from deadline_perception.system.priority import Role, ThreadPriority

sys.path.append(str(Path(__file__).resolve().parents[2] / 'benchmarks'))
from parts.harness import Run, option, run_script, show, timed_ms
from parts.picture import picture

# Lee and Nirjon 2020, table IV: budgets of the robot by its speed in m/s.
ROBOT_BUDGETS_MS = {0.02: 220.0, 0.04: 198.0, 0.08: 154.0, 0.12: 110.0, 0.16: 66.0, 0.20: 22.0}
SETTINGS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
TARGET = 0.005  # share of jobs that exceed their bound
GOAL_OVER_BUDGET = 0.01
DEADLINES = 24
JOBS_OF_DEADLINE = 200
TIMED = 60


@dataclass
class Jobs:
    """What became of the jobs of one budget."""

    budget_ms: float
    took_ms: list[float] = field(default_factory=list)
    utilisations: list[float] = field(default_factory=list)
    infeasible: int = 0

    def summary(self) -> dict[str, float]:
        """Figures of the jobs that a bound fitted."""
        late_ms = [time for time in self.took_ms if time > self.budget_ms]
        excess = [time - self.budget_ms for time in late_ms]
        return {
            'budget_ms': self.budget_ms,
            'jobs': len(self.took_ms),
            'infeasible': self.infeasible,
            'mean_ms': fmean(self.took_ms) if self.took_ms else 0.0,
            'longest_ms': max(self.took_ms, default=0.0),
            'mean_utilisation': fmean(self.utilisations) if self.utilisations else 0.0,
            'over_budget': len(excess),
            'over_budget_share': len(excess) / max(1, len(self.took_ms)),
            'worst_excess_ms': max(excess, default=0.0),
        }


def time_bounds(
    network: ElasticModule, sample: torch.Tensor, between: Callable[[], None]
) -> TimeBounds:
    """Bounds from some inferences of each setting."""
    times = {}
    for setting in network.settings:
        samples = []
        for _ in range(TIMED):
            samples.append(timed_ms(lambda: network(sample, utilisation=setting)))
            between()
        times[setting] = samples[TIMED // 4 :]
    return TimeBounds({setting: median(samples) for setting, samples in times.items()}, TARGET, 1.5)


def run_job(
    network: ElasticModule,
    bounds: TimeBounds,
    sample: torch.Tensor,
    budget_ms: float,
    jobs: Jobs,
    between: Callable[[], None],
) -> tuple[float, bool]:
    """One job, with the choice of its sub-network; returns the utilisation, and whether it ended within the budget.

    `between` is called after it, see `ThreadPriority.between_frames`.
    """
    begun_ms = now_ms()
    fit = bounds.fit(budget_ms)
    chosen_ms = now_ms()
    network(sample, utilisation=fit.utilisation)
    ended_ms = now_ms()
    bounds.observe(fit.utilisation, ended_ms - chosen_ms)
    between()
    if fit.fits_budget:
        jobs.took_ms.append(ended_ms - begun_ms)
        jobs.utilisations.append(fit.utilisation)
    else:
        jobs.infeasible += 1
    return fit.utilisation, ended_ms - begun_ms <= budget_ms


def usefulness(
    network: ElasticModule,
    module: nn.Sequential,
    accuracies: dict[float, float],
    ordinary: float,
    data: Split,
    rounds: int,
    between: Callable[[], None],
) -> list[dict[str, float]]:
    """At each deadline, expected accuracy of answers in time, in %."""
    sample = data.test_inputs[:1]
    bounds = time_bounds(network, data.test_inputs[:1], between)
    whole_ms = bounds.bounds_ms[1.0]
    rows = []
    for step in range(1, DEADLINES + 1):
        deadline_ms = 1.5 * whole_ms * step / DEADLINES
        jobs = Jobs(0.0)
        ours = [
            accuracies[u] * in_time
            for u, in_time in (
                run_job(network, bounds, sample, deadline_ms, jobs, between) for _ in range(rounds)
            )
        ]
        theirs = []
        for _ in range(rounds):
            theirs.append(ordinary * (timed_ms(lambda: module(sample)) <= deadline_ms))
            between()
        rows.append({'deadline_ms': deadline_ms, 'elastic': fmean(ours), 'ordinary': fmean(theirs)})
    return rows


def robot(
    network: ElasticModule, data: Split, count: int, between: Callable[[], None]
) -> dict[float, dict[str, float]]:
    """By speed in m/s, what became of the jobs with its budget."""
    rng = random.Random(0)
    samples = data.test_inputs.split(1)
    bounds = time_bounds(network, samples[0], between)
    scale = 1.1 * bounds.bounds_ms[1.0] / max(ROBOT_BUDGETS_MS.values())
    jobs = {speed: Jobs(scale * budget_ms) for speed, budget_ms in ROBOT_BUDGETS_MS.items()}
    for number in range(count):
        of_speed = jobs[rng.choice(list(jobs))]
        run_job(
            network, bounds, samples[number % len(samples)], of_speed.budget_ms, of_speed, between
        )
    return {speed: of_speed.summary() for speed, of_speed in jobs.items()}


def plot(result: dict, file: Path) -> None:
    """Fig. 7, and Fig. 12."""
    with picture(file, 2) as (left, right):
        deadlines = [row['deadline_ms'] for row in result['usefulness']]
        for name in ('elastic', 'ordinary'):
            left.plot(deadlines, [row[name] for row in result['usefulness']], label=name)
        left.set(xlabel='deadline, ms', ylabel='accuracy of answers in time, %')
        speeds = [100.0 * float(speed) for speed in result['speeds']]
        for name in ('budget_ms', 'longest_ms', 'mean_ms'):
            times_ms = [row[name] for row in result['speeds'].values()]
            right.plot(speeds, times_ms, 'o-', label=name)
        right.set(xlabel='speed, cm/s', ylabel='ms', yscale='log')


def main(run: Run) -> None:
    args = run.args
    shape = SHAPES['AlexNet']
    data = shape.data()
    module = trained(shape, data, run.quick)
    network = made_elastic(module, data, SETTINGS)
    nested_training(network, data, 2 if args.quick else args.iterations)
    accuracies = accuracy_by_setting(network, data)
    ordinary = accuracy(module, data)
    priority = ThreadPriority(lock_memory=True)  # as the node's thread that computes
    name_thread('inference')
    priority.raise_thread(Role.INFERENCE)
    with torch.inference_mode():
        for setting in SETTINGS:
            network(data.test_inputs[:1], utilisation=setting)
        useful = usefulness(
            network,
            module,
            accuracies,
            ordinary,
            data,
            20 if args.quick else JOBS_OF_DEADLINE,
            priority.between_frames,
        )
        speeds = robot(network, data, args.jobs, priority.between_frames)
    priority.restore()
    ran = sum(row['jobs'] for row in speeds.values())
    over = sum(row['over_budget'] for row in speeds.values())
    over_share = over / max(1, ran)
    result = {
        'device': str(read_device_facts('cpu')),
        'shape': shape.name,
        'priority': str(priority.in_force),
        'accuracies': accuracies,
        'accuracy_of_the_ordinary_network': ordinary,
        'usefulness': useful,
        'speeds': speeds,
        'jobs': args.jobs,
        'over_budget_share': over_share,
    }
    show(
        f'{shape.name}: {args.jobs} jobs, {over} of {ran} over budget ({over_share:.2%})',
        'cm/s | budget ms | mean ms | longest ms | mean u | over budget | worst excess ms | infeasible',
        [
            (
                f'{100 * speed:.0f}',
                *(row[key] for key in ('budget_ms', 'mean_ms', 'longest_ms', 'mean_utilisation')),
                f'{row["over_budget_share"]:.2%}',
                row['worst_excess_ms'],
                row['infeasible'],
            )
            for speed, row in speeds.items()
        ],
        words=0,
    )
    print(
        'usefulness over all deadlines, %: elastic {:.1f}, ordinary {:.1f}'.format(
            *(fmean(row[name] for row in useful) for name in ('elastic', 'ordinary'))
        )
    )
    run.goal('share of jobs over budget', over_share, most=GOAL_OVER_BUDGET)
    run.write(**result)
    plot(result, run.file.with_suffix('.png'))


if __name__ == '__main__':
    run_script(
        main,
        {
            '--jobs': option(50_000, 'of the robot, over all speeds', least=100),
            '--iterations': option(200, 'of nested training'),
        },
        quick='hardly any training',
        threads=1,
    )
