"""Time of one decision, and of all decisions in a frame, for path spaces of 100, 3,000 and 100,000 paths, and for passes.

    python benchmarks/decision_cost.py [--quick]

Spaces, times and qualities are made up; forecast, quality model and policy are the project's own. Every frame is
planned and then decided anew at each of its operators, with a time left that wanders. `hot`: one decision right after
the other; `cold`: before each one the caches are swept by as much memory as a network touches, as in a running node.
Goals: a median under 20 us each for the frontier and 30 us for passes, and all of a frame's under 0.2 % of the
cheapest path's time. Passes are 250 paths of a network of 3,000, each alone and after a first look of two scales,
decided by chances of 400 frames that were seen. `loop`: what a frame takes around the network in `TimedInference`, so
the decisions with all that is noted about them, with a network that at most sweeps the caches. Writes
results/decision_cost.json.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable

import numpy as np
from parts.harness import ROOT, Run, quantiles, run_script, show

from deadline_perception.core.detections import Detections
from deadline_perception.core.device import read_device_facts
from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.core.measurement_plan import distinct_paths
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.decision.pass_policy import PassPolicy
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.decision.policy import Choice, Policy
from deadline_perception.engines.segment_run import SegmentRun
from deadline_perception.extras.faster_rcnn.declaration import multi_path_space
from deadline_perception.networks.passes import passes_space
from deadline_perception.runtime.job import Job, StampReading
from deadline_perception.runtime.loading import make_policy
from deadline_perception.runtime.timed_inference import TimedInference
from deadline_perception.timing.calibration import BoundCalibrator
from deadline_perception.timing.part_bound import PartBound
from deadline_perception.timing.path_bound import PathForecast
from deadline_perception.timing.profile import LatencyProfile
from deadline_perception.timing.quantiles import Quantiles
from deadline_perception.timing.recent_times import RATIOS, RecentTimes
from deadline_perception.timing.time_model import FrameTimes, TimeModel

LIKELY = 0.8  # share of its bound that a path must fit; the node learns it from frames
PROFILE = ROOT / 'models' / 'profiles' / 'street-reference-t1.json'
SPACES = [
    multi_path_space(
        skips_per_stage=skips,
        widths=(1.0, 0.8, 0.6, 0.4, 0.2),
        pyramid_widths=pyramid_widths,
        proposals=proposals,
        heads=heads,
    )
    for skips, pyramid_widths, proposals, heads in (
        ((1, 1), (1.0,), (10, 25, 50, 100, 300), 1),
        ((1, 1, 1), (1.0, 0.75, 0.5), (10, 25, 50, 100, 300), 5),
        ((1, 1, 2, 1), (1.0, 0.8, 0.6, 0.4, 0.2), range(12, 301, 12), 5),
    )
]
FRAMES = 1500  # per policy and space, hot; a third cold
GOAL_US, GOAL_OF_PASSES_US = 20.0, 30.0
GOAL_SHARE = 0.002
DEVIATION = 0.06  # of the logarithm of a frame's time, as on a machine of two cores
KEPT_PATHS = 250  # of a closer look, as many as the shipped network keeps ready
MEASURED_PATHS = 60  # with a known quality; the others' is predicted
SWEPT_BYTES = 16 * 2**20


def made_up_times(space: PathSpace, rng: random.Random) -> PathForecast:
    """A forecast in which every segment takes between 0.2 and 10 ms, more for wider ones."""
    segments = {}
    for name in space.carriers():
        width = min(
            (
                float(part[1:])
                for part in name.partition('@')[2].split('-')
                if part[:1] in ('w', 'f')
            ),
            default=0.3,
        )
        segments[name] = Quantiles.from_samples(
            [rng.uniform(0.2, 1.0) + 9.0 * width * rng.random()] * 5
        )
    return PathForecast(
        LatencyProfile(
            facts=read_device_facts(),
            config_name='made up',
            network_hash='',
            input_size=(384, 640),
            image_size=(384, 640),
            date='',
            load_before=0.0,
            segments=segments,
            paths={},
        ),
        space,
    )


def made_up_quality(space: PathSpace, forecast: PathForecast, rng: random.Random) -> PathQuality:
    """Qualities that rise with the logarithm of the time, give or take."""
    measured = distinct_paths(space, MEASURED_PATHS, rng)
    times_ms = np.log(forecast.table(measured))
    level = (times_ms - times_ms.min()) / (times_ms.max() - times_ms.min())
    return PathQuality(
        {
            path: 0.1 + 0.3 * float(share) + rng.uniform(0, 0.03)
            for path, share in zip(measured, level)
        }
    )


def passes_of(space: PathSpace) -> PathSpace:
    """A first look on either of two paths, and a closer one on any."""
    looks = {'0.50': space.smallest, '1.00': space.largest}
    return passes_space(space, space, looks, '')


def ready_policy(
    space: PathSpace, forecast: PathForecast, quality: PathQuality, rng: random.Random
) -> tuple[Policy, TimeModel | None]:
    """The policy of the product, and what it has seen of frames where it goes by them."""
    kept = None
    if space.result_segments:
        closer = distinct_paths(space, KEPT_PATHS, rng)
        kept = [
            path.replace(coarse=look)
            for path in closer
            for look in path.space.operators[0].settings
        ]
    policy = make_policy('frontier', space, forecast, quality, kept)
    if not isinstance(policy, PassPolicy):
        return policy, None
    integral = BoundCalibrator(0.01, 0.05, math.log(8.0))
    times = TimeModel(space, forecast, PartBound(integral, RecentTimes(0.01)))
    for segment in range(len(space.segments)):
        for _ in range(RATIOS):
            times.part(segment).observe(10.0, 10.0 * math.exp(rng.gauss(0.0, DEVIATION)))
    policy.learn_from(times)
    return policy, times


def time_decisions(
    policy: Policy,
    space: PathSpace,
    longest_ms: float,
    frames: int,
    rng: random.Random,
    sweep: np.ndarray | None,
) -> tuple[list[float], list[float]]:
    """Plans frames and decides them anew at every operator; times in us of decisions, and of all in each frame."""
    decided = [index for index, segment in enumerate(space.segments) if segment.operator]
    each, totals = [], []

    def timed(decide: Callable[[], Choice]) -> Choice:
        if sweep is not None:
            np.add(sweep, 1, out=sweep)
        begun = time.perf_counter_ns()
        choice = decide()
        each.append((time.perf_counter_ns() - begun) / 1000.0)
        return choice

    for _ in range(frames):
        before, factor = len(each), rng.uniform(1.0, 2.0)
        remaining_ms = longest_ms * rng.uniform(0.1, 1.5)
        choice = timed(lambda: policy.plan(remaining_ms, factor, LIKELY))
        for segment in decided:
            if space.applies(segment, choice.path):
                left_ms = (
                    remaining_ms * (1.0 - segment / len(space.segments)) * rng.uniform(0.8, 1.1)
                )
                choice = timed(
                    lambda: policy.redecide(choice.path, segment, left_ms, factor, p90_share=LIKELY)
                )
        totals.append(sum(each[before:]))
    return each, totals


class NoNetwork:
    """A network that finds nothing, and whose segments do nothing but to sweep the caches where memory for it is
    given."""

    result_type = Detections

    def __init__(self, space: PathSpace, sweep: np.ndarray | None) -> None:
        self.path_space, self.sweep = space, sweep

    def start(self, image: np.ndarray, path: ExecutionPath) -> NoRun:
        """Begins a frame."""
        return NoRun(self, path)


class NoRun(SegmentRun):
    """A frame of it."""

    def __init__(self, network: NoNetwork, path: ExecutionPath) -> None:
        super().__init__(network.path_space, path)
        self._sweep = network.sweep

    def compute(self, name: str, key: str) -> None:
        """Sweeps the caches."""
        if self._sweep is not None:
            self._sweep += 1

    def result(self) -> Detections:
        """Nothing."""
        return Detections.none()

    def result_so_far(self) -> Detections:
        """Nothing."""
        return Detections.none()


def time_loop(
    policy: Policy,
    space: PathSpace,
    forecast: PathForecast,
    longest_ms: float,
    frames: int,
    rng: random.Random,
    sweep: np.ndarray | None,
    model: TimeModel | None,
) -> list[float]:
    """Times in us that frames spend in the inference loop outside the network."""
    inference = TimedInference(NoNetwork(space, sweep), policy)
    image, times = np.zeros((4, 4, 3), np.uint8), []
    for _ in range(frames):
        remaining_ms, factor = longest_ms * rng.uniform(0.1, 1.5), rng.uniform(1.0, 2.0)
        if sweep is not None:
            sweep += 1
        job = Job(None, now_ms(), StampReading(0.0, '', 0))
        job.times = FrameTimes(forecast, 1.0, factor, LIKELY) if model is None else model.begin(1.0)
        due_ms = now_ms() + remaining_ms
        inference.begin(image, job, due_ms=due_ms, may_abort=False).until_answer()
        if math.isfinite(job.decision_ms):  # it was not aborted after a first look
            times.append(1000.0 * job.decision_ms)
    return times


def main(run: Run) -> None:
    frames = 60 if run.quick else FRAMES
    measured = LatencyProfile.load(PROFILE)
    cheapest_ms = min(times.p50 for times in measured.paths.values())
    rows, sweep = [], np.zeros(SWEPT_BYTES, np.uint8)
    for space in (*SPACES, passes_of(SPACES[1])):
        rng = random.Random(len(space))
        forecast = made_up_times(space, rng)
        longest_ms = forecast.forecast_ms(space.largest)
        quality = made_up_quality(space, forecast, rng)
        policy, model = ready_policy(space, forecast, quality, rng)
        for caches in ('hot', 'cold'):
            swept, count = (None, frames) if caches == 'hot' else (sweep, max(frames // 3, 1))
            each, totals = time_decisions(policy, space, longest_ms, count, rng, swept)
            loop = time_loop(policy, space, forecast, longest_ms, count, rng, swept, model)
            rows.append(
                {
                    'paths': len(space),
                    'passes': model is not None,
                    'caches': caches,
                    'frame_us': quantiles(totals, 'p50', 'p99'),
                    'loop_us': quantiles(loop, 'p50', 'p99'),
                    'share_of_cheapest_path': statistics.median(totals) / 1000.0 / cheapest_ms,
                    'each_us': statistics.median(each),
                }
            )
    show(
        f'decisions, us; the cheapest path takes {cheapest_ms:.1f} ms on {measured.facts.name}',
        'paths | passes | caches | each p50 | all of a frame p50 | p99 | loop p50 | p99 | of cheapest',
        [
            (
                *(row['paths'], row['passes'], row['caches'], row['each_us']),
                *(*row['frame_us'].values(), *row['loop_us'].values()),
                f'{row["share_of_cheapest_path"]:.2%}',
            )
            for row in rows
        ],
    )
    for row in rows:
        words = f'of {row["paths"]:,} paths{" in passes" * row["passes"]}, {row["caches"]}'
        goal_us = GOAL_OF_PASSES_US if row['passes'] else GOAL_US
        run.goal(f'median us of one decision {words}', row['each_us'], most=goal_us)
        run.goal(
            f"a frame's decisions over the cheapest path {words}",
            row['share_of_cheapest_path'],
            most=GOAL_SHARE,
        )
    run.write(cheapest_path_ms=cheapest_ms, frames=frames, rows=rows)


if __name__ == '__main__':
    run_script(main, quick='60 frames')
