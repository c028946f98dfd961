"""A drive at varying speed under several policies: misses, latency and average precision, alone and beside a co-runner.

    python benchmarks/deadlines.py [--quick] [--data SOURCE] [--profile FILE] [--minutes 5] [--long-minutes 2.4]
                                   [--budgets-ms LEAST MOST]

The multi-path paper's figures 8 and 9, in two parts under each load: alone, beside the co-runners, and beside them
without the priority that the node asks the kernel for (parameter `priority`), which every policy has in the first two
(the watchdogs stay as they are). Interleaved: for every frame each policy runs the network for itself, in an order
drawn anew, with budget, bounds, calibration and slowdown composed by the detector node's own pipeline, which needs no
ROS; a pause as long as the frame follows, since the share of real-time threads is for a node that waits for images.
Long: the frontier alone, every second image with recourse and the others without, captured ten times a second, the
drive over and over; an image that waits is replaced by a newer one, as in the node. Only the long part has enough
frames to show a miss ratio of 1 %.

The median clairvoyant runs last, with the median slowdown that the others met in the same round: not that of its own
run. It keeps no time back for publishing, changes plan for any gain, and its detections count even when it was late.
The thresholds decide no width: they run at full width as published, and, as the oblivious ones do, at the widths of the
longest path among those whose cheapest path's bound fits the smallest budget. The policies of the papers run every
frame to its end, as theirs do; those with bounds may give it up, as the node does. A missed frame scores the last output
delivered in time.

Budgets follow the speed as in the node, but over a range of the machine's own, so that there is something to decide on
any: from LEAST_FACTOR times what the cheapest path's bound and the node's reserve take to FULL_FACTOR times the full
path's median, both measured at the begin of the run; --budgets-ms gives the range. With less than twice the bound, the
reserve of 2 ms alone decides on a machine whose cheapest path takes 4.

The network runs as it ships, by prepared segments where they are. Two rows do as others do: `fixed best` is
one path always, never aborted, as a plain detection node runs it, chosen with hindsight of the drive's budgets; `static
p99 table` takes the best of some paths by their 99th percentiles, measured on the idle machine just before
(static_table.py).

The frontier begins what is likely to fit where its later operators can still bring the frame home; one row, `no
recourse`, only what is bound to fit.

Misses are counted on the frames that the frontier's own bound called feasible.
The slowdown is learnt as in the monitor node, and of frames that were cut also by the least that they would have taken,
where the node knows only what they had taken.
The co-runner is as many programs as there are cores, whose duty cycle changes every 0.5 to 3 s of the drive: in the
interleaved part, where a frame takes as long as all policies together, so many times more slowly.
Writes results/deadlines.json.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import yaml
from parts.beside_programs import beside_programs
from parts.deadline_scores import (
    CAUSAL,
    FIXED_BEST,
    NO_RECOURSE,
    ORACLE,
    STATIC_TABLE,
    WITH_BOUNDS,
    Run,
    accuracy,
    delivered,
    judge,
    show_load,
    timing_figures,
)
from parts.harness import ROOT, run_script
from parts.harness import Run as BenchmarkRun
from parts.static_table import StaticTable, best_fixed, measure_p99_ms

from deadline_perception.core.device import DEFAULT_THREADS, read_device_facts, use_threads
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.measurement_plan import covering_paths
from deadline_perception.core.records import Frame
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.deadline_detector import DeadlineDetector
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.decision.policy import Choice, Policy, Quality
from deadline_perception.decision.speed_budget import Budget, TableBudget
from deadline_perception.extras.data.class_names import with_class_names
from deadline_perception.extras.data.source import open_source
from deadline_perception.extras.report.scenario import with_speed_in_every_frame
from deadline_perception.networks.model_reference import load_network
from deadline_perception.runtime.executor import Executor
from deadline_perception.runtime.job import JobRecord, LatePolicy, Outcome
from deadline_perception.runtime.loading import NetworkOptions, make_calibrator, make_policy
from deadline_perception.runtime.pipeline import FrameRules
from deadline_perception.runtime.task import Task
from deadline_perception.system.priority import Role, ThreadPriority
from deadline_perception.timing.contention.probe import PROBE_ROUNDS, PROBE_SHARE, Probe
from deadline_perception.timing.contention.slowdown import SlowdownEstimator
from deadline_perception.timing.path_bound import PathForecast
from deadline_perception.timing.profile import LatencyProfile, ProfileMismatch, measure_profile
from deadline_perception.timing.time_model import TimeModel, TimeParts
from deadline_perception.tools.profile import restart_with_environment
from deadline_perception.tools.support.file_arguments import DEFAULT_WEIGHTS

sys.path.append(str(Path(__file__).resolve().parents[1] / 'research' / 'policies'))
from baselines import FixedPath, GivenFactor, Reactive, spread_evenly
from expected_utility import ExpectedUtilityPolicy
from slowdown_belief import SlowdownBelief
from thresholds import ThresholdPolicy, largest_that_fits

LEAST_FACTOR = 2.0
RESERVE_MS = 1.0  # least that the time model keeps for publishing
FULL_FACTOR, FULL_FRAMES = (
    1.5,
    20,
)  # the largest budget over the full path's median of so many frames
MONITOR_RATE_HZ = 3.0  # of the contention monitor
WARM_UP = 10  # first frames run before, under each load, uncounted
LONG_PERIOD_MS = 100.0  # of the long part: that of the demo's camera
TABLE_PATHS, TABLE_FRAMES, QUICK_TABLE_FRAMES = (
    12,
    100,
    5,
)  # of the 99th percentiles measured beforehand
# Each co-runner works for a share of every 20 ms.
CO_RUNNER = """
import random, sys, time
import numpy as np
rng, memory = random.Random(int(sys.argv[1])), np.ones(1 << 20, np.float32)
while True:
    share, until = rng.choice((0.0, 0.3, 0.6, 1.0)), time.monotonic() + float(sys.argv[2]) * rng.uniform(0.5, 3.0)
    while time.monotonic() < until:
        rest = time.monotonic() + 0.02 * share
        while time.monotonic() < rest:
            np.sqrt(memory, out=memory)
        time.sleep(0.02 * (1.0 - share))
"""


def parameters(node: str) -> dict:
    """Of a node, as it ships."""
    return yaml.safe_load((ROOT / 'config' / f'{node}.yaml').read_text())[f'/**/{node}'][
        'ros__parameters'
    ]


class Contender:
    """One policy with all that the node gives it, and the monitor's slowdown; all run on the thread of one executor."""

    def __init__(
        self,
        executor: Executor,
        network,
        policy: Policy,
        forecast: PathForecast,
        late_policy: LatePolicy,
        keeps_time: bool = True,
    ) -> None:
        self._forecast, self._executor = forecast, executor
        self._estimator, self._ended_late = SlowdownEstimator(), False
        calibrator = make_calibrator(NetworkOptions(model=''), forecast, None)[0]
        rules = FrameRules(late_policy=late_policy, spare_next_image=policy.name == 'frontier')
        self._times = TimeModel(
            network.path_space, forecast, calibrator, parts=TimeParts(reserve=keeps_time)
        )
        self.detector = DeadlineDetector(
            Task(network, policy, self._times), rules=rules, executor=executor
        )
        self._stream = self.detector.stream(on_late_record=self._hear_late)

    @property
    def integral(self) -> float:
        """Factor on its bounds that late frames have brought."""
        return self._times.calibrator.factor

    def hear_probe(self, probe_ms: float, idle_ms: float) -> None:
        """Takes in the monitor's probe."""
        self._estimator.observe_probe(probe_ms, idle_ms)

    def _hear_late(self, record: JobRecord) -> None:
        """Takes in a frame that ended after it had been answered; it counts once."""
        self._estimator.observe_frame(record.forecast_ms, record.network_ms)
        self._ended_late = True

    def run(
        self,
        image: np.ndarray,
        captured_ms: float,
        stamp_ns: int,
        budget_ms: float,
        slowdown: float | None = None,
        left_out: int = 0,
    ) -> Run:
        """Takes one frame, before which so many were left out, to its publication; the slowdown is the monitor's unless
        it is given."""
        self._stream.slowdown = slowdown or self._estimator.slowdown
        self._ended_late = False
        answer = self._stream.detect(
            image,
            budget_ms,
            stamp_ns=stamp_ns,
            age_ms=max(0.0, now_ms() - captured_ms),
            dropped=left_out,
        )
        self._executor.wait_until_idle()  # the network may go on with an image that was answered in its place
        if self._stream.failures:
            raise RuntimeError(f'{self._stream.failures} frames failed, expected none; see above')
        record, found = answer.record, answer.result
        if record.path is None:
            return Run(record, None, None)
        idle_ms = record.forecast_ms
        if record.outcome is Outcome.COASTED:
            begun = (
                0 if record.reason else 1
            )  # without a reason the segment was running, and took its part of the time
            least_ms = record.network_ms + self._forecast.forecast_ms(
                record.path, record.segment + begun
            )
            if not self._ended_late:
                self._estimator.observe_unfinished(idle_ms, least_ms)
            return Run(record, None, None)
        self._estimator.observe_frame(idle_ms, record.network_ms)
        return Run(record, found, record.network_ms / idle_ms)


@dataclass(frozen=True)
class BudgetRange:
    """The node's budgets of a drive's speeds, moved evenly to a range of another machine.

    Attributes:
        table: the node's.
        least_ms, most_ms: the range.
        table_least_ms, table_most_ms: the drive's, by the table; budgets beyond move alike.
    """

    table: TableBudget
    least_ms: float
    most_ms: float
    table_least_ms: float
    table_most_ms: float

    def budget_ms(self, speed_mps: float | None) -> Budget:
        """As `TableBudget.budget_ms`."""
        given = self.table.budget_ms(speed_mps)
        width_ms = max(self.table_most_ms - self.table_least_ms, 1e-9)
        share = (given.budget_ms - self.table_least_ms) / width_ms
        return replace(given, budget_ms=self.least_ms + share * (self.most_ms - self.least_ms))


def make_budgets(
    network,
    forecast: PathForecast,
    images: list[np.ndarray],
    speeds_mps: list[float],
    given_ms: tuple[float, float] | None,
) -> tuple[BudgetRange, dict]:
    """Budgets of the drive over the given range or this machine's own, and what is said about them."""
    values, space, taken_ms = parameters('time_budget'), network.path_space, []
    table = TableBudget(
        values['table_speeds_mps'],
        values['table_budgets_ms'],
        values['min_budget_ms'],
        values['max_budget_ms'],
    )
    for number in range(FULL_FRAMES):
        begun_ms = now_ms()
        network.detect(images[number % len(images)], space.largest)
        taken_ms.append(now_ms() - begun_ms)
    full_ms = statistics.median(taken_ms)
    factor = make_calibrator(NetworkOptions(model=''), forecast, None)[0].factor
    cheapest_ms = float(forecast.table(list(space)).min()) * factor
    least_ms, most_ms = given_ms or (
        LEAST_FACTOR * (cheapest_ms + RESERVE_MS),
        FULL_FACTOR * full_ms,
    )
    by_table_ms = [table.budget_ms(speed_mps).budget_ms for speed_mps in speeds_mps]
    told = {
        'least_ms': least_ms,
        'most_ms': most_ms,
        'full_path_median_ms': full_ms,
        'cheapest_bound_ms': cheapest_ms,
        'full_factor': most_ms / full_ms,
        'given': given_ms is not None,
        'table_ms': [min(by_table_ms), max(by_table_ms)],
    }
    print(
        f'budgets {least_ms:.1f} to {most_ms:.1f} ms, at most {most_ms / full_ms:.2f} times the full path '
        f'({full_ms:.1f} ms); the cheapest bound is {cheapest_ms:.1f} ms, the table of the node says '
        f'{min(by_table_ms):.0f} to {max(by_table_ms):.0f} ms'
    )
    return BudgetRange(table, least_ms, most_ms, min(by_table_ms), max(by_table_ms)), told


def pause(length_ms: float = 0.0) -> None:
    """Collects garbage, as the node does after each frame, and waits."""
    gc.collect(1)
    time.sleep(max(length_ms, 0.0) / 1000.0)


class Monitor:
    """The contention monitor's probe, as often as that node runs it by default."""

    def __init__(self) -> None:
        self._probe = Probe(rounds=PROBE_ROUNDS)
        self._next_ms = 0.0

    def look(self) -> tuple[float, float] | None:
        """Times of a probe now and on the idle machine, in ms; None when it is not due."""
        begun_ms = now_ms()
        if begun_ms < self._next_ms:
            return None
        probe_ms = self._probe.run()
        self._next_ms = begun_ms + max(probe_ms / PROBE_SHARE, 1000.0 / MONITOR_RATE_HZ)
        return probe_ms, self._probe.idle_ms


class WithoutRecourse:
    """Decides as another policy does, but only for paths whose own bound fits."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self.observe = policy, policy.observe
        self.name, self.keeps_bounds = policy.name, policy.keeps_bounds

    def plan(self, remaining_ms: float, factor: float, p90_share: float = 1.0) -> Choice:
        """What the other policy plans; see `Policy.plan`."""
        return self._policy.plan(remaining_ms, factor)

    def redecide(
        self,
        path: ExecutionPath,
        segment: int,
        remaining_ms: float,
        factor: float,
        elapsed_ms: float = 0.0,
        p90_share: float = 1.0,
    ) -> Choice:
        """What the other policy decides; see `Policy.redecide`."""
        return self._policy.redecide(path, segment, remaining_ms, factor, elapsed_ms)


def prepared(policy: FrontierPolicy) -> FrontierPolicy:
    """The same policy, ready to decide."""
    policy.prepare()
    return policy


def make_contenders(
    executor: Executor,
    network,
    forecast: PathForecast,
    quality: Quality,
    budgets_ms: list[float],
    p99_ms: dict[ExecutionPath, float],
) -> tuple[dict[str, Contender], GivenFactor]:
    """All policies, and the clairvoyant's, to be told each frame's slowdown.

    Args:
        executor: all of them run on its thread.
        network: all of them run it.
        forecast: of its paths.
        quality: of its paths.
        budgets_ms: of the drive's frames.
        p99_ms: 99th percentiles of some paths.
    """
    space = network.path_space
    factor = make_calibrator(NetworkOptions(model=''), forecast, None)[0].factor
    start = largest_that_fits(space, forecast, min(budgets_ms) / factor)
    best = best_fixed(p99_ms, quality, budgets_ms)
    print(f'thresholds from {start}, and from {space.largest}; best fixed path {best}')
    of_space = space, forecast, quality
    make: dict[str, Callable[[], Policy]] = {
        'frontier': lambda: make_policy('frontier', *of_space),
        NO_RECOURSE: lambda: WithoutRecourse(make_policy('frontier', *of_space)),
        'expected_utility': lambda: prepared(
            ExpectedUtilityPolicy(*of_space, miss_cost=1.0, belief=SlowdownBelief())
        ),
        'thresholds': lambda: ThresholdPolicy(*of_space, start=start),
        'thresholds full width': lambda: ThresholdPolicy(*of_space),
        'oblivious': lambda: GivenFactor(ThresholdPolicy(*of_space, start=start), 'oblivious'),
        'reactive_1': lambda: Reactive(*of_space, to_the_lowest=False),
        'reactive_n': lambda: Reactive(*of_space, to_the_lowest=True),
        STATIC_TABLE: lambda: StaticTable(p99_ms, *of_space),
        FIXED_BEST: lambda: FixedPath(best, *of_space),
        'fixed full': lambda: FixedPath(space.largest, *of_space),
        'fixed cheapest': lambda: FixedPath(space.smallest, *of_space),
    }
    contenders = {}
    for name in CAUSAL:
        policy = make[name]()
        contenders[name] = Contender(
            executor,
            network,
            policy,
            forecast,
            LatePolicy.COASTED if name in WITH_BOUNDS else LatePolicy.LATE,
        )
    frontier = prepared(FrontierPolicy(*of_space, keep_epsilon=0.0))
    clairvoyant = GivenFactor(frontier, ORACLE)
    contenders[ORACLE] = Contender(
        executor, network, clairvoyant, forecast, LatePolicy.LATE, keeps_time=False
    )
    return contenders, clairvoyant


def drive(
    contenders: dict[str, Contender],
    clairvoyant: GivenFactor,
    monitor: Monitor,
    frames: list[Frame],
    budget: BudgetRange,
    rng: random.Random,
    limit_s: float,
    words: str,
) -> tuple[dict[str, list[Run]], float]:
    """Every policy on every frame until the time is up; a list of runs each, and the median length of a round in ms."""
    runs: dict[str, list[Run]] = {name: [] for name in contenders}
    rounds_ms, end_ms = [], now_ms() + 1000.0 * limit_s
    for number, frame in enumerate(frames):
        if number and now_ms() > end_ms:
            break
        if number % 50 == 0:  # a progress bar would draw from a thread, beside the frames
            print(f'{words}: frame {number} of {len(frames)}', file=sys.stderr)
        begun_ms = now_ms()
        image, budget_ms = frame.load_bgr(), budget.budget_ms(frame.speed_mps).budget_ms
        probe = monitor.look()
        for name in rng.sample(CAUSAL, len(CAUSAL)):
            if probe is not None:
                contenders[name].hear_probe(*probe)
            run_ms = now_ms()
            runs[name].append(contenders[name].run(image, run_ms, frame.stamp_ns, budget_ms))
            pause(now_ms() - run_ms)
        met = [runs[name][-1].slowdown for name in CAUSAL]
        clairvoyant.factor = statistics.median(
            [slowdown for slowdown in met if slowdown is not None] or [1.0]
        )
        run_ms = now_ms()
        runs[ORACLE].append(
            contenders[ORACLE].run(
                image, run_ms, frame.stamp_ns, budget_ms, max(clairvoyant.factor, 1.0)
            )
        )
        pause(now_ms() - run_ms)
        rounds_ms.append(now_ms() - begun_ms)
    return runs, statistics.median(rounds_ms)


def drive_on(
    contenders: dict[str, Contender],
    monitor: Monitor,
    frames: list[Frame],
    budget: BudgetRange,
    limit_s: float,
    words: str,
) -> tuple[dict[str, list[Run]], dict[str, int]]:
    """Some policies by turns on the drive, over and over, at the camera's pace; the runs, and how many images were
    replaced."""
    images = [frame.load_bgr() for frame in frames]
    print(f'{words}: {limit_s:.0f} s', file=sys.stderr)
    runs: dict[str, list[Run]] = {name: [] for name in contenders}
    next_number, replaced = 0, dict.fromkeys(contenders, 0)
    begun_ms, begun_ns = now_ms(), frames[-1].stamp_ns
    while now_ms() - begun_ms < 1000.0 * limit_s:
        # The newest image there is, or the next to come.
        number = max(next_number, int((now_ms() - begun_ms) / LONG_PERIOD_MS))
        name = list(contenders)[number % len(contenders)]
        probe = monitor.look()
        if probe is not None:
            for contender in contenders.values():
                contender.hear_probe(*probe)
        left_out = number - next_number
        replaced[name] += left_out
        captured_ms = begun_ms + number * LONG_PERIOD_MS
        time.sleep(max(0.0, captured_ms - now_ms()) / 1000.0)
        index = number % len(frames)
        runs[name].append(
            contenders[name].run(
                images[index],
                captured_ms,
                begun_ns + int((number + 1) * LONG_PERIOD_MS * 1e6),
                budget.budget_ms(frames[index].speed_mps).budget_ms,
                left_out=left_out,
            )
        )
        pause()
        next_number = number + 1
    return runs, replaced


def co_runners(count: int, pace: float) -> AbstractContextManager[None]:
    """Meanwhile so many programs work in bursts, so many times longer than those of the drive."""
    return beside_programs(CO_RUNNER, [(str(seed), str(pace)) for seed in range(count)])


def evenly(frames: list[Frame], count: int) -> list[Frame]:
    """So many frames, spread over all."""
    return [
        frames[index]
        for index in np.linspace(0, len(frames) - 1, min(count, len(frames))).round().astype(int)
    ]


def summary(
    runs: dict[str, list[Run]],
    long_runs: dict[str, list[Run]],
    frames: list[Frame],
    class_names: tuple[str, ...],
) -> dict:
    """All that is said about one load."""
    ground_truths = [frame.ground_truth for frame in frames]
    feasible = np.array([run.is_feasible for run in runs['frontier']])
    policies, long_part = {}, {}
    for name, part in runs.items():
        outputs = delivered(part, late_too=name == ORACLE)
        policies[name] = {
            **accuracy(outputs, ground_truths, class_names),
            **timing_figures(part, feasible),
        }
    for name, part in long_runs.items():
        long_part[name] = timing_figures(part, np.array([run.is_feasible for run in part]))
    return {
        'frames': len(frames),
        'infeasible_ratio': float(1.0 - feasible.mean()),
        'median_slowdown': statistics.median(
            run.record.conditions.slowdown for run in runs[ORACLE]
        ),
        'policies': policies,
        'long_part': long_part,
    }


def main(run: BenchmarkRun) -> None:
    args = run.args
    if args.budgets_ms and not 0.0 < args.budgets_ms[0] <= args.budgets_ms[1] < float('inf'):
        raise ValueError(
            f'--budgets-ms is {args.budgets_ms}, expected two times in ms, the smaller one above 0 and '
            'first'
        )
    restart_with_environment(args.threads)
    with Executor() as executor:
        measure(run, executor)


def prepare(args: argparse.Namespace, images: list[np.ndarray]) -> tuple[object, LatencyProfile]:
    """The network, warm, and its profile."""
    use_threads(args.threads)
    network, _ = load_network(str(args.weights), 'cpu', ROOT / 'models')
    print(f'engine {network.engine.identity}. {network.engine.notice}')
    network.warm_up(covering_paths(network.path_space, 1, random.Random(0)), images[0].shape[:2])
    if args.profile:
        return network, LatencyProfile.load(args.profile)
    return network, measure_profile(
        network,
        images,
        repeats=2 if args.quick else 12,
        whole_paths=4 if args.quick else 16,
        path_repeats=2 if args.quick else 6,
        time_limit_s=8.0 if args.quick else 40.0,
    )


def measure(run: BenchmarkRun, executor: Executor) -> None:
    """All of it; networks run on the thread of the executor alone."""
    args = run.args
    sequence, note = with_speed_in_every_frame(open_source(args.data))
    frames = list(sequence.frames)
    if len(frames) < 2 or all(frame.ground_truth is None for frame in frames):
        raise ValueError(
            f'--data is {args.data}, expected at least 2 frames, some of them annotated'
        )
    images = [frame.load_bgr() for frame in frames[:: max(1, len(frames) // 12)]]
    images = [image for image in images if image.shape == images[0].shape]
    network, profile = executor.do(lambda: prepare(args, images))
    frames = list(with_class_names(sequence, network.class_names).frames)
    facts = read_device_facts('cpu')
    differences = profile.mismatches(
        network_hash=network.network_hash,
        facts=facts,
        input_size=network.input_size,
        engine=network.engine.identity,
    )
    if differences:
        raise ProfileMismatch(f'latency profile does not fit: {"; ".join(differences)}')
    forecast = PathForecast(profile, network.path_space)
    quality = PathQuality.load(args.weights.with_suffix('.quality.json'), network.path_space)
    quality.check(network.weights_hash)
    speeds_mps = [frame.speed_mps for frame in frames]
    budget, budgets = executor.do(
        lambda: make_budgets(network, forecast, images, speeds_mps, args.budgets_ms)
    )
    budgets_ms = [budget.budget_ms(frame.speed_mps).budget_ms for frame in frames]
    best_paths = FrontierPolicy(network.path_space, forecast, quality).starts()
    p99_ms = executor.do(
        lambda: measure_p99_ms(
            network,
            images,
            spread_evenly(best_paths, TABLE_PATHS),
            QUICK_TABLE_FRAMES if args.quick else TABLE_FRAMES,
        )
    )
    contenders, clairvoyant = make_contenders(
        executor, network, forecast, quality, budgets_ms, p99_ms
    )
    period_ms = statistics.median(np.diff([frame.stamp_ns for frame in frames]).tolist()) / 1e6
    count, warm_up = (8, 2) if args.quick else (args.frames, WARM_UP)
    long_s = 6.0 if args.quick else 60.0 * args.long_minutes
    monitor, rng, loads, pace, left_s = Monitor(), random.Random(0), {}, 1.0, 60.0 * args.minutes
    beside = f'beside {args.co_runners} co-runners'
    gc.collect()
    gc.freeze()
    gc.disable()  # within a frame, as in the node
    for load, programs, mode, share in (
        ('alone', 0, 'auto', 1 / 3),
        (beside, args.co_runners, 'auto', 0.5),
        (f'{beside}, priority off', args.co_runners, 'off', 1.0),
    ):
        begun_ms, limit_s = now_ms(), share * left_s
        priority = ThreadPriority(mode)
        executor.raise_worker(priority)
        priority.raise_thread(Role.SUPPORTING)
        with co_runners(programs, pace):
            _, round_ms = drive(
                contenders,
                clairvoyant,
                monitor,
                frames[:warm_up],
                budget,
                rng,
                limit_s,
                f'{load}, warm-up',
            )
        pace, rest_s = round_ms / period_ms, limit_s - (now_ms() - begun_ms) / 1000.0
        affordable = min(count, max(2, int(1000.0 * rest_s / round_ms)))
        picked = evenly(frames, affordable)
        with co_runners(programs, pace):
            runs, round_ms = drive(
                contenders, clairvoyant, monitor, picked, budget, rng, rest_s, load
            )
        left_s -= (now_ms() - begun_ms) / 1000.0
        with co_runners(programs, 1.0):
            alone = {name: contenders[name] for name in ('frontier', NO_RECOURSE)}
            long_runs, replaced = drive_on(
                alone,
                monitor,
                frames,
                budget,
                len(alone) * long_s,
                f'{load}, frontier with and without recourse',
            )
        loads[load] = summary(
            runs,
            long_runs,
            picked[: len(runs[ORACLE])],
            network.class_names,
        )
        loads[load].update(
            round_ms=round_ms,
            co_runner_pace=pace if programs else None,
            priority='; '.join((priority.in_force, *priority.refusals)),
        )
        for name, part in loads[load]['long_part'].items():
            part.update(
                period_ms=LONG_PERIOD_MS,
                replaced=replaced[name],
                integral=alone[name].integral,
            )
        show_load(load, loads[load])
        judge(run, load, loads[load])
    for contender in contenders.values():
        contender.detector.close()
    run.indent = None
    run.write(
        device=str(facts),
        engine=network.engine.identity,
        weights_hash=network.weights_hash,
        data=sequence.name,
        note=note,
        budgets=budgets,
        p99_ms={
            'frames': QUICK_TABLE_FRAMES if args.quick else TABLE_FRAMES,
            'paths': {str(path): time_ms for path, time_ms in p99_ms.items()},
        },
        quality_metric=quality.metric,
        loads=loads,
    )


if __name__ == '__main__':
    run_script(
        main,
        {
            '--data': {
                'default': 'drive:seconds=30,rate_hz=7',
                'help': 'source of frames, as of the demo',
            },
            '--frames': {
                'type': int,
                'default': 210,
                'least': 2,
                'help': 'most frames of it that are interleaved, under each load',
            },
            '--minutes': {
                'type': float,
                'default': 5.0,
                'least': 0.0,
                'help': 'most time of the interleaved parts together',
            },
            '--long-minutes': {
                'type': float,
                'default': 2.4,
                'above': 0.0,
                'help': 'time of the long part, under each load, of each of its two policies',
            },
            '--weights': {
                'type': Path,
                'default': ROOT / DEFAULT_WEIGHTS,
                'help': 'network, with its .quality.json beside it',
            },
            '--profile': {
                'type': Path,
                'help': 'latency profile; measured first, in about 40 s, when not given',
            },
            '--threads': {
                'type': int,
                'default': DEFAULT_THREADS,
                'help': 'CPU threads of the network',
            },
            '--co-runners': {
                'type': int,
                'default': len(os.sched_getaffinity(0)),
                'least': 0,
                'help': 'programs beside the network',
            },
            '--budgets-ms': {
                'type': float,
                'nargs': 2,
                'metavar': ('LEAST', 'MOST'),
                'help': f"range of the budgets; without it, from {LEAST_FACTOR} times the cheapest path's "
                f'bound to {FULL_FACTOR} times the full path',
            },
        },
        quick='8 frames, a long part of 6 s, a coarse profile',
    )
