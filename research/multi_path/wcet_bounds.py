"""The analytical model of the engine in use: what its bounds hold.

    python research/multi_path/wcet_bounds.py [--quick] [--threads 1] [--frames 20000]

Needs prepared segments (`profile --all-paths`). All times are of the engine that the node would run:

- Bounds of whole frames, fitted to one half of the measurement and held against frames of 50 random paths that follow,
  alone and beside one busy program per core, there times the slowdown that the frames before had. Interruptions are
  watched before and after.
- Budgets of 10 to 60 ms: each frame is planned by `calibrated` and `wcet`, and run. Its AP is that of its path
  by the quality table, 0 where it was late: not measured on the frame, and without decisions mid-frame.

20,000 frames take 7 minutes on an idle core. Writes results/wcet_bounds.json.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.progress import track

from deadline_perception.core.device import read_device_facts
from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.extras.contention.load import busy_programs
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.networks.model_reference import find_weights, use_engine
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.runtime.loading import NetworkOptions, make_calibrator
from deadline_perception.timing.interference import interference_of, watch_interruptions
from deadline_perception.timing.path_bound import (
    PathForecast,
    SegmentForecast,
    WcetForecast,
)
from deadline_perception.timing.profile import LatencyProfile, measure_profile, time_frame
from deadline_perception.timing.wcet.segment_model import EXECUTION, fit_wcet, whole_paths
from deadline_perception.tools.support.file_arguments import DEFAULT_WEIGHTS

sys.path.append(str(Path(__file__).resolve().parents[2] / 'benchmarks'))
from parts.harness import Run, option, run_script, show

BUDGETS_MS = (10.0, 15.0, 20.0, 30.0, 40.0, 60.0)
JUDGED_PATHS = 50
WATCHED_S = 3.0
GOAL_OVER_P99 = 1.3


Frames = list[tuple[ExecutionPath, float]]  # in the order in which they ran: path, and time in ms


def main(run: Run) -> None:
    args = run.args
    weights = find_weights(DEFAULT_WEIGHTS)
    detector = load_detector(weights, args.device)
    use_engine(detector, 'auto', args.device, weights)
    profile, found = measure(run, detector, weights)
    for title, rows in found.items():
        show(
            title,
            rows[0],
            (
                [f'{value:.3f}' if isinstance(value, float) else value for value in row.values()]
                for row in rows
            ),
        )
    for row in found['bounds']:
        if row['load'] == 'alone':
            run.goal('wcet over p99 of paths', row['over_p99_median'], most=GOAL_OVER_P99)
    about = {
        'profile': str(profile.facts),
        'profile_date': profile.date,
        'engine': profile.engine,
        'network_hash': profile.network_hash,
        'load_before': profile.load_before,
        'segments': len(profile.segments),
        'frames': args.frames,
    }
    parts = {part: {**about, 'rows': rows} for part, rows in found.items()}
    run.write(**parts)


def measure(run: Run, detector, weights: Path) -> tuple[LatencyProfile, dict[str, list[dict]]]:
    """Times of this machine, and what the bounds made of them hold here."""
    images = [frame.load_bgr() for frame in render_drive(seconds=4.0).frames]
    frames = 400 if run.quick else run.args.frames
    gaps, watched_ms = watch_interruptions(WATCHED_S)
    profile = measure_profile(
        detector,
        images,
        repeats=6 if run.quick else 40,
        whole_paths=40,
        path_repeats=6,
        time_limit_s=30.0 if run.quick else 240.0,
    )
    later, later_ms = watch_interruptions(WATCHED_S)
    gaps += [(watched_ms + begin, length) for begin, length in later]
    watched_ms += later_ms
    judged = random.Random(0).sample(list(detector.path_space), JUDGED_PATHS)
    alone = run_frames(detector, images, judged, frames // 2, 'alone')
    with busy_programs(read_device_facts(run.args.device).cores):
        beside = run_frames(detector, images, judged, frames // 2, 'beside a program per core')
    table = fit_wcet(
        {key: getattr(times, EXECUTION) for key, times in profile.segments.items()},
        interference_of(gaps, watched_ms, 0.99),
        whole_paths(profile, detector),
    )
    quality = PathQuality.load(weights.with_suffix('.quality.json'), detector.path_space)
    forecasts = PathForecast(profile, detector.path_space), WcetForecast(detector.path_space, table)
    judged_frames = {'alone': alone, 'beside': beside}
    return profile, {
        'bounds': bounds(profile, detector.path_space, forecasts[1], judged_frames),
        'budgets': budgets(detector, images, *forecasts, quality, 5 if run.quick else 150),
    }


def run_frames(
    detector, images: Sequence[np.ndarray], paths: Sequence[ExecutionPath], count: int, words: str
) -> Frames:
    """Frames of paths in turn."""
    rng = random.Random(11)
    turns = [paths[number % len(paths)] for number in range(count)]
    ran = []
    for path in track(turns, words):
        time_ms, _ = time_frame(detector, rng.choice(images), path)
        ran.append((path, time_ms))
    return ran


def bounds(
    profile: LatencyProfile,
    space: PathSpace,
    forecast: WcetForecast,
    judged: dict[str, Frames],
) -> list[dict]:
    """How often frames exceed their bounds, and how far above the 99th percentile of their path these lie."""
    rows = []
    for load, frames in judged.items():
        times_ms = np.array([time_ms for _, time_ms in frames])
        bound_ms = np.array([forecast.forecast_ms(path) for path, _ in frames])
        by_path = defaultdict(list)
        for path, time_ms in frames:
            by_path[path].append(time_ms)
        over = [
            forecast.forecast_ms(path) / float(np.quantile(times, 0.99))
            for path, times in by_path.items()
        ]
        if load != 'alone':
            bound_ms *= _slowdowns(profile, space, frames)
        rows.append(
            {
                'bound': 'wcet, as it is shipped',
                'load': load,
                'frames': len(bound_ms),
                'overruns': float(np.mean(times_ms > bound_ms)),
                'over_p99_median': float(np.median(over)) if load == 'alone' else math.nan,
                'over_latency_median': float(np.median(bound_ms / times_ms)),
            }
        )
    return rows


def _slowdowns(profile: LatencyProfile, space: PathSpace, frames: Frames) -> np.ndarray:
    """Median of the 20 frames before over what was expected of them, at least 1."""
    expected = SegmentForecast(space, {key: times.p50 for key, times in profile.segments.items()})
    ratios = [time_ms / expected.forecast_ms(path) for path, time_ms in frames]
    slowdowns = []
    for at in range(len(ratios)):
        before = ratios[max(0, at - 20) : at] or [1.0]
        slowdowns.append(max(1.0, statistics.median(before)))
    return np.array(slowdowns)


def budgets(
    detector,
    images: Sequence[np.ndarray],
    expected: PathForecast,
    worst: WcetForecast,
    quality: PathQuality,
    count: int,
) -> list[dict]:
    """AP of frames that are planned by each kind of bound."""
    space = detector.path_space
    rng = random.Random(5)
    rows = []
    policies = {
        'calibrated': FrontierPolicy(space, expected, quality),
        'wcet': FrontierPolicy(space, worst, quality),
    }
    calibrator = make_calibrator(NetworkOptions(model=''), expected, None)[0]
    found = defaultdict(list)
    for _ in track(range(count), 'budgets'):
        for budget_ms in BUDGETS_MS:
            for name in rng.sample(list(policies), len(policies)):
                factor = calibrator.factor if name == 'calibrated' else 1.0
                choice = policies[name].plan(budget_ms, factor)
                took_ms = time_frame(detector, rng.choice(images), choice.path)[0]
                if name == 'calibrated':
                    calibrator.observe(expected.forecast_ms(choice.path), took_ms)
                is_late = took_ms > budget_ms
                ap = 0.0 if is_late else quality.quality(choice.path)
                found[budget_ms, name].append((ap, is_late and choice.feasible))
    for (budget_ms, name), values in sorted(found.items()):
        ap, late = np.mean(values, axis=0).tolist()
        rows.append(
            {
                'budget_ms': budget_ms,
                'bounds': name,
                'frames': len(values),
                'ap': ap,
                'late_though_feasible': late,
            }
        )
    return rows


if __name__ == '__main__':
    run_script(
        main,
        {
            '--threads': option(1),
            '--device': option('cpu'),
            '--frames': option(20_000, 'held against the bounds, alone and beside others'),
        },
        quick='400 frames',
    )
