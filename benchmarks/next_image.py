"""Whether a path should end before the next image, where the budget is longer than the camera's period: a simulation.

    python benchmarks/next_image.py [--quick] [--seeds 0,1,2] [--seconds 45]

No network runs: rendered drives give the known objects, a latency profile and the quality table of the shipped weights
give time and quality of the paths, and detections are made of the known objects as in tracks.py, the more of them
missing the lower the quality. Images come every 100 ms, budgets by the speed from the table of the time_budget node; a
frame takes its forecast times a pace with 6 % of deviation, its bound is 1.25 times that. The newest image is taken
when the worker is free.
Rules: (longest) the best path whose bound fits the time left, as the frontier does; (by next) of these the best that is
expected to end before the next image comes, where none does before the one after, and so on, which the detector does;
(worth W) that image before which it pays to end, one that is left out being worth W times the quality of the result
before.
Scored where the budget exceeds the period: (by image) every image by its own result, else by the last one before, as
the report does; (by time) every 50 ms by what has been published until then, against what is there (streaming AP).
Prints a table and writes results/next_image.json; with --quick below out/benchmarks.
"""
from __future__ import annotations

import argparse
import json
import sys
from bisect import bisect_right
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import numpy as np
import yaml
from rich.console import Console
from rich.table import Table
from tracks import MISSING, ROOT, detections_of

from deadline_perception.datasets.records import Frame
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.decision.speed_budget import TableBudget
from deadline_perception.detector.checkpoint import load_detector
from deadline_perception.detector.detections import Detections
from deadline_perception.evaluation.average_precision import average_precision
from deadline_perception.latency.path_bound import PathForecast
from deadline_perception.latency.profile import LatencyProfile
from deadline_perception.rendering.drive import CLASS_NAMES, render_drive
from deadline_perception.tools.command_line import exit_status

PERIOD_MS, STEP_MS = 100, 50  # of the camera, and of the known objects
RESERVE_MS, PUBLISH_MS, BOUND, DEVIATION = 6.0, 3.0, 1.25, 0.06
MOST_LEFT_OUT = 3
RULES = {'longest': None, 'by next': 0.0, 'worth 0.5': 0.5, 'worth 0.9': 0.9}
PACES = (8.0, 4.0, 1.0)  # slower processors than the one of the profile


def choose(frontier: np.ndarray, remaining_ms: float, next_ms: float,
           worth: float | None) -> tuple[float, float] | None:
    """Forecast and quality of the path that a rule takes; None when no bound fits.

    Args:
        frontier: `[N, 2]`, forecast in ms and quality, ascending.
        remaining_ms: time left.
        next_ms: time until the next image.
        worth: of the rule; None for the longest.
    """
    fits = frontier[BOUND * frontier[:, 0] <= remaining_ms]
    if not len(fits):
        return None
    if worth is None:
        return tuple(fits[-1])
    ends = (fits[fits[:, 0] <= next_ms + left_out * PERIOD_MS] for left_out in range(MOST_LEFT_OUT + 1))
    values = {left_out: (found[-1, 1] * (1.0 + worth * left_out) / (1 + left_out), tuple(found[-1]))
              for left_out, found in enumerate(ends) if len(found)}
    if not worth:
        return values[min(values)][1]
    return max(values.values())[1]


def drive_on(frames: Sequence[Frame], frontier: np.ndarray, budget: TableBudget, worth: float | None,
             seed: int) -> list[tuple[int, float, Detections]]:
    """What is published on one drive: index of the frame, time in ms, detections."""
    rng, noise = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    per_image, published, now_ms, done = PERIOD_MS // STEP_MS, [], 0.0, -1
    images = len(frames) // per_image
    while True:
        image = max(done + 1, int(now_ms // PERIOD_MS))
        if image >= images:
            return published
        now_ms, done = max(now_ms, image * PERIOD_MS), image
        frame = frames[image * per_image]
        left_ms = budget.budget_ms(frame.speed_mps).budget_ms - (now_ms - image * PERIOD_MS) - RESERVE_MS
        taken = choose(frontier, left_ms, PERIOD_MS - now_ms % PERIOD_MS, worth)
        if taken is None:
            continue
        now_ms += taken[0] * noise.lognormal(0.0, DEVIATION)
        missing = 1.0 - (1.0 - MISSING) * taken[1] / frontier[-1, 1]
        published.append((image * per_image, now_ms + PUBLISH_MS, detections_of(frame.ground_truth, rng, missing)))


def score(drives: Sequence[Sequence[Frame]], frontier: np.ndarray, budget: TableBudget, worth: float | None,
          standing: bool) -> dict[str, float]:
    """AP (0 to 100) by image and by time, standing or moving at a budget above the period; and the share of images
    with a result of their own."""
    by_image, by_time, own, images = ([], []), ([], []), 0, 0
    for seed, frames in enumerate(drives):
        published = drive_on(frames, frontier, budget, worth, seed)
        stamps, times = [item[0] for item in published], [item[1] for item in published]
        for index, frame in enumerate(frames):
            if (frame.speed_mps < 0.5) != standing or budget.budget_ms(frame.speed_mps).budget_ms <= PERIOD_MS:
                continue
            last = bisect_right(times, index * STEP_MS) - 1
            by_time[0].append(published[last][2] if last >= 0 else Detections.none())
            by_time[1].append(frame.ground_truth)
            if index % (PERIOD_MS // STEP_MS) == 0:
                last = bisect_right(stamps, index) - 1
                by_image[0].append(published[last][2] if last >= 0 else Detections.none())
                by_image[1].append(frame.ground_truth)
                own, images = own + (last >= 0 and stamps[last] == index), images + 1
    return {'by_image': 100.0 * average_precision(*by_image, CLASS_NAMES).ap,
            'by_time': 100.0 * average_precision(*by_time, CLASS_NAMES).ap, 'own_share': own / images, 'images': images}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seeds', default='0,1,2', help='of the rendered drives')
    parser.add_argument('--seconds', type=float, default=45.0, help='of each drive')
    parser.add_argument('--weights', type=Path, default=ROOT / 'models' / 'compact.safetensors')
    parser.add_argument('--profile', type=Path,
                        default=ROOT / 'benchmarks' / 'results' / 'latency_profile_compact_amd-epyc_1_thread.json')
    parser.add_argument('--quick', action='store_true', help='one drive of 30 s, one pace')
    args = parser.parse_args()
    seeds, seconds = ([0], 30.0) if args.quick else ([int(seed) for seed in args.seeds.split(',')], args.seconds)
    space = load_detector(args.weights, 'cpu').path_space
    policy = FrontierPolicy(space, PathForecast(LatencyProfile.load(args.profile), space),
                            PathQuality.load(args.weights.with_suffix('.quality.json'), space))
    times = np.array([row[1:] for row in policy.frontier(space.largest, 0)])
    speeds = yaml.safe_load((ROOT / 'config' / 'time_budget.yaml').read_text())['/**/time_budget']['ros__parameters']
    budget = TableBudget(speeds['table_speeds_mps'], speeds['table_budgets_ms'], speeds['min_budget_ms'],
                         speeds['max_budget_ms'])
    drives = [render_drive(seconds=seconds, rate_hz=1000 / STEP_MS, seed=seed).frames for seed in seeds]
    table = Table('pace', 'ego', 'rule', 'images with own result', 'AP by image', 'AP by time')
    rows = []
    for pace in PACES[:1] if args.quick else PACES:
        for standing in (True, False):
            for name, worth in RULES.items():
                found = score(drives, times * (pace, 1.0), budget, worth, standing)
                rows.append({'pace': pace, 'standing': standing, 'rule': name, **found})
                table.add_row(f'{pace}', 'stands' if standing else 'moves', name, f'{found["own_share"]:.0%}',
                              f'{found["by_image"]:.1f}', f'{found["by_time"]:.1f}')
    Console().print(table)
    folder = ROOT / 'out' / 'benchmarks' if args.quick else ROOT / 'benchmarks' / 'results'
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'next_image.json').write_text(json.dumps({
        'date': date.today().isoformat(), 'seeds': seeds, 'seconds': seconds, 'period_ms': PERIOD_MS,
        'rows': rows}) + '\n')
    print(f'wrote {folder.relative_to(ROOT) / "next_image.json"}')


if __name__ == '__main__':
    sys.exit(exit_status(Path(__file__).name, main))
