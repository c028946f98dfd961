"""A drive at varying speed under several policies: misses, latency and average precision, alone and beside a tenant.

    python benchmarks/deadlines.py [--quick] [--data SOURCE] [--profile FILE]

The multi-path paper's figures 8 and 9. For every frame each policy runs the network for itself, in an order drawn anew, with
budget, bounds, calibration and slowdown composed by the detector node's own pipeline, which needs no ROS. The clairvoyant
runs last, with the slowdown that the others met in the same round; its detections count even when that was too little
and it was late. The thresholds, which decide no width, get the largest at which their cheapest path fits the smallest
budget. The tenant is as many programs as there are cores, whose
duty cycle changes every 0.5 to 3 s. A missed frame scores the last output delivered in time. Frames on which not even the
cheapest path's bound fits are infeasible; the frontier says which. The policies of the papers run every frame to its end,
as theirs do; those with bounds may give it up, as the node does. Writes results/deadlines.json and results/deadlines.png.
"""
from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import numpy as np
import yaml
from rich.console import Console
from rich.table import Table

from deadline_perception.contention.probe import Probe
from deadline_perception.contention.slowdown import SlowdownEstimator
from deadline_perception.datasets.records import Frame, GroundTruth
from deadline_perception.datasets.source import open_source
from deadline_perception.decision.baselines import GivenFactor
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.image_age import StampReading
from deadline_perception.decision.late_output import LatePolicy, Outcome
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.decision.policy import Policy
from deadline_perception.decision.reserve import Reserve
from deadline_perception.decision.speed_budget import TableBudget
from deadline_perception.decision.thresholds import ThresholdPolicy
from deadline_perception.decision.timed_frame import TimedInference
from deadline_perception.detector.detections import Detections
from deadline_perception.evaluation.average_precision import average_precision
from deadline_perception.evaluation.scenario import with_speed_in_every_frame
from deadline_perception.execution_path import PathSpace
from deadline_perception.latency.calibration import clopper_pearson_upper
from deadline_perception.latency.device import read_device_facts, use_threads
from deadline_perception.latency.measurement_plan import covering_paths
from deadline_perception.latency.path_bound import PathForecast
from deadline_perception.latency.profile import LatencyProfile, measure_profile
from deadline_perception.latency.stopwatch import now_ms
from deadline_perception.nodes.inference import Arrival, Conditions, FramePipeline, FrameRecord
from deadline_perception.nodes.network_setup import NetworkOptions, make_calibrator, make_policy
from deadline_perception.tools.profile import restart_with_environment

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / 'benchmarks' / 'results'
WITH_BOUNDS = ('frontier', 'thresholds')
CAUSAL = (*WITH_BOUNDS, 'oblivious', 'reactive_1', 'reactive_n', 'fixed full', 'fixed cheapest')
ORACLE = 'oracle'
GOAL_MISSES, GOAL_SHARE_OF_ORACLE = 0.01, 0.98
BUDGET_RANGES = 3
TRACED = ('oblivious', 'frontier')  # whose budget and latency in ms are kept for every frame
# Each tenant works for a share of every 20 ms; ends by itself when its parent is gone.
TENANT = '''
import os, random, sys, time
import numpy as np
rng, memory = random.Random(int(sys.argv[2])), np.ones(1 << 20, np.float32)
while os.getppid() == int(sys.argv[1]):
    share, until = rng.choice((0.0, 0.3, 0.6, 1.0)), time.monotonic() + rng.uniform(0.5, 3.0)
    while time.monotonic() < until:
        rest = time.monotonic() + 0.02 * share
        while time.monotonic() < rest:
            np.sqrt(memory, out=memory)
        time.sleep(0.02 * (1.0 - share))
'''


@dataclass(frozen=True, eq=False)
class Run:
    """What one policy made of one frame: its own detections and how many times longer than its path's idle forecast the
    network took, both None when it was given up."""

    record: FrameRecord
    detections: Detections | None
    stretch: float | None

    @property
    def in_time(self) -> bool:
        """Its own detections met the deadline."""
        return self.record.outcome is Outcome.DETECTED and self.record.deadline_met


class Contender:
    """One policy with all that the node gives it: pipeline, calibrator, reserve, and the monitor's slowdown."""

    def __init__(self, network, policy: Policy, forecast: PathForecast, late_policy: LatePolicy) -> None:
        node = yaml.safe_load((ROOT / 'config' / 'detector.yaml').read_text())['/**/detector']['ros__parameters']
        self._forecast = forecast
        self._estimator = SlowdownEstimator()
        self._conditions = Conditions(node['default_budget_ms'], 1.0, '')
        self._published: list[Detections] = []
        self._records: list[FrameRecord] = []
        self._failures: list[Exception] = []
        self.pipeline = FramePipeline(
            inference=TimedInference(network, network.path_space, policy), forecast=forecast,
            calibrator=make_calibrator(NetworkOptions(model=''), forecast, None)[0],
            reserve=Reserve(node['reserve_floor_ms'], node['reserve_ceiling_ms'], quantile=node['reserve_quantile']),
            conditions=lambda: self._conditions, convert=lambda arrival: arrival.message,
            publish=lambda arrival, found: self._published.append(found), publish_record=self._records.append,
            failed=self._failures.append, late_policy=late_policy, late_grace_ms=node['late_grace_ms'],
            max_carried_over=node['max_carried_over'])

    def hear_probe(self, probe_ms: float, idle_ms: float) -> None:
        """Takes in the monitor's probe."""
        self._estimator.observe_probe(probe_ms, idle_ms)

    def run(self, image: np.ndarray, stamp_ns: int, budget_ms: float, slowdown: float | None = None) -> Run:
        """Takes one frame, just captured, to its publication; the slowdown is the monitor's unless it is given."""
        self._conditions = Conditions(budget_ms, slowdown or self._estimator.slowdown, '')
        self.pipeline.process(Arrival(image, now_ms(), StampReading(0.0, '', stamp_ns)), 0)
        if self._failures:
            raise self._failures[0]
        record, found = self._records.pop(), self._published.pop()
        frame = record.frame
        if record.outcome is not Outcome.CARRIED_OVER and frame.path == frame.plan.path:  # as the monitor matches them
            self._estimator.observe_frame(frame.plan.forecast_ms, frame.network_ms)
        if record.outcome is Outcome.CARRIED_OVER:
            return Run(record, None, None)
        return Run(record, found, frame.network_ms / self._forecast.forecast_ms(frame.path))


class Monitor:
    """The contention monitor's probe, as often as that node runs it by default."""

    def __init__(self) -> None:
        node = yaml.safe_load((ROOT / 'config' / 'contention_monitor.yaml').read_text())
        self._node = node['/**/contention_monitor']['ros__parameters']
        self._probe = Probe(rounds=self._node['probe_rounds'])
        self._next_ms = 0.0

    def look(self) -> tuple[float, float] | None:
        """Times of a probe now and on the idle machine, in ms; None when it is not due."""
        begun_ms = now_ms()
        if begun_ms < self._next_ms:
            return None
        probe_ms = self._probe.run()
        self._next_ms = begun_ms + max(probe_ms / self._node['probe_share'], 1000.0 / self._node['rate_hz'])
        return probe_ms, self._probe.idle_ms


def make_contenders(network, forecast: PathForecast, quality: PathQuality,
                    smallest_ms: float) -> tuple[dict[str, Contender], GivenFactor]:
    """All policies, and the clairvoyant's, to be told each frame's slowdown."""
    space = network.path_space
    width, pyramid_width = thresholds_widths(space, forecast, smallest_ms)
    print(f'thresholds at width {width:g} and pyramid width {pyramid_width:g}')
    thresholds = [ThresholdPolicy(space, forecast, quality, width=width, pyramid_width=pyramid_width) for _ in range(2)]
    made = {'thresholds': thresholds[0], 'oblivious': GivenFactor(thresholds[1], 'oblivious')}
    contenders = {}
    for name in CAUSAL:
        fixed = str(space.smallest) if name == 'fixed cheapest' else ''
        policy = made.get(name) or make_policy(NetworkOptions(model='', policy=name.split()[0], fixed_path=fixed), space,
                                               forecast, quality)
        contenders[name] = Contender(network, policy, forecast,
                                     LatePolicy.CARRIED_OVER if name in WITH_BOUNDS else LatePolicy.LATE)
    frontier = FrontierPolicy(space, forecast, quality)
    frontier.prepare()
    clairvoyant = GivenFactor(frontier, ORACLE)
    contenders[ORACLE] = Contender(network, clairvoyant, forecast, LatePolicy.LATE)
    return contenders, clairvoyant


def thresholds_widths(space: PathSpace, forecast: PathForecast, budget_ms: float) -> tuple[float, float]:
    """Widths of backbone and pyramid: those of the longest path among all at which the cheapest path fits a budget; the
    smallest when none does."""
    both = [(width, pyramid_width) for width in space.widths for pyramid_width in space.pyramid_widths]
    fitting = [(width, pyramid_width) for width, pyramid_width in both
               if forecast.forecast_ms(replace(space.smallest, width=width, pyramid_width=pyramid_width)) <= budget_ms]
    return max(fitting, key=lambda pair: forecast.forecast_ms(replace(space.largest, width=pair[0], pyramid_width=pair[1])),
               default=both[-1])


def drive(contenders: dict[str, Contender], clairvoyant: GivenFactor, monitor: Monitor, frames: list[Frame],
          budget: TableBudget, rng: random.Random, words: str) -> dict[str, list[Run]]:
    """Every policy on every frame; a list of runs each."""
    runs: dict[str, list[Run]] = {name: [] for name in contenders}
    for number, frame in enumerate(frames):
        if number % 50 == 0:  # a progress bar would draw from a thread, beside the frames
            print(f'{words}: frame {number} of {len(frames)}', file=sys.stderr)
        image, budget_ms = frame.load_bgr(), budget.budget_ms(frame.speed_mps).budget_ms
        probe = monitor.look()
        for name in rng.sample(CAUSAL, len(CAUSAL)):
            if probe is not None:
                contenders[name].hear_probe(*probe)
            runs[name].append(contenders[name].run(image, frame.stamp_ns, budget_ms))
        met = [runs[name][-1].stretch for name in CAUSAL]
        clairvoyant.factor = statistics.median(stretch for stretch in met if stretch is not None)
        runs[ORACLE].append(contenders[ORACLE].run(image, frame.stamp_ns, budget_ms, max(clairvoyant.factor, 1.0)))
    return runs


def delivered(runs: list[Run], late_too: bool) -> list[Detections]:
    """The last output in time, or late too, at every frame; nothing before the first."""
    outputs, last = [], Detections.none()
    for run in runs:
        last = run.detections if run.in_time or late_too and run.detections is not None else last
        outputs.append(last)
    return outputs


def precision(outputs: list[Detections], truths: list[GroundTruth | None], chosen: np.ndarray,
              class_names: tuple[str, ...]) -> dict[str, float | None]:
    """Average precision on the annotated ones of the chosen frames."""
    kept = [index for index in chosen.tolist() if truths[index] is not None]
    found = average_precision([outputs[index] for index in kept], [truths[index] for index in kept], class_names)
    return {'ap': found.ap, 'ap50': found.ap50}


def figures(name: str, runs: list[Run], feasible: np.ndarray, truths: list[GroundTruth | None],
            class_names: tuple[str, ...]) -> dict:
    """All that is said about one policy under one load."""
    outputs, everything = delivered(runs, late_too=name == ORACLE), np.arange(len(runs))
    missed = np.array([not run.in_time for run in runs])
    records = [run.record for run in runs]
    paths = [record.frame.path for record in records]
    tightness = [run.record.frame.plan.bound_ms / run.record.frame.plan.forecast_ms / run.stretch for run in runs
                 if run.stretch is not None]
    budgets_ms = np.array([record.conditions.budget_ms for record in records])
    ranges = np.array_split(np.argsort(budgets_ms, kind='stable'), BUDGET_RANGES)
    decisions_us = [value for record in records for value in
                    (record.frame.decision_us, *(decision.decision_us for decision in record.frame.decisions))]
    misses, frames = int(missed[feasible].sum()), int(feasible.sum())
    return {**precision(outputs, truths, everything, class_names),
            'feasible_frames': frames, 'feasible_misses': misses, 'miss_ratio': misses / frames if frames else None,
            'miss_ratio_upper_95': clopper_pearson_upper(misses, frames), 'miss_ratio_all': float(missed.mean()),
            'given_up': len(records) - len(tightness),
            'p99_latency_ms': float(np.quantile([record.total_ms for record in records], 0.99)),
            'median_bound_over_latency': statistics.median(tightness) if tightness else None,
            'path_switches': sum(before != after for before, after in zip(paths, paths[1:])),
            'distinct_paths': len(set(paths)), 'median_decision_us': statistics.median(decisions_us),
            'by_budget': [{'to_ms': float(budgets_ms[chosen].max()), **precision(outputs, truths, chosen, class_names)}
                          for chosen in ranges],
            **({'trace': [[round(record.conditions.budget_ms, 1), round(record.total_ms, 2)] for record in records]}
               if name in TRACED else {})}


@contextmanager
def tenants(count: int) -> Iterator[None]:
    """Meanwhile so many programs work in bursts."""
    programs = [subprocess.Popen([sys.executable, '-c', TENANT, str(os.getpid()), str(seed)]) for seed in range(count)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def check_goals(found: dict[str, dict]) -> dict[str, bool]:
    """The goals of one load, each in words, and whether they are met."""
    own, oracle_ap = found['frontier'], found[ORACLE]['ap']
    rivals = [name for name in CAUSAL[1:] if (found[name]['miss_ratio'] or 0.0) <= GOAL_MISSES]
    return {f'misses {own["miss_ratio"] or 0.0:.2%}, at most {GOAL_MISSES:.0%}': (own['miss_ratio'] or 0.0) <= GOAL_MISSES,
            f'AP {own["ap"] / oracle_ap:.1%} of the clairvoyant\'s, at least {GOAL_SHARE_OF_ORACLE:.0%}':
                own['ap'] >= GOAL_SHARE_OF_ORACLE * oracle_ap,
            f'AP above all that miss as little ({", ".join(rivals) or "none"})':
                all(own['ap'] > found[name]['ap'] for name in rivals)}


def show(load: str, result: dict) -> None:
    """Prints the table and the goals of one load."""
    table = Table(title=f'{load}: {result["frames"]} frames, {result["infeasible_ratio"]:.1%} infeasible, median slowdown '
                        f'{result["median_slowdown"]:.2f}')
    for title in ('policy', 'AP', 'AP50', 'missed, of feasible', '95 % upper', 'of all', 'p99 ms', 'bound / latency',
                  'switches', 'decision us'):
        table.add_column(title, justify='left' if title == 'policy' else 'right')
    for name, row in result['policies'].items():
        table.add_row(name, f'{row["ap"]:.1%}', f'{row["ap50"]:.1%}', f'{row["feasible_misses"]} of {row["feasible_frames"]}',
                      f'{row["miss_ratio_upper_95"]:.2%}', f'{row["miss_ratio_all"]:.1%}', f'{row["p99_latency_ms"]:.1f}',
                      f'{row["median_bound_over_latency"] or float("nan"):.2f}', str(row['path_switches']),
                      f'{row["median_decision_us"]:.1f}')
    Console(width=max(120, Console().width)).print(table)
    for goal, met in result['goals'].items():
        print(f'  goal {"met" if met else "MISSED"}: {goal}')


def draw(loads: dict[str, dict], file: Path) -> None:
    """Misses and AP of every policy, latencies against deadlines over time, and AP by budget."""
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(4, len(loads), figsize=(7.0 * len(loads), 14.0), squeeze=False)
    for column, (load, result) in zip(axes.T, loads.items()):
        policies = result['policies']
        colours = ['tab:blue' if name == 'frontier' else 'tab:green' if name == ORACLE else 'tab:gray' for name in policies]
        column[0].bar(list(policies), [100 * (row['miss_ratio'] or 0.0) for row in policies.values()], color=colours)
        column[0].axhline(100 * GOAL_MISSES, color='tab:red', linewidth=1)
        column[0].set(title=load, ylabel='missed feasible frames, %')
        column[1].bar(list(policies), [100 * row['ap'] for row in policies.values()], color=colours)
        column[1].set(ylabel='AP, %')
        for axis in column[:2]:
            axis.tick_params('x', rotation=40)
        for name, colour in zip(TRACED, ('tab:orange', 'tab:blue')):
            column[2].plot([point[1] for point in policies[name]['trace']], color=colour, linewidth=0.9, label=name)
        column[2].plot([point[0] for point in policies['frontier']['trace']], color='black', linewidth=1.2, label='deadline')
        column[2].set(xlabel='frame', ylabel='ms')
        for name in ('frontier', 'oblivious', 'fixed full', ORACLE):
            column[3].plot([f'to {part["to_ms"]:.0f} ms' for part in policies[name]['by_budget']],
                           [100 * (part['ap'] or 0.0) for part in policies[name]['by_budget']], marker='o', label=name)
        column[3].set(xlabel='budget', ylabel='AP, %')
        column[2].legend()
        column[3].legend()
    figure.tight_layout()
    figure.savefig(file, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--data', default='drive:seconds=30,rate_hz=7', help='source of frames, as of the demo')
    parser.add_argument('--frames', type=int, default=300, help='most frames of it, under each load')
    parser.add_argument('--warm-up', type=int, default=20, help='first frames run before, under each load, uncounted')
    parser.add_argument('--weights', type=Path, default=ROOT / 'models' / 'compact.safetensors')
    parser.add_argument('--profile', type=Path, help='latency profile; measured first, in about 40 s, when not given')
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--tenants', type=int, default=len(os.sched_getaffinity(0)), help='programs beside the network')
    parser.add_argument('--quick', action='store_true', help='every 18th frame, and a coarse profile')
    args = parser.parse_args()
    restart_with_environment(args.threads)
    from deadline_perception.detector.checkpoint import load_detector

    use_threads(args.threads)
    network = load_detector(args.weights, 'cpu')
    sequence, note = with_speed_in_every_frame(open_source(args.data))
    frames = list(sequence.frames[:args.frames:18 if args.quick else 1])
    images = [frame.load_bgr() for frame in frames[::max(1, len(frames) // 12)]]
    images = [image for image in images if image.shape == images[0].shape]
    network.warm_up(covering_paths(network.path_space, 1, random.Random(0)), images[0].shape[:2])
    profile = LatencyProfile.load(args.profile) if args.profile else measure_profile(
        network, images, repeats=2 if args.quick else 12, whole_paths=4 if args.quick else 16,
        path_repeats=2 if args.quick else 6, time_limit_s=8.0 if args.quick else 40.0)
    facts = read_device_facts('cpu')
    profile.check(network_hash=network.network_hash, facts=facts, input_size=network.input_size)
    forecast = PathForecast(profile, network.path_space)
    quality = PathQuality.load(args.weights.with_suffix('.quality.json'))
    quality.check(network.weights_hash)
    speeds = yaml.safe_load((ROOT / 'config' / 'time_budget.yaml').read_text())['/**/time_budget']['ros__parameters']
    budget = TableBudget(speeds['table_speeds_mps'], speeds['table_budgets_ms'], speeds['min_budget_ms'],
                         speeds['max_budget_ms'])
    smallest_ms = min(budget.budget_ms(frame.speed_mps).budget_ms for frame in frames)
    contenders, clairvoyant = make_contenders(network, forecast, quality, smallest_ms)
    monitor, rng, truths = Monitor(), random.Random(0), [frame.truth for frame in frames]
    loads = {}
    for load, beside in (('alone', nullcontext()), (f'beside {args.tenants} tenants', tenants(args.tenants))):
        with beside:
            first = frames[:4 if args.quick else args.warm_up]
            drive(contenders, clairvoyant, monitor, first, budget, rng, f'{load}, warm-up')
            runs = drive(contenders, clairvoyant, monitor, frames, budget, rng, load)
        feasible = np.array([run.record.frame.plan is not None and run.record.frame.plan.feasible
                             for run in runs['frontier']])
        found = {name: figures(name, part, feasible, truths, sequence.class_names) for name, part in runs.items()}
        loads[load] = {'frames': len(frames), 'infeasible_ratio': float(1.0 - feasible.mean()),
                       'median_slowdown': statistics.median(run.record.conditions.slowdown for run in runs[ORACLE]),
                       'goals': check_goals(found), 'policies': found}
        show(load, loads[load])
    for contender in contenders.values():
        contender.pipeline.stop()
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / 'deadlines.json').write_text(json.dumps(
        {'date': date.today().isoformat(), 'device': str(facts), 'data': sequence.name, 'note': note,
         'quality_metric': quality.metric, 'loads': loads}) + '\n')
    draw(loads, RESULTS / 'deadlines.png')
    print('wrote benchmarks/results/deadlines.json and benchmarks/results/deadlines.png')


if __name__ == '__main__':
    main()
