"""Which share of random sets of networks is schedulable where jobs run whole, and where segments are preemption points.

    python benchmarks/schedulable_sets.py [--sets 1000] [--quick]

Sets of 3 to 6 tasks: periods drawn from 33.3 to 500 ms, those of research/nested_networks/nested_scheduling.py, evenly in
their logarithm, utilisations by UUniFast (Bini and Buttazzo 2005), the longest segment a quarter of its job, deadlines at
the ends of periods or, in the second half of the table, drawn from 0.8 to 1 of them. `whole jobs` is the test of
non-preemptive EDF, `segments` that of the node. Every set that passes the latter is simulated: after each task in turn
has just begun its longest segment, and from random first releases; its jobs take their bounds. Goals at a utilisation of
0.6. Prints a table and writes results/schedulable_sets.json.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np
from parts.harness import Run, option, run_script, show

from deadline_perception.extras.several_networks.scheduling.feasibility import analyse

UTILISATIONS, GOAL_AT, GOAL_SHARE = (0.4, 0.6, 0.8), 0.6, 0.9
TASKS, PERIODS_US, SEGMENTS = (3, 6), (33_300, 500_000), 4
EARLIEST_DUE, PHASINGS, SIMULATED_PERIODS = 0.8, 3, 3


def draw_set(rng: np.random.Generator, utilisation: float, earliest: float) -> list[list[int]]:
    """Times, periods, longest segments and deadlines, us."""
    count = int(rng.integers(TASKS[0], TASKS[1] + 1))
    periods = np.exp(rng.uniform(*np.log(PERIODS_US), count)).astype(int).tolist()
    left, shares = utilisation, []
    for others in range(count - 1, 0, -1):
        rest = left * rng.random() ** (1.0 / others)
        shares.append(left - rest)
        left = rest
    times = [max(1, int(share * period)) for share, period in zip([*shares, left], periods)]
    segments = [-(-time // SEGMENTS) for time in times]
    deadlines = [
        max(time, int(period * rng.uniform(earliest, 1.0))) for time, period in zip(times, periods)
    ]
    return [times, periods, segments, deadlines]


def late_jobs(tasks: Sequence[Sequence[int]], firsts: Sequence[int]) -> tuple[int, int]:
    """Jobs that end after their deadlines under EDF that preempts between segments, of how many.

    Args:
        tasks: as `draw_set` gives them; each goes on as early as it may.
        firsts: first release of each task.
    """
    times, periods, segments, deadlines = tasks
    until = max(firsts) + SIMULATED_PERIODS * max(periods)
    releases = [(first, task) for task, first in enumerate(firsts)]
    heapq.heapify(releases)
    released, now, late, count = [], 0, 0, 0
    while releases or released:
        now = now if released else max(now, releases[0][0])
        while releases and releases[0][0] <= now:
            at, task = heapq.heappop(releases)
            heapq.heappush(released, (at + deadlines[task], task, times[task]))
            if at + periods[task] <= until:
                heapq.heappush(releases, (at + periods[task], task))
        due, task, left = released[0]
        now += min(left, segments[task])
        if left > segments[task]:
            heapq.heapreplace(released, (due, task, left - segments[task]))
        else:
            heapq.heappop(released)
            late, count = late + (now > due), count + 1
    return late, count


def simulate(tasks: Sequence[Sequence[int]], rng: np.random.Generator) -> tuple[int, int]:
    """Late jobs, and all, from the worst first releases of each task that blocks, and from random ones."""
    count = len(tasks[0])
    phasings = [[int(task != blocker) for task in range(count)] for blocker in range(count)]
    phasings += [[int(rng.integers(period)) for period in tasks[1]] for _ in range(PHASINGS)]
    found = [late_jobs(tasks, firsts) for firsts in phasings]
    return sum(late for late, _ in found), sum(jobs for _, jobs in found)


def run_sets(utilisation: float, earliest: float, sets: int) -> dict[str, float]:
    """Shares of sets that are schedulable, and how many of their jobs were late in simulation."""
    rng = np.random.default_rng(round(100 * utilisation) + round(1000 * earliest))
    whole = segmented = late = jobs = 0
    for _ in range(sets):
        times, periods, segments, deadlines = tasks = draw_set(rng, utilisation, earliest)
        whole += analyse(times, periods, times, deadlines).schedulable
        if analyse(*tasks).schedulable:
            segmented += 1
            found = simulate(tasks, rng)
            late, jobs = late + found[0], jobs + found[1]
    return {
        'utilisation': utilisation,
        'earliest_deadline': earliest,
        'whole_jobs': whole / sets,
        'segments': segmented / sets,
        'late_jobs': late,
        'simulated_jobs': jobs,
    }


def main(run: Run) -> None:
    sets = 100 if run.quick else run.args.sets
    found = [
        run_sets(utilisation, earliest, sets)
        for earliest in (1.0, EARLIEST_DUE)
        for utilisation in UTILISATIONS
    ]
    show(
        f'{sets} random sets of {TASKS[0]} to {TASKS[1]} tasks: share that is schedulable',
        ('utilisation', 'deadlines', 'whole jobs', 'segments', 'late jobs', 'of'),
        [
            (
                row['utilisation'],
                f'{row["earliest_deadline"]:g} to 1',
                f'{row["whole_jobs"]:.1%}',
                f'{row["segments"]:.1%}',
                row['late_jobs'],
                row['simulated_jobs'],
            )
            for row in found
        ],
    )
    goal = next(row for row in found if row['utilisation'] == GOAL_AT)
    run.goal(f'schedulable at utilisation {GOAL_AT}', goal['segments'], least=GOAL_SHARE)
    run.goal('late jobs of schedulable sets', sum(row['late_jobs'] for row in found), most=0)
    run.write(sets=sets, segments_of_a_job=SEGMENTS, rows=found)


if __name__ == '__main__':
    run_script(
        main,
        {'--sets': option(1000, 'at each utilisation')},
        quick='100 sets',
    )
