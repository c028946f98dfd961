"""Levels of contention beside realistic programs: found, matched with units, and the paths that are worth keeping at
them.

    python research/contention_grading/contention_grading.py [--combinations 15] [--seconds 6] [--unit-seconds 2]
        [--candidates 24]

As Figs. 7 to 12 of the contention paper. A sample network (the whole one) runs beside random combinations of radar,
fusion and lidar programs (contenders.py), at least 12 of which differ; of their numbers nothing is used. Its delays are
graded into levels (Figs. 7, 9), each is matched with contention units (Fig. 8), and the network runs beside those units
to see whether they reproduce it. Then execution paths, as candidates, run beside the units of every level: their
average precision over their mean delay before and after Pareto and transition pruning (Figs. 10, 11), and their delays
by level with those that contention pruning keeps for the threshold, which is the whole network's idle delay (Fig. 12).
The sample's threads are not raised: raised ones hardly feel programs that only take cores. Takes
(combinations x seconds) + (13 x unit seconds) + (levels x candidates x 0.4 s), with 15, 6 and 2 about 3 minutes; writes
results/contention_grading.json and two pictures beside it.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from contenders import CONTENDERS
from contention_plot import draw_grading
from impact import (
    measure_unit_delays,
    most_units,
    record_delays,
)
from levels import (
    ContentionLevel,
    grade_levels,
    match_units,
)
from transition_pruning import transition_prune

from deadline_perception.core.device import use_threads
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.measurement_plan import distinct_paths
from deadline_perception.core.share_folder import DEFAULT_MODEL, share_folder
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.engines.segment_run import Network
from deadline_perception.extras.contention.load import ContentionLoad, units_text
from deadline_perception.extras.evaluation.path_accuracy import one_at_a_time
from deadline_perception.extras.external_models.model_set.pruning import (
    Candidate,
    contention_prune,
    pareto_prune,
)
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.networks.model_reference import load_network
from deadline_perception.runtime.loading import warm_up
from deadline_perception.timing.profile import time_frame
from deadline_perception.tools.profile import restart_with_environment

sys.path.append(str(Path(__file__).resolve().parents[2] / 'benchmarks'))
from parts.beside_programs import beside_programs
from parts.harness import Run, option, run_script, show

SEED = 3
MOST_OF_EACH = 2  # programs of one kind at once
FEWEST_DIFFERENT = 12
SETTLE_S = 1.5  # programs, loaded, begin to work, and are not recorded meanwhile
CANDIDATE_FRAMES = 8
CANDIDATE_S = 0.4
# of transitions, in points of average precision per ms; the paper's were 0.25 and 1.5 for its models
SLOPES = (0.02, 1.5)


def combinations(count: int, rng: random.Random) -> list[dict[str, int]]:
    """Random numbers of programs by kind, no two alike until there are `FEWEST_DIFFERENT`; the first one is empty."""
    found = [dict.fromkeys(CONTENDERS, 0)]
    while len(found) < count:
        drawn = {name: rng.randint(0, MOST_OF_EACH) for name in CONTENDERS}
        if drawn not in found or len(found) >= FEWEST_DIFFERENT:
            found.append(drawn)
    return found


def frame_runner(
    network: Network, images: list[np.ndarray], path: ExecutionPath
) -> Callable[[], float]:
    """What runs one frame of a path and gives its delay in ms."""
    rng = random.Random(0)
    return lambda: time_frame(network, rng.choice(images), path)[0]


def beside(
    combination: dict[str, int], run_frame: Callable[[], float], seconds: float
) -> list[float]:
    """Delays of the sample network beside the programs of a combination, which end afterwards."""
    code = Path(__file__).with_name('contenders.py').read_text(encoding='utf-8')
    programs = [[name] for name, count in combination.items() for _ in range(count)]
    with beside_programs(code, programs, says=True):
        record_delays(run_frame, SETTLE_S)
        return record_delays(run_frame, seconds)


def candidate_delays(
    run_path: Callable[[ExecutionPath], Callable[[], float]],
    paths: Sequence[ExecutionPath],
    levels: Sequence[ContentionLevel],
) -> dict[str, list[float]]:
    """Median delay in ms of each path at each level, by the path's name."""
    found: dict[str, list[float]] = {str(path): [] for path in paths}
    for level in levels:
        with ContentionLoad(level.units, at_work=True):
            for path in paths:
                run_frame = run_path(path)
                run_frame()
                delays_ms = record_delays(run_frame, CANDIDATE_S)
                while len(delays_ms) < CANDIDATE_FRAMES:
                    delays_ms.append(run_frame())
                found[str(path)].append(statistics.median(delays_ms))
    return found


def prune(
    delays_ms: dict[str, list[float]], qualities: dict[str, float], threshold_ms: float
) -> dict[str, list[str]]:
    """Names of the candidates that are left after each pruning, one after the other."""
    candidates = [
        Candidate(name, statistics.mean(delays), qualities[name])
        for name, delays in delays_ms.items()
    ]
    pareto = pareto_prune(candidates)
    transition = transition_prune(
        pareto, least_slope=SLOPES[0] / 100.0, greatest_slope=SLOPES[1] / 100.0
    )
    final = contention_prune(transition, delays_ms, threshold_ms)
    return {
        name: [candidate.name for candidate in kept]
        for name, kept in (
            ('all', candidates),
            ('Pareto', pareto),
            ('transition', transition),
            ('contention', final),
        )
    }


def draw_pruning(
    delays_ms: dict[str, list[float]],
    qualities: dict[str, float],
    kept: dict[str, list[str]],
    threshold_ms: float,
    file: Path,
) -> None:
    """Average precision over mean delay with what each pruning keeps, and the delays by level of what is left to the
    last."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 4.0), layout='constrained')
    left, right = figure.subplots(1, 2)
    styles = (
        {'c': '#c4ccd4', 's': 26},
        {'c': '#2a6fbb', 's': 34},
        {'c': '#c2571a', 's': 42},
        {'c': '#b3261e', 's': 90, 'marker': '*'},
    )
    for (name, names), style in zip(kept.items(), styles):
        left.scatter(
            [statistics.mean(delays_ms[path]) for path in names],
            [100.0 * qualities[path] for path in names],
            label=f'{name}: {len(names)}',
            **style,
        )
    left.set(xlabel='mean delay over the levels, ms', ylabel='average precision', xscale='log')
    left.legend(frameon=False, fontsize=8)
    for path in kept['transition']:
        is_kept = path in kept['contention']
        right.plot(
            range(len(delays_ms[path])),
            delays_ms[path],
            'o-' if is_kept else 'x:',
            markersize=4,
            linewidth=1.0,
            color='#b3261e' if is_kept else '#9aa5b1',
            label=path if is_kept else None,
        )
    right.axhline(threshold_ms, color='#20262d', linewidth=0.9)
    right.set(
        xlabel='level of contention',
        ylabel='delay, ms',
        yscale='log',
        xticks=range(len(next(iter(delays_ms.values())))),
    )
    if kept['contention']:
        right.legend(frameon=False, fontsize=7)
    for axis in (left.xaxis, right.yaxis):
        axis.set_major_formatter('{x:g}')
        axis.set_minor_formatter('{x:g}')
    figure.savefig(file, dpi=130)


def measure(run: Run) -> dict:
    """Everything, in this process."""
    args = run.args
    use_threads(1)
    network, weights = load_network(DEFAULT_MODEL, 'cpu', share_folder() / 'models')
    images = [frame.load_bgr() for frame in render_drive(seconds=4.0).frames]
    warm_up(network, images[0].shape[:2])
    rng = random.Random(SEED)
    space = network.path_space
    sample = frame_runner(network, images, space.largest)
    sample()
    drawn = combinations(args.combinations, rng)
    delays_ms = []
    rows = []
    for combination in drawn:
        print(f'beside {combination}', file=sys.stderr)
        recorded = beside(combination, sample, args.seconds)
        delays_ms += recorded
        rows.append(
            {**combination, 'frames': len(recorded), 'median_ms': statistics.median(recorded)}
        )
    unit_delays = measure_unit_delays(
        sample,
        ('core', 'memory'),
        most_units(),
        args.unit_seconds,
        up_to_ms=max(row['median_ms'] for row in rows),
    )
    levels = match_units(grade_levels(delays_ms), unit_delays)
    again_ms = candidate_delays(lambda path: sample, [space.largest], levels)[str(space.largest)]
    quality = PathQuality.load(weights.with_suffix('.quality.json'), space)
    paths = distinct_paths(
        space, args.candidates, rng, first=one_at_a_time(space)[: args.candidates // 2]
    )
    by_level = candidate_delays(lambda path: frame_runner(network, images, path), paths, levels)
    qualities = {str(path): quality.quality(path) for path in paths}
    threshold_ms = unit_delays[0].delay_ms
    picture = run.file.with_suffix('.png')
    draw_grading(str(space.largest), delays_ms, levels, unit_delays, picture)
    return {
        'seconds_each': args.seconds,
        'combinations': rows,
        'different': len({tuple(combination.values()) for combination in drawn}),
        'frames': len(delays_ms),
        'levels': [
            {**asdict(level), 'reproduced_ms': again, 'off': again / level.delay_ms - 1.0}
            for level, again in zip(levels, again_ms)
        ],
        'unit_delays': [asdict(delay) for delay in unit_delays],
        'threshold_ms': threshold_ms,
        'slopes_points_per_ms': SLOPES,
        'candidate_delays_ms': by_level,
        'qualities': qualities,
        'kept': prune(by_level, qualities, threshold_ms),
    }


def show_levels(found: dict) -> None:
    """Prints the tables."""
    show(
        f'{found["different"]} different combinations, {found["frames"]} frames',
        (*CONTENDERS, 'frames', 'median ms'),
        [
            (*(row[name] for name in CONTENDERS), row['frames'], f'{row["median_ms"]:.1f}')
            for row in found['combinations']
        ],
        words=0,
    )
    show(
        f'levels; the sample network takes {found["threshold_ms"]:.1f} ms alone',
        ('level', 'delay ms', 'share', 'slowdown', 'units', 'beside them, ms', 'off'),
        [
            (
                number,
                f'{level["delay_ms"]:.1f}',
                f'{100 * level["share"]:.0f} %',
                level['slowdown'],
                units_text(level['units']),
                f'{level["reproduced_ms"]:.1f}',
                f'{100 * level["off"]:+.0f} %',
            )
            for number, level in enumerate(found['levels'])
        ],
        words=0,
    )
    for name, names in found['kept'].items():
        mean = np.mean([found['qualities'][path] for path in names]) if names else math.nan
        print(f'{name}: {len(names)} candidates, mean average precision {100 * mean:.1f}')
    print(f'kept: {", ".join(found["kept"]["contention"])}')


def main(run: Run) -> None:
    args = run.args
    restart_with_environment(1)
    found = measure(run)
    show_levels(found)
    if args.combinations < FEWEST_DIFFERENT:
        print(f'nothing written: fewer than {FEWEST_DIFFERENT} combinations')
        return
    run.write(load_average_before=run.load_before, **found)
    draw_pruning(
        found['candidate_delays_ms'],
        found['qualities'],
        found['kept'],
        found['threshold_ms'],
        run.file.with_name('contention_pruning.png'),
    )


if __name__ == '__main__':
    run_script(
        main,
        {
            '--combinations': option(
                15, f'of programs; at least {FEWEST_DIFFERENT} for a result', least=1
            ),
            '--seconds': option(6.0, 'recorded beside each', above=0.0),
            '--unit-seconds': option(2.0, 'recorded beside each number of units', above=0.0),
            '--candidates': option(24, 'execution paths that are pruned', least=3),
        },
    )
