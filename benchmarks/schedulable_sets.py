"""Which share of random sets of networks is schedulable where jobs run whole, and where segments are preemption points.

    python benchmarks/schedulable_sets.py [--sets 1000] [--quick]

Sets of 3 to 6 tasks: periods drawn from 33.3 to 500 ms, those of research/nested_networks/nested_scheduling.py, evenly in
their logarithm, utilisations by UUniFast (Bini and Buttazzo 2005), the longest segment a quarter of its job, deadlines at
the ends of periods or, in the second half of the table, drawn from 0.8 to 1 of them. `whole jobs` is the test of
non-preemptive EDF, `segments` that of the node, which `test_feasibility.py` holds against every release pattern. The goal
is for a utilisation of 0.6. Prints a table and writes results/schedulable_sets.json.
"""

from __future__ import annotations

import numpy as np
from parts.harness import Run, option, run_script, show

from deadline_perception.extras.several_networks.scheduling.feasibility import analyse

UTILISATIONS, GOAL_AT, GOAL_SHARE = (0.4, 0.6, 0.8), 0.6, 0.9
TASKS, PERIODS_US, SEGMENTS = (3, 6), (33_300, 500_000), 4
EARLIEST_DUE = 0.8


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


def run_sets(utilisation: float, earliest: float, sets: int) -> dict[str, float]:
    """Shares of sets that are schedulable."""
    rng = np.random.default_rng(round(100 * utilisation) + round(1000 * earliest))
    whole = segmented = 0
    for _ in range(sets):
        times, periods, segments, deadlines = draw_set(rng, utilisation, earliest)
        whole += analyse(times, periods, times, deadlines).schedulable
        segmented += analyse(times, periods, segments, deadlines).schedulable
    return {
        'utilisation': utilisation,
        'earliest_deadline': earliest,
        'whole_jobs': whole / sets,
        'segments': segmented / sets,
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
        ('utilisation', 'deadlines', 'whole jobs', 'segments'),
        [
            (
                row['utilisation'],
                f'{row["earliest_deadline"]:g} to 1',
                f'{row["whole_jobs"]:.1%}',
                f'{row["segments"]:.1%}',
            )
            for row in found
        ],
    )
    goal = next(row for row in found if row['utilisation'] == GOAL_AT)
    run.goal(f'schedulable at utilisation {GOAL_AT}', goal['segments'], least=GOAL_SHARE)
    run.write(sets=sets, segments_of_a_job=SEGMENTS, rows=found)


if __name__ == '__main__':
    run_script(
        main,
        {'--sets': option(1000, 'at each utilisation')},
        quick='100 sets',
    )
