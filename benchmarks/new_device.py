"""Bounds on a device that nobody measured: times of another device, scaled by some paths timed here.

    python benchmarks/new_device.py [--quick] [--weights models/street.safetensors] [--frames 3000]

Needs prepared segments and a profile of this device (`profile --all-paths`), which is what the scaled times are held
against; the times of another device are those that come with the package. For several numbers of timed paths: the time
that timing takes, and then, on frames of 50 random paths in turn, with bounds formed as the node forms them, coverage
and bound over latency in the first 100, 1,000 and all frames. All forecasts meet the same frames. What they cost of AP:
over 200 budgets, the expected AP of the best path that fits, each with the one factor that covers 99 % of all frames.
One thread. Prints a table, writes results/new_device.json.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from parts.harness import Run, option, run_script, show
from rich.progress import track

from deadline_perception.core.device import read_device_facts, use_threads
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.share_folder import share_folder
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.networks.model_reference import load_network
from deadline_perception.runtime.job import Job, StampReading
from deadline_perception.runtime.loading import NetworkOptions, load_quality, make_calibrator
from deadline_perception.timing.contention.probe import PROBE_SHARE, Probe
from deadline_perception.timing.contention.slowdown import SlowdownEstimator
from deadline_perception.timing.path_bound import PathForecast
from deadline_perception.timing.profile import LatencyProfile, default_profile_path, time_frame
from deadline_perception.timing.time_model import FrameTimes, TimeModel
from deadline_perception.timing.transferred_profile import PATHS as TIMED_PATHS
from deadline_perception.timing.transferred_profile import find_reference, transfer
from deadline_perception.tools.profile import restart_with_environment
from deadline_perception.tools.support.file_arguments import DEFAULT_WEIGHTS

TIMED = (2, 4, TIMED_PATHS, 16)
FIRST = (100, 1000)
COVERED, BUDGETS_MS = 0.99, (5.0, 100.0)
PATHS, PATHS_SEED = 50, 7
MONITOR_MS = 1000.0 / 3.0  # as the node contention_monitor by default


@dataclass(frozen=True)
class Frame:
    """One frame: its path, and how long it took, ms."""

    path: ExecutionPath
    latency_ms: float


@dataclass(frozen=True)
class Look:
    """The monitor's look at the machine: a probe's time and its time on the idle machine, NaN without a probe."""

    probe_ms: float
    idle_ms: float


class Recorder:
    """Runs frames of the paths in turn, in random order, and the monitor's probes between them."""

    def __init__(
        self, detector, images: Sequence[np.ndarray], paths: Sequence[ExecutionPath]
    ) -> None:
        self._detector, self._images, self.paths = detector, images, list(paths)
        self._rng = random.Random(PATHS_SEED)
        self._probe = Probe()
        self._next_look_ms = self._next_probe_ms = 0.0
        self._round: list[ExecutionPath] = []
        self.events: list[Frame | Look] = []

    def step(self) -> None:
        """Runs one frame, and before it the monitor when it is due."""
        if now_ms() >= self._next_look_ms:
            self._look()
        if not self._round:
            self._round = self._rng.sample(self.paths, len(self.paths))
        path = self._round.pop()
        self.events.append(
            Frame(path, time_frame(self._detector, self._rng.choice(self._images), path)[0])
        )

    def _look(self) -> None:
        begun_ms = now_ms()
        self._next_look_ms = begun_ms + MONITOR_MS
        probe_ms = math.nan
        if begun_ms >= self._next_probe_ms:
            probe_ms = self._probe.run()
            self._next_probe_ms = begun_ms + (now_ms() - begun_ms) / PROBE_SHARE
        self.events.append(Look(probe_ms, self._probe.idle_ms))


def bounds_over_times(forecast: PathForecast, events: Sequence[Frame | Look]) -> np.ndarray:
    """Bound over time of each frame in turn, as the node forms it: slowdown from probes and frames, factor from
    frames."""
    estimator, slowdown, found = SlowdownEstimator(), 1.0, []
    model = TimeModel(
        forecast.path_space,
        forecast,
        make_calibrator(NetworkOptions(model=''), forecast, None)[0],
    )
    for event in events:
        if isinstance(event, Look):
            if not math.isnan(event.probe_ms):
                estimator.observe_probe(event.probe_ms, event.idle_ms)
            slowdown = estimator.slowdown
            continue
        times = model.begin(slowdown)
        forecast_ms = times.forecast.forecast_ms(event.path)
        bound_ms = times.factor * forecast_ms + times.interruption_ms
        found.append(bound_ms / event.latency_ms)
        estimator.observe_frame(forecast_ms, event.latency_ms)
        model.observe(_job(event, times))
    return np.array(found)


def _job(frame: Frame, times: FrameTimes) -> Job:
    """A frame that kept its path to its end."""
    job = Job(frame, 0.0, StampReading(0.0, '', 0))
    job.times, job.path, job.result = times, frame.path, frame
    job.is_in_time, job.publish_ms = True, 0.0
    job.begun_ms, job.ended_ms, job.network_ms = 0.0, frame.latency_ms, frame.latency_ms
    return job


def main(run: Run) -> None:
    args = run.args
    restart_with_environment(1)
    use_threads(1)
    facts = read_device_facts()
    detector, weights = load_network(str(args.weights), 'cpu')
    space = detector.path_space
    measured = LatencyProfile.load(default_profile_path(detector.config_name, facts))
    reference = find_reference(
        share_folder() / 'models' / 'profiles', detector, facts, detector.engine.identity
    )
    if reference is None:
        raise ValueError('no times of another device come with the package for this network')
    images = [frame.load_bgr() for frame in render_drive(seconds=4.0).frames]
    # A machine of many cores and one of few give other proportions: so the reference is never this device's own.
    profiles, took_ms = {'measured here': measured, 'the reference alone': reference}, {}
    for paths in TIMED:
        begun_ms = now_ms()
        profiles[f'scaled by {paths} paths'] = transfer(reference, detector, paths=paths)
        took_ms[f'scaled by {paths} paths'] = round(now_ms() - begun_ms)
    recorder = Recorder(detector, images, random.Random(PATHS_SEED).sample(list(space), PATHS))
    detector.warm_up(recorder.paths, image_size=images[0].shape[:2])
    for _ in track(range(300 if run.quick else args.frames), 'frames'):
        recorder.step()
    events = recorder.events
    quality = load_quality(detector, PathForecast(measured, space), weights)
    found = {
        name: _judge(PathForecast(profile, space), events)
        | {
            'timing_ms': took_ms.get(name),
            'expected_ap': _expected_ap(PathForecast(profile, space), events, quality),
        }
        for name, profile in profiles.items()
    }
    _print(found)
    shipped = found[f'scaled by {TIMED_PATHS} paths']
    run.goal('coverage of the first 100 frames', shipped['coverage_100'], least=0.985)
    run.goal('bound over latency of the first 100', shipped['tightness_100'], most=1.5)
    run.goal('bound over latency of the last', shipped['tightness_last'], most=1.2)
    run.goal(
        'expected AP below that of measured times, points',
        100.0 * (found['measured here']['expected_ap'] - shipped['expected_ap']),
        most=1.0,
    )
    run.write(
        reference=str(reference.facts),
        reference_date=reference.date,
        engine=detector.engine.identity,
        reference_engine=reference.engine,
        frames=args.frames,
        found=found,
    )


def _judge(forecast: PathForecast, events: list[Frame | Look]) -> dict[str, float]:
    held = bounds_over_times(forecast, events)
    row = {}
    for name, count in (*zip(FIRST, FIRST), ('all', len(held))):
        row |= {
            f'coverage_{name}': float(np.mean(held[:count] >= 1.0)),
            f'tightness_{name}': float(np.median(held[:count])),
        }
    return row | {'tightness_last': float(np.median(held[-FIRST[0] :]))}


def _expected_ap(forecast: PathForecast, events: list[Frame | Look], quality: PathQuality) -> float:
    """Of the best path that fits, in the mean over budgets of 5 to 100 ms."""
    frames = [event for event in events if isinstance(event, Frame)]
    factor = np.quantile(
        [frame.latency_ms / forecast.forecast_ms(frame.path) for frame in frames], COVERED
    )
    policy = FrontierPolicy(forecast.path_space, forecast, quality)
    plans = [
        policy.plan(float(budget_ms), float(factor)) for budget_ms in np.geomspace(*BUDGETS_MS, 200)
    ]
    return float(np.mean([plan.quality if plan.feasible else 0.0 for plan in plans]))


def _print(found: dict[str, dict]) -> None:
    rows = []
    for name, row in found.items():
        coverage = ', '.join(f'{100 * row[f"coverage_{count}"]:.1f}' for count in (*FIRST, 'all'))
        tightness = ', '.join(
            f'{row[f"tightness_{count}"]:.2f}' for count in (*FIRST, 'all', 'last')
        )
        seconds = None if row['timing_ms'] is None else row['timing_ms'] / 1000.0
        rows.append((name, seconds, coverage, tightness, 100.0 * row['expected_ap']))
    show(
        'bounds of paths on a device that was not measured',
        'times | timing, s | coverage of 100, 1,000, all, % | bound over latency, the same, and the last 100 | expected AP',
        rows,
    )


if __name__ == '__main__':
    run_script(
        main,
        {
            '--weights': option(DEFAULT_WEIGHTS),
            '--frames': option(3000),
        },
        quick='300 frames',
    )
