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
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from contenders import CONTENDERS
from levels import (
    ContentionLevel,
    UnitDelay,
    delay_density,
    grade_levels,
    match_units,
    smoothed,
)
from transition_pruning import pruned_in_stages

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.measurement_plan import distinct_paths
from deadline_perception.core.share_folder import DEFAULT_MODEL, share_folder
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.engines.segment_run import Network
from deadline_perception.extras.contention.load import MOST_UNITS, ContentionLoad, units_text
from deadline_perception.extras.evaluation.path_accuracy import one_at_a_time
from deadline_perception.extras.external_models.model_set.pruning import Candidate
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.networks.model_reference import load_network
from deadline_perception.runtime.loading import warm_up
from deadline_perception.timing.profile import time_frame

sys.path.append(str(Path(__file__).resolve().parents[2] / 'benchmarks'))
from parts.beside_programs import beside_programs
from parts.harness import Run, option, run_script, show
from parts.picture import picture

SEED = 3
UNITS = ('core', 'memory')
FEWEST_DELAYS = 20
RUNGS = 8  # of each kind of units
ENOUGH = 1.15  # times the longest delay that is to be reproduced: more units are not needed
SETTLE_FRAMES = 3  # left out after a change: caches and clock follow it
SMOOTHED_FRAMES = 9
MOST_OF_EACH = 2  # programs of one kind at once
FEWEST_DIFFERENT = 12
SETTLE_S = 1.5  # programs, loaded, begin to work, and are not recorded meanwhile
CANDIDATE_FRAMES = 8
CANDIDATE_S = 0.4
# of transitions, in points of average precision per ms; the paper's were 0.25 and 1.5 for its models
SLOPES = (0.02, 1.5)


def record_delays(run_frame: Callable[[], float], seconds: float, least: int = 1) -> list[float]:
    """Delays in ms of one frame after the other, for so long, of at least some; blocks."""
    delays_ms: list[float] = []
    begun_s = time.monotonic()
    while len(delays_ms) < least or time.monotonic() - begun_s < seconds:
        delays_ms.append(run_frame())
    return delays_ms


def most_units() -> int:
    """Units of one kind that keep every core of this process busier than it can be, as far as a load has so many."""
    return min(MOST_UNITS, 6 * len(os.sched_getaffinity(0)))


def rungs(most: int) -> list[int]:
    """At most `RUNGS` numbers of units, from 1 to the most, evenly spread."""
    steps = range(1, RUNGS + 1)
    return sorted({math.ceil(most * step / RUNGS) for step in steps} - {0})


def measure_unit_delays(
    run_frame: Callable[[], float], seconds: float, up_to_ms: float
) -> tuple[UnitDelay, ...]:
    """What the sample network takes beside no unit, and beside more and more of each kind; blocks.

    Args:
        run_frame: gives the delay of a frame in ms.
        seconds: for each number of units, > 0; at least `FEWEST_DELAYS` frames are run.
        up_to_ms: longest delay that is to be reproduced; a kind that reaches it, and some more, gets no further units.
    """
    most = most_units()
    found = [UnitDelay({}, _typical_ms(run_frame, seconds))]
    for kind in UNITS:
        with ContentionLoad({kind: most}) as load:
            for count in rungs(most):
                load.set({kind: count})
                found.append(UnitDelay({kind: count}, _typical_ms(run_frame, seconds)))
                load.check()
                if found[-1].delay_ms > ENOUGH * up_to_ms:
                    break
    return tuple(found)


def _typical_ms(run_frame: Callable[[], float], seconds: float) -> float:
    for _ in range(SETTLE_FRAMES):
        run_frame()
    return statistics.median(record_delays(run_frame, seconds, FEWEST_DELAYS))


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
        return record_delays(run_frame, seconds, FEWEST_DELAYS)


def candidate_delays(
    run_path: Callable[[ExecutionPath], Callable[[], float]],
    paths: Sequence[ExecutionPath],
    levels: Sequence[ContentionLevel],
) -> dict[str, list[float]]:
    """Median delay in ms of each path at each level, by the path's name."""
    found = {str(path): [] for path in paths}
    for level in levels:
        with ContentionLoad(level.units, at_work=True):
            for path in paths:
                run_frame = run_path(path)
                run_frame()
                delays_ms = record_delays(run_frame, CANDIDATE_S, CANDIDATE_FRAMES)
                found[str(path)].append(statistics.median(delays_ms))
    return found


def draw_grading(
    delays_ms: Sequence[float],
    levels: Sequence[ContentionLevel],
    unit_delays: Sequence[UnitDelay],
    file: Path,
) -> None:
    """The delays, their density, and delays beside units, each with the levels, as Figs. 7, 9 and 8."""
    with picture(file, 3, sharey=True) as (over_time, density, units):
        smooth_ms = smoothed(np.asarray(delays_ms), SMOOTHED_FRAMES)
        over_time.plot(delays_ms, '.', markersize=2.0)
        over_time.plot(smooth_ms, linewidth=0.9)
        over_time.set(xlabel='frame, beside programs', ylabel='delay, ms')
        grid_ms, values = delay_density(smooth_ms)
        density.plot(values, grid_ms)
        density.set(xlabel='density')
        for kind in UNITS:
            beside_kind = [one for one in unit_delays if set(one.units) <= {kind}]
            counts = [one.units.get(kind, 0) for one in beside_kind]
            units.plot(counts, [one.delay_ms for one in beside_kind], 'o-', label=kind)
        units.set(xlabel='contention units at work')
        for level in levels:
            for axes in (over_time, density, units):
                axes.axhline(level.delay_ms, color='0.5', linewidth=0.8)


def draw_pruning(found: dict, file: Path) -> None:
    """What each pruning keeps, and the delays by level of what is left to the last, as Figs. 10 to 12."""
    delays_ms = found['candidate_delays_ms']
    kept = found['kept']
    with picture(file, 2) as (left, right):
        for (name, paths), marker in zip(kept.items(), '.osx'):
            means_ms = [statistics.mean(delays_ms[path]) for path in paths]
            qualities = [100.0 * found['qualities'][path] for path in paths]
            left.plot(means_ms, qualities, marker, label=f'{name}: {len(paths)}')
        left.set(xlabel='mean delay over the levels, ms', ylabel='average precision', xscale='log')
        for path in kept['transition']:
            is_kept = path in kept['contention']
            right.plot(delays_ms[path], 'o-' if is_kept else 'x:', label=path if is_kept else None)
        right.axhline(found['threshold_ms'])
        right.set(xlabel='level of contention', ylabel='delay, ms', yscale='log')


def measure(run: Run) -> dict:
    """Everything, in this process."""
    args = run.args
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
    longest_ms = max(row['median_ms'] for row in rows)
    unit_delays = measure_unit_delays(sample, args.unit_seconds, longest_ms)
    levels = match_units(grade_levels(delays_ms), unit_delays)
    again_ms = candidate_delays(lambda path: sample, [space.largest], levels)[str(space.largest)]
    quality = PathQuality.load(weights.with_suffix('.quality.json'), space)
    paths = distinct_paths(
        space, args.candidates, rng, first=one_at_a_time(space)[: args.candidates // 2]
    )
    by_level = candidate_delays(lambda path: frame_runner(network, images, path), paths, levels)
    qualities = {str(path): quality.quality(path) for path in paths}
    threshold_ms = unit_delays[0].delay_ms
    draw_grading(delays_ms, levels, unit_delays, run.file.with_suffix('.png'))
    return {
        'seconds_each': args.seconds,
        'combinations': rows,
        'different': len({tuple(combination.values()) for combination in drawn}),
        'frames': len(delays_ms),
        'levels': [
            {**asdict(level), 'reproduced_ms': again, 'off': again / level.delay_ms - 1.0}
            for level, again in zip(levels, again_ms)
        ],
        'unit_delays': unit_delays,
        'threshold_ms': threshold_ms,
        'slopes_points_per_ms': SLOPES,
        'candidate_delays_ms': by_level,
        'qualities': qualities,
        'kept': pruned_in_stages(
            [
                Candidate(name, statistics.mean(delays), 100.0 * qualities[name])
                for name, delays in by_level.items()
            ],
            SLOPES,
            by_level,
            threshold_ms,
        ),
    }


def show_levels(found: dict) -> None:
    """Prints the levels and what is kept."""
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
        print(f'{name}: {len(names)} candidates are left')


def main(run: Run) -> None:
    found = measure(run)
    show_levels(found)
    run.write(**found)
    draw_pruning(found, run.file.with_name('contention_pruning.png'))


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
        threads=1,
    )
