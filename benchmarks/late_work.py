"""What coasted answers are worth where bounds hardly fit: the detector's own pipeline and a network that only waits.

    python benchmarks/late_work.py [--quick] [--cheapest-ms 72] [--seconds 30]

Images of a rendered drive come every 100 ms, as from a middleware that keeps the newest; pipeline, watchdog, tracks and
policy are the detector's. In place of computing, the network sleeps what the shipped profile forecasts, times a pace at
which its cheapest path takes `--cheapest-ms`, and 5 % of deviation; what it finds is made of the known objects as in
tracks.py, the more of them missing the lower the path's quality, and the same for an image and path in every row. For
each budget, with a network that is given up at the deadline and with one that goes on, as the node's does: outcomes,
age of the evidence of coasted answers, share of the time that the network was busy, and AP by image, every one scored
with its own answer, else with the last one before.
Prints a table and writes results/late_work.json; with --quick below out/benchmarks.
"""
from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from tracks import MISSING, ROOT, SIZE, detections_of

from deadline_perception.datasets.records import Frame
from deadline_perception.deadline_detector import DeadlineDetector
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.detector.checkpoint import load_detector
from deadline_perception.detector.detections import Detections
from deadline_perception.evaluation.average_precision import average_precision
from deadline_perception.execution_path import ExecutionPath, PathSpace
from deadline_perception.latency.calibration import BoundCalibrator
from deadline_perception.latency.path_bound import PathForecast
from deadline_perception.latency.profile import LatencyProfile
from deadline_perception.latency.reserve import Reserve
from deadline_perception.latency.stopwatch import now_ms
from deadline_perception.latency.time_model import TimeModel
from deadline_perception.rendering.drive import CLASS_NAMES, render_drive
from deadline_perception.runtime.frame_client import FrameClient, FrameRules
from deadline_perception.runtime.job import Conditions, Job, JobRecord
from deadline_perception.runtime.image_age import StampReading
from deadline_perception.runtime.pipeline import FramePipeline
from deadline_perception.runtime.task import Task
from deadline_perception.runtime.tracks import Outcome
from deadline_perception.tools.command_line import exit_status

PERIOD_MS, AGE_MS, DEVIATION = 100.0, 2.0, 0.05
BUDGETS_MS = (50.0, 80.0, 120.0)
IMAGE = np.zeros((*SIZE, 3), np.uint8)
WARM_UP = 10  # images that are not scored
GRACES_MS = {'given up': 0.0, 'goes on': 1000.0}  # time past the deadline; the latter is the node's


class WaitingNetwork:
    """Takes the time of a real one and finds what is there; `frame` is the image that it will be started on."""

    def __init__(self, path_space: PathSpace, forecast: PathForecast, quality: PathQuality, pace: float) -> None:
        self.path_space, self.class_names = path_space, CLASS_NAMES
        self.forecast, self.quality, self.pace = forecast, quality, pace
        self.best, self.rng = quality.quality(path_space.largest), np.random.default_rng(0)
        self.frame: Frame | None = None
        self.busy_ms = 0.0

    def start(self, image: np.ndarray, path: ExecutionPath) -> WaitingRun:
        """A run on `frame`."""
        return WaitingRun(self, self.frame, path)


class WaitingRun:
    """A run of it."""

    def __init__(self, network: WaitingNetwork, frame: Frame, path: ExecutionPath) -> None:
        self.network, self.frame, self.path, self.segment = network, frame, path, 0

    @property
    def finished(self) -> bool:
        return self.segment == len(self.network.path_space.segments)

    def redirect(self, path: ExecutionPath) -> None:
        self.path = path

    def run_segment(self) -> float:
        network, begun_ms = self.network, now_ms()
        took_ms = network.forecast.segment_ms(self.segment, self.path) if network.path_space.key(
            self.segment, self.path) else 0.0
        time.sleep(took_ms * network.pace * network.rng.lognormal(0.0, DEVIATION) / 1000.0)
        self.segment += 1
        network.busy_ms += now_ms() - begun_ms
        return now_ms() - begun_ms

    def result(self) -> Detections:
        network = self.network
        missing = 1.0 - (1.0 - MISSING) * network.quality.quality(self.path) / network.best
        return detections_of(self.frame.ground_truth, np.random.default_rng(self.frame.stamp_ns), missing)


class Camera(FrameClient):
    """Sends frames as the middleware does, which keeps the newest image until the pipeline wants one, and hears what
    becomes of them."""

    def __init__(self, network: WaitingNetwork, budget_ms: float) -> None:
        self._network, self._budget_ms = network, budget_ms
        self._lock, self._newest, self._left_out = threading.Lock(), None, 0
        self.pipeline: FramePipeline | None = None
        self.answers: dict[int, Detections] = {}
        self.records: list[JobRecord] = []
        self.failures: list[Exception] = []
        self.on_record, self.on_failure, self.on_ready = self.records.append, self.failures.append, self.deliver

    def send(self, frame: Frame) -> None:
        """An image comes."""
        with self._lock:
            self._left_out += self._newest is not None
            self._newest = (frame, now_ms())
        self.deliver()

    def deliver(self) -> None:
        """Hands it over if it is wanted."""
        with self._lock:
            if self._newest is None or not self.pipeline.wants_image:
                return
            (frame, came_ms), left_out, self._newest, self._left_out = self._newest, self._left_out, None, 0
        self.pipeline.arrive(Job(frame, came_ms, StampReading(AGE_MS, '', frame.stamp_ns + 1), left_out))

    def conditions(self, job: Job) -> Conditions:
        """See `FrameClient`."""
        return Conditions(self._budget_ms, 1.0, '')

    def convert(self, job: Job) -> np.ndarray:
        """See `FrameClient`: the network knows the objects of a frame."""
        self._network.frame = job.message
        return IMAGE

    def publish(self, job: Job, result: Detections) -> None:
        """See `FrameClient`."""
        self.answers[job.message.stamp_ns] = result


def run(frames: Sequence[Frame], network: WaitingNetwork, budget_ms: float, late: str) -> dict:
    """All figures of one budget, with what becomes of a late frame, of `GRACES_MS`."""
    forecast = Paced(network.forecast, network.pace)
    policy = FrontierPolicy(network.path_space, forecast, network.quality)
    policy.prepare()
    times = TimeModel(network.path_space, forecast, BoundCalibrator(0.01, 0.05, math.log(8), math.log(1.15)),
                      publishing=Reserve(2.0, 15.0, quantile=0.95))
    task = Task(network, policy, times)
    camera = Camera(network, budget_ms)
    with DeadlineDetector(task) as detector:
        camera.pipeline = detector.open(camera, FrameRules(late_grace_ms=GRACES_MS[late]))
        network.busy_ms, begun_ms = 0.0, now_ms()
        for number, frame in enumerate(frames):
            time.sleep(max(0.0, begun_ms + number * PERIOD_MS - now_ms()) / 1000.0)
            camera.send(frame)
        passed_ms = now_ms() - begun_ms
        time.sleep(0.5)
    if camera.failures:
        raise camera.failures[0]
    answers, records = camera.answers, camera.records
    outputs, last = [], Detections.none()
    for frame in frames:
        last = answers.get(frame.stamp_ns, last)
        outputs.append(last)
    found = average_precision(outputs[WARM_UP:], [frame.ground_truth for frame in frames[WARM_UP:]], CLASS_NAMES)
    ages_ms = [record.evidence_age_ms for record in records
               if record.outcome is Outcome.COASTED and not math.isnan(record.evidence_age_ms)]
    return {'budget_ms': budget_ms, 'late': late, 'outcomes': dict(Counter(record.outcome.name for record in records)),
            'met': sum(record.deadline_met for record in records) / len(records),
            'evidence_age_ms': statistics.median(ages_ms) if ages_ms else None,
            'busy': network.busy_ms / passed_ms, 'ap': 100.0 * found.ap, 'ap50': 100.0 * found.ap50}


class Paced:
    """A forecast of a device that many times as slow."""

    def __init__(self, forecast: PathForecast, pace: float) -> None:
        self._forecast, self._pace = forecast, pace

    def forecast_ms(self, path: ExecutionPath, segment: int = 0) -> float:
        """See `PathForecast`."""
        return self._forecast.forecast_ms(path, segment) * self._pace

    def table(self, paths: Sequence[ExecutionPath], segment: int = 0) -> np.ndarray:
        """See `PathForecast`."""
        return self._forecast.table(paths, segment) * self._pace


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--cheapest-ms', type=float, default=72.0, help='time of the cheapest path')
    parser.add_argument('--seconds', type=float, default=30.0, help='of the drive, for each budget')
    parser.add_argument('--weights', type=Path, default=ROOT / 'models' / 'compact.safetensors')
    parser.add_argument('--profile', type=Path,
                        default=ROOT / 'benchmarks' / 'results' / 'latency_profile_compact_amd-epyc_1_thread.json')
    parser.add_argument('--quick', action='store_true', help='4 s for each budget')
    args = parser.parse_args()
    space = load_detector(args.weights, 'cpu').path_space
    forecast = PathForecast(LatencyProfile.load(args.profile), space)
    network = WaitingNetwork(space, forecast, PathQuality.load(args.weights.with_suffix('.quality.json'), space),
                             args.cheapest_ms / float(forecast.table(list(space)).min()))
    frames = render_drive(seconds=4.0 if args.quick else args.seconds, rate_hz=1000.0 / PERIOD_MS, seed=1).frames
    rows = [run(frames, network, budget_ms, late) for budget_ms in BUDGETS_MS for late in GRACES_MS]
    table = Table('budget', 'a late frame', 'outcomes', 'answers in time', 'age of evidence', 'network busy', 'AP',
                  'AP50')
    for row in rows:
        age = '-' if row['evidence_age_ms'] is None else f'{row["evidence_age_ms"]:.0f} ms'
        outcomes = ', '.join(f'{count} {name}' for name, count in row['outcomes'].items())
        table.add_row(f'{row["budget_ms"]:.0f} ms', row['late'], outcomes, f'{row["met"]:.1%}', age,
                      f'{row["busy"]:.0%}', f'{row["ap"]:.1f}', f'{row["ap50"]:.1f}')
    Console(width=120).print(table)
    folder = ROOT / 'out' / 'benchmarks' if args.quick else ROOT / 'benchmarks' / 'results'
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'late_work.json').write_text(json.dumps({
        'date': date.today().isoformat(), 'cheapest_ms': args.cheapest_ms, 'pace': network.pace,
        'seconds': args.seconds, 'period_ms': PERIOD_MS,
        'rows': rows}) + '\n')
    print(f'wrote {folder.relative_to(ROOT) / "late_work.json"}')


if __name__ == '__main__':
    sys.exit(exit_status(Path(__file__).name, main))
