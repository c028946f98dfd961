"""Bounds of 50 random paths against the times that they took, whole and from mid-way.

    python benchmarks/path_bounds.py [--frames 20000] [--slowest-ms 25] [--weights FILE]

Runs frames with the shipped engine and this device's profile, on paths that are expected to take at most --slowest-ms,
and bounds them as the detector node does: forecast times slowdown times calibration factor, slowdown renewed three
times a second. `rest` is what was left as an operator was decided, by a factor of its segment and by how slow the frame
has been so far. 20,000 frames take 5 to 8 minutes; writes results/path_bounds.json.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from parts.harness import Run, option, run_script
from rich.progress import track

from deadline_perception.core.device import read_device_facts, use_threads
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.share_folder import share_folder
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.networks.model_reference import load_network
from deadline_perception.runtime.job import Decision, Job, StampReading
from deadline_perception.runtime.loading import NetworkOptions, make_calibrator
from deadline_perception.timing.contention.probe import PROBE_SHARE, Probe
from deadline_perception.timing.contention.slowdown import SlowdownEstimator
from deadline_perception.timing.path_bound import PathForecast
from deadline_perception.timing.profile import LatencyProfile
from deadline_perception.timing.time_model import FrameTimes, TimeModel
from deadline_perception.tools.profile import restart_with_environment
from deadline_perception.tools.support.ensure_profile import ensure_profile
from deadline_perception.tools.support.file_arguments import DEFAULT_WEIGHTS

PATHS, PATHS_SEED = 50, 7
GOAL_COVERAGE_OFF, GOAL_TIGHTNESS, GOAL_REST_OFF = 0.002, 1.2, 0.01
MONITOR_MS = 1000.0 / 3.0  # as the node contention_monitor by default


@dataclass(frozen=True)
class Frame:
    """One frame: its path, how long it took, and what was left of it from a random segment on, of those whose operators
    the node decides while the frame runs; in ms.

    Attributes:
        rest_ms: time from there on.
        spent_ms: time in the network before.
    """

    path: ExecutionPath
    latency_ms: float
    segment: int
    rest_ms: float
    spent_ms: float = 0.0


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
        begun_ms = now_ms()
        run = self._detector.start(self._rng.choice(self._images), path)
        begins_ms = []
        while not run.finished:
            begins_ms.append(now_ms())
            run.run_segment()
        run.result()
        ended_ms = now_ms()
        space = self._detector.path_space
        segment = self._rng.choice(
            [
                number
                for number in range(1, len(begins_ms))
                if space.segments[number].operator and space.applies(number, path)
            ]
        )
        self.events.append(
            Frame(
                path,
                ended_ms - begun_ms,
                segment,
                ended_ms - begins_ms[segment],
                begins_ms[segment] - begins_ms[0],
            )
        )

    def _look(self) -> None:
        begun_ms = now_ms()
        self._next_look_ms = begun_ms + MONITOR_MS
        probe_ms = math.nan
        if begun_ms >= self._next_probe_ms:
            probe_ms = self._probe.run()
            self._next_probe_ms = begun_ms + (now_ms() - begun_ms) / PROBE_SHARE
        self.events.append(Look(probe_ms, self._probe.idle_ms))


class Bounds:
    """The node's way to its bounds: slowdown from probes and frames, factor from frames; and the same from mid-way."""

    def __init__(self, forecast: PathForecast) -> None:
        self._forecast = forecast
        self._estimator = SlowdownEstimator()
        self._slowdown = 1.0
        bound = make_calibrator(NetworkOptions(model=''), forecast, None)[0]
        self.calibrator = bound.integral
        self._times = TimeModel(forecast.path_space, forecast, bound)

    def follow(self, events: Sequence[Frame | Look]) -> np.ndarray:
        """Goes through events; for each frame the bound over the time it took, and that of what was left: `[N, 2]`."""
        rows = []
        for event in events:
            if isinstance(event, Look):
                if not math.isnan(event.probe_ms):
                    self._estimator.observe_probe(event.probe_ms, event.idle_ms)
                self._slowdown = self._estimator.slowdown
                continue
            times = self._times.begin(self._slowdown)
            forecast_ms = times.forecast.forecast_ms(event.path)
            rest_ms = times.forecast.forecast_ms(event.path, event.segment)
            bound_ms = times.factor * forecast_ms + times.interruption_ms
            of_rest_ms = times.bound_ms(event.path, event.segment, event.spent_ms)
            rows.append((bound_ms / event.latency_ms, of_rest_ms / event.rest_ms))
            self._estimator.observe_frame(forecast_ms, event.latency_ms)
            self._times.observe(_job(event, times, rest_ms))
        return np.array(rows)


def _job(frame: Frame, times: FrameTimes, rest_ms: float) -> Job:
    """A frame that was decided once, at its segment, and kept its path."""
    job = Job(frame, 0.0, StampReading(0.0, '', 0))
    job.times, job.path, job.result, job.is_in_time, job.publish_ms = (
        times,
        frame.path,
        frame,
        True,
        0.0,
    )
    job.begun_ms, job.ended_ms, job.network_ms = 0.0, frame.latency_ms, frame.latency_ms
    ran_ms = times.forecast.forecast_ms(frame.path) - rest_ms
    progress, _, _ = times.bound_from(frame.segment, ran_ms, frame.spent_ms)
    job.decisions.append(
        Decision('', frame.segment, frame.spent_ms, progress, False, 0.0, rest_ms, 0.0, 0.0)
    )
    return job


def measure_frames(weights: Path, frames: int, slowest_ms: float) -> dict:
    """Runs so many frames and bounds them one after the other; see the module."""
    use_threads(1)
    profile = LatencyProfile.load(
        ensure_profile(weights, 'cpu', 1, share_folder() / 'models' / 'profiles').file
    )
    detector, facts = load_network(str(weights), 'cpu')[0], read_device_facts()
    forecast, rng = PathForecast(profile, detector.path_space), random.Random(PATHS_SEED)
    cheap = [path for path in detector.path_space if forecast.forecast_ms(path) <= slowest_ms]
    if len(cheap) < PATHS:
        raise ValueError(
            f'slowest_ms is {slowest_ms}, within which {len(cheap)} paths are expected to end, expected '
            f'at least {PATHS}'
        )
    images = [frame.load_bgr() for frame in render_drive(seconds=4.0).frames]
    recorder = Recorder(detector, images, rng.sample(cheap, PATHS))
    detector.warm_up(recorder.paths, image_size=images[0].shape[:2])
    for _ in track(range(frames), 'frames'):
        recorder.step()
    return {
        'facts': asdict(facts),
        'engine': detector.engine.identity,
        'slowest_ms': slowest_ms,
        'alpha': NetworkOptions(model='').target_miss_probability,
        'summary': summary(Bounds(forecast).follow(recorder.events)),
    }


def summary(rows: np.ndarray) -> dict:
    """Coverage and tightness of what `Bounds.follow` gave."""
    return {
        'frames': len(rows),
        **{
            name: {
                'coverage': float(np.mean(held >= 1.0)),
                'median_tightness': float(np.median(held)),
            }
            for name, held in zip(('whole', 'rest'), rows.T)
        },
    }


def main(run: Run) -> None:
    frames = 1000 if run.quick else run.args.frames
    restart_with_environment(1)
    found = measure_frames(run.args.weights, frames, run.args.slowest_ms)
    parts, target = found['summary'], 1.0 - found['alpha']
    run.goal(
        'whole frames: coverage off its target by',
        abs(parts['whole']['coverage'] - target),
        most=GOAL_COVERAGE_OFF,
    )
    run.goal(
        'whole frames: bound over latency', parts['whole']['median_tightness'], most=GOAL_TIGHTNESS
    )
    run.goal(
        'rest: coverage off its target by',
        abs(parts['rest']['coverage'] - target),
        most=GOAL_REST_OFF,
    )
    run.write(**found)


if __name__ == '__main__':
    run_script(
        main,
        {
            '--weights': option(DEFAULT_WEIGHTS),
            '--frames': option(20_000, 'at least 1000', least=1000),
            '--slowest-ms': option(25.0, 'of the paths'),
        },
        quick='1,000 frames',
    )
