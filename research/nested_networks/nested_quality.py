"""Time, accuracy and total accuracy of the crop classifier's levels: Table 1 and Figs. 4 to 6 of the nested-network
thesis.

    python research/nested_networks/nested_quality.py [--jobs 10000] [--quick]

Times are medians of whole jobs, crop to scores, of all levels in turn, on rendered signs of many sizes. Accuracy is
that of the file beside the weights (deadline-perception evaluate), of signs alone, as the thesis's classifier knows
signs alone. Total accuracy (Problem 3.1) follows from both for a sign that the vehicle drives towards. Prints tables,
writes results/nested_quality.json and .png; with --quick below out/benchmarks.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np

from deadline_perception.core.device import read_device_facts
from deadline_perception.core.json_file import read_object
from deadline_perception.extras.rendered_drive.single_object import render_views
from deadline_perception.extras.several_networks.classifier.classes import SIGN_FACES
from deadline_perception.extras.several_networks.classifier.crop import crop_box
from deadline_perception.extras.several_networks.scheduling.quality import (
    AccuracyTable,
    Approach,
    TotalAccuracy,
)
from deadline_perception.networks.model_reference import load_network
from deadline_perception.system.priority import Role, ThreadPriority
from deadline_perception.timing.profile import time_frame

sys.path.append(str(Path(__file__).resolve().parents[2] / 'benchmarks'))
from parts.harness import ROOT, Run, option, run_script, show, turns
from parts.picture import picture

MODEL = 'crop_classifier'
SPEED_MPS = 13.9  # 50 km/h
# A sign 0.75 m wide in an image of 640 px and 90 degrees, which is 8 px wide, the smallest width measured, at 30 m.
APPROACH = Approach(distance_m=30.0, size_px_m=240.0, largest_px=32)
PERIODS_MS = (10.0, 15.0, 20.0, 30.0, 50.0, 75.0, 100.0, 150.0, 200.0, 300.0, 500.0, 750.0, 1000.0)
HELD_OUT_SEED = 2000


def level_times(network, jobs: int, after_each) -> list[dict[str, float]]:
    """Median and tail of whole jobs of each level, ms; the levels take turns, so that a busy second stretches all."""
    grey = np.full((40, 40, 3), 120, np.uint8)
    crops = [
        crop_box(view.image_bgr, view.box_xyxy_px)
        for view in render_views(tuple(SIGN_FACES), 4, [grey], seed=HELD_OUT_SEED)
    ]
    paths = list(network.path_space)
    rng = random.Random(0)
    times_ms = [[] for _ in paths]
    for number, level in turns(range(len(paths)), jobs + 5):
        total_ms, _ = time_frame(network, rng.choice(crops), paths[level])
        after_each()
        if number >= 5:  # first calls allocate and choose kernels
            times_ms[level].append(total_ms)
    return [
        {
            'median_ms': float(np.median(times)),
            'p99_ms': float(np.quantile(times, 0.99)),
            'max_ms': max(times),
        }
        for times in times_ms
    ]


def draw(result: dict, file: Path) -> None:
    """Figs. 4 to 6 of the thesis side by side."""
    rows = result['levels']
    with picture(file, 3) as (by_time, by_period, by_utilisation):
        times_ms = [row['median_ms'] for row in rows]
        for column, size_px in enumerate(result['sizes_px']):
            accuracies = [row['accuracy'][column] for row in rows]
            by_time.plot(times_ms, accuracies, 'o-', label=f'{size_px:g} px')
        for row in rows:
            utilisation = [row['median_ms'] / period_ms for period_ms in PERIODS_MS]
            by_period.plot(PERIODS_MS, row['total_accuracy'], '.-', label=row['level'])
            by_utilisation.plot(utilisation, row['total_accuracy'], '.-')
        by_time.set(xscale='log', xlabel='time of a job, ms', ylabel='accuracy of signs')
        by_period.set(xscale='log', xlabel='period, ms', ylabel='total accuracy')
        by_utilisation.set(xscale='log', xlabel='utilisation', ylabel='total accuracy')


def show_levels(result: dict) -> None:
    """Prints the tables."""
    show(
        f'{result["jobs"]} jobs of each level on {result["device"]}, {result["engine"]}; accuracy of signs in %',
        ('level', 'ratio', 'median ms', 'p99 ms', *(f'{size:g} px' for size in result['sizes_px'])),
        [
            (
                row['level'],
                f'{row["ratio"]:.3f}',
                row['median_ms'],
                row['p99_ms'],
                *(f'{100 * value:.1f}' for value in row['accuracy']),
            )
            for row in result['levels']
        ],
        words=0,
    )
    show(
        f'TOT in % by period in ms, a sign from {APPROACH.distance_m:g} m at {SPEED_MPS} m/s',
        ('level', *(f'{period:g}' for period in PERIODS_MS)),
        [
            (row['level'], *(f'{100 * value:.1f}' for value in row['total_accuracy']))
            for row in result['levels']
        ],
        words=0,
    )


def main(run: Run) -> None:
    args = run.args
    jobs = 20 if args.quick else args.jobs
    network, weights = load_network(MODEL, 'cpu', ROOT / 'models', 'eager')
    content = read_object(weights.with_suffix('.quality.json'), 'accuracy table')
    accuracy = content['accuracy_of']['traffic_sign']
    quality = TotalAccuracy(
        AccuracyTable(
            tuple(content['levels']),
            tuple(map(float, content['sizes_px'])),
            tuple(map(tuple, accuracy)),
        ),
        APPROACH,
    )
    priority = ThreadPriority(lock_memory=True)
    priority.raise_thread(Role.INFERENCE)
    times = level_times(network, jobs, priority.between_frames)
    in_force = priority.in_force
    priority.restore()
    facts = read_device_facts('cpu')
    result = {
        'device': facts.name,
        'threads': 1,
        'engine': network.engine.identity,
        'priority': in_force,
        'jobs': jobs,
        'weights_hash': network.weights_hash,
        'speed_mps': SPEED_MPS,
        'approach': APPROACH,
        'sizes_px': content['sizes_px'],
        'periods_ms': PERIODS_MS,
        'levels': [
            {
                'level': str(path),
                'ratio': path['level'],
                **{name: round(value, 4) for name, value in times[number].items()},
                'accuracy': accuracy[number],
                'total_accuracy': [
                    round(quality.quality(number, period_ms, SPEED_MPS), 5)
                    for period_ms in PERIODS_MS
                ],
            }
            for number, path in enumerate(network.path_space)
        ],
    }
    show_levels(result)
    run.write(**result)
    draw(result, run.file.with_suffix('.png'))


if __name__ == '__main__':
    run_script(
        main,
        {
            '--jobs': option(10_000, 'jobs of each level that are timed', least=1),
        },
        quick='20 jobs',
        threads=1,
    )
