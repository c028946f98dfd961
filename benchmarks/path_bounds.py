"""Forecasts and bounds of 50 random paths against the times they took, whole and from mid-way, alone and beside other
programs, for one and two threads.

    python benchmarks/path_bounds.py [--quick] [--weights models/compact.safetensors]
    python benchmarks/path_bounds.py --frames 20000 [--slowest-ms 25]

With --frames, so many frames are run in fact, with the shipped engine and this device's profile, on paths that are
expected to take at most --slowest-ms: coverage, bound over latency, and how much of that is the spread of frames on one
path in one phase of the machine, how much that one factor serves all paths, and how much that slowdown and factor
follow phases late. 20,000 frames take 5 to 8 minutes; writes results/path_bounds_frames.json. All that follows is about
the other form.

Every setting of threads runs in a process of its own, because libraries read it as they load. There the profile is
measured in turn with frames of the 50 paths, which it knows nothing of; then come frames beside a busy program, then
beside as many bursting ones as there are cores, then alone once more, which shows what drifted since the profile.
Bounds are formed as the detector node forms them (forecast times slowdown times calibration factor, slowdown renewed
three times a second) from what was recorded, frame after frame. Coverage is that of these frames and, over 20,000
frames, that of blocks of them drawn with replacement: from one condition, and `mixed`, from one after the other in
stretches of up to 500 frames.

The coverage of a run so long follows from how the factor learns: with steps of 0.05 it lies (drift of its logarithm) /
(0.05 * 20,000) from its target, whatever the latencies. What a user meets is therefore told beside it: the worst
stretch of 200 and of 500 consecutive frames, and the worst path. They have no goal.

A path's median holds the phases in which the whole machine was slow while that path ran, a few frames of it. So the
error of forecasts is told twice: as they lie from the medians, and between paths, where each frame is first relieved of
the excess that the frames around it, on other paths, had over their forecasts. Only the second could a better
composition reduce.

In the table, `rest` is what was left as an operator was decided, bounded as the node does, by a factor of its segment
and by how slow the frame has been so far, and `rest, whole's` by the factor of whole frames; `whole, fixed` has a
factor from the first half of the frames alone (order statistic, 95 % confidence), without slowdown and without
learning. Takes under 7 minutes, as each part has its time; writes
results/path_bounds.json.
"""
from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from deadline_perception.contention.load import beside_programs, busy_programs
from deadline_perception.contention.probe import Probe
from deadline_perception.contention.slowdown import SlowdownEstimator
from deadline_perception.detector.checkpoint import load_detector
from deadline_perception.engine.choice import choose_engine
from deadline_perception.execution_path import ExecutionPath
from deadline_perception.latency.calibration import BoundCalibrator, clopper_pearson_upper
from deadline_perception.latency.device import process_environment, read_device_facts, use_threads
from deadline_perception.latency.json_file import write_text_atomically
from deadline_perception.latency.measurement_plan import covering_paths, distinct_paths
from deadline_perception.latency.path_bound import PathForecast
from deadline_perception.latency.profile import LatencyProfile, measure_profile
from deadline_perception.latency.quantiles import bounding_rank
from deadline_perception.latency.stopwatch import now_ms
from deadline_perception.latency.time_model import FrameTimes, TimeModel
from deadline_perception.rendering.drive import render_drive
from deadline_perception.runtime.image_age import StampReading
from deadline_perception.runtime.job import Decision, Job
from deadline_perception.share_folder import share_folder
from deadline_perception.runtime.loading import NetworkOptions, make_calibrator
from deadline_perception.tools.command_line import exit_status
from deadline_perception.tools.profile import restart_with_environment
from deadline_perception.tools.profile_at_hand import ensure_profile

RESULTS = Path(__file__).parent / 'results' / 'path_bounds.json'
SETTINGS = {'1 thread': (1, None), '2 threads, passive': (2, 'PASSIVE'), '2 threads, active': (2, 'ACTIVE')}
CONDITIONS = ('alone', 'busy', 'bursts', 'alone again')
MIXED = 'mixed'
PROFILE_S, LOADED_S, AGAIN_S, QUICK_SHARE = 50.0, 18.0, 12.0, 0.15
PATHS, PATHS_SEED, SIMULATION_SEED = 50, 7, 11
SIMULATED_FRAMES, BLOCK, MOST_BLOCKS = 20_000, 25, 20
WINDOWS = (200, 500)
AROUND = 5  # frames before and after one that tell the machine's phase
GOAL_ERROR, GOAL_COVERAGE_OFF, GOAL_TIGHTNESS = 0.05, 0.002, 1.2
MONITOR_MS, PROBE_SHARE = 1000.0 / 3.0, 0.006  # as the node contention_monitor by default
# Works and rests in turn, for 0.2 to 1.5 s each.
BURSTS = ('import random, sys, time\nrng = random.Random(int(sys.argv[1]))\nwhile True:\n'
          '    until = time.monotonic() + rng.uniform(0.2, 1.5)\n    while time.monotonic() < until:\n'
          '        sum(value * value for value in range(20_000))\n    time.sleep(rng.uniform(0.2, 1.5))\n')


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

    def __init__(self, detector, images: Sequence[np.ndarray], paths: Sequence[ExecutionPath] | None = None) -> None:
        self._detector, self._images = detector, images
        self._rng = random.Random(PATHS_SEED)
        # The first two are the smallest and the largest.
        self.paths = list(paths or distinct_paths(detector.path_space, PATHS + 2, self._rng)[2:])
        self._probe = Probe()
        self._next_look_ms = self._next_probe_ms = 0.0
        self._round: list[ExecutionPath] = []
        self.events: list[Frame | Look] = []

    def take(self) -> list[Frame | Look]:
        """What was recorded since the last call."""
        taken, self.events = self.events, []
        return taken

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
        segment = self._rng.choice([number for number in range(1, len(begins_ms))
                                    if space.segments[number].operator and space.applies(number, path)])
        self.events.append(Frame(path, ended_ms - begun_ms, segment, ended_ms - begins_ms[segment],
                                 begins_ms[segment] - begins_ms[0]))

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
        self.calibrator = _calibrator(forecast)
        self._times = TimeModel(forecast.path_space, forecast, self.calibrator)

    def follow(self, events: Sequence[Frame | Look]) -> np.ndarray:
        """Goes through events; for each frame `[slowdown, forecast, bound, rest's forecast, its bound by the frame's
        factor, its bound by that of its segment]`, the last five over the time it took."""
        rows = []
        for event in events:
            if isinstance(event, Look):
                if not math.isnan(event.probe_ms):
                    self._estimator.observe_probe(event.probe_ms, event.idle_ms)
                self._slowdown = self._estimator.slowdown
                continue
            times = self._times.begin(self._slowdown)
            forecast_ms, rest_ms = times.forecast_ms(event.path), times.forecast_ms(event.path, event.segment)
            of_rest_ms = times.bound_ms(event.path, event.segment, event.spent_ms)
            whole = np.array([times.slowdown, times.factor]) * forecast_ms / event.latency_ms
            rest = np.array([times.slowdown * rest_ms, times.factor * rest_ms, of_rest_ms]) / event.rest_ms
            rows.append((times.slowdown, *whole, *rest))
            self._estimator.observe_frame(forecast_ms, event.latency_ms)
            self._times.observe(_job(event, times, rest_ms))
        return np.array(rows)


def _job(frame: Frame, times: FrameTimes, rest_ms: float) -> Job:
    """A frame that was decided once, at its segment, and kept its path."""
    job = Job(frame, 0.0, StampReading(0.0, '', 0))
    job.times, job.path, job.result, job.is_in_time, job.publish_ms = times, frame.path, frame, True, 0.0
    job.begun_ms, job.ended_ms, job.network_ms = 0.0, frame.latency_ms, frame.latency_ms
    job.decisions.append(Decision('', frame.segment, frame.spent_ms, False, 0.0, rest_ms, 0.0, 0.0))
    return job


def _calibrator(forecast: PathForecast) -> BoundCalibrator:
    return make_calibrator(NetworkOptions(model=''), forecast, None)[0]


def _bursts() -> AbstractContextManager[None]:
    return beside_programs(BURSTS, [(str(seed),) for seed in range(len(os.sched_getaffinity(0)))])


def measure(weights: Path, threads: int, quick: bool) -> dict:
    """All of one setting, in this process, which must have been started with it."""
    use_threads(threads)
    detector = load_detector(weights, 'cpu')
    images = [frame.load_bgr() for frame in render_drive(seconds=4.0).frames]
    detector.warm_up(covering_paths(detector.path_space, 1, random.Random(0)), image_size=images[0].shape[:2])
    recorder, events, share = Recorder(detector, images), {}, QUICK_SHARE if quick else 1.0
    profile = measure_profile(detector, images, repeats=5 if quick else 15, path_repeats=2 if quick else 6,
                              time_limit_s=PROFILE_S * share,
                              progress=lambda done, planned, elapsed_s: recorder.step() if done % 2 else None)
    events['alone'] = recorder.take()
    for name, load, seconds in (('busy', busy_programs(1), LOADED_S), ('bursts', _bursts(), LOADED_S),
                                ('alone again', nullcontext(), AGAIN_S)):
        with load:
            until_ms = now_ms() + 1000.0 * seconds * share
            while now_ms() < until_ms:
                recorder.step()
        events[name] = recorder.take()
    seen = {str(path) for path in recorder.paths}
    unseen = {name: times for name, times in profile.paths.items() if name not in seen}
    forecast = PathForecast(replace(profile, paths=unseen), detector.path_space)
    return {'facts': asdict(read_device_facts()), 'alpha': _calibrator(forecast).alpha,
            'forecast_error': {name: forecast_error(forecast, events[name]) for name in ('alone', 'alone again')},
            'conditions': evaluate(forecast, events), 'times': {name: times_of(events[name]) for name in CONDITIONS}}


def measure_frames(weights: Path, frames: int, slowest_ms: float) -> dict:
    """Runs so many frames and bounds them one after the other; see the module."""
    use_threads(1)
    profile = LatencyProfile.load(ensure_profile(weights, 'cpu', 1, share_folder() / 'models' / 'profiles').file)
    detector, facts = load_detector(weights, 'cpu'), read_device_facts()
    detector.engine = choose_engine('auto', detector, facts, str(weights))
    forecast, rng = PathForecast(profile, detector.path_space), random.Random(PATHS_SEED)
    cheap = [path for path in detector.path_space if forecast.forecast_ms(path) <= slowest_ms]
    if len(cheap) < PATHS:
        raise ValueError(f'slowest_ms is {slowest_ms}, within which {len(cheap)} paths are expected to end, expected '
                         f'at least {PATHS}')
    images = [frame.load_bgr() for frame in render_drive(seconds=4.0).frames]
    recorder = Recorder(detector, images, rng.sample(cheap, PATHS))
    detector.warm_up(recorder.paths, image_size=images[0].shape[:2])
    for _ in track(range(frames), 'frames'):
        recorder.step()
    events = recorder.take()
    rows = Bounds(forecast).follow(events)
    return {'facts': asdict(facts), 'engine': detector.engine.identity, 'slowest_ms': slowest_ms,
            'times': times_of(events), 'summary': summary(rows), 'excess': excess(forecast, events, rows[:, 2])}


def excess(forecast: PathForecast, events: Sequence[Frame | Look], tightness: np.ndarray) -> dict[str, float]:
    """Factors whose product is the median of bound over latency.

    Args:
        forecast: of the idle machine.
        events: frames on several paths in turn.
        tightness: bound over latency of each frame.

    Returns:
        `spread`: a bound that knew each path's median and the phase of the machine, from the frames around, would still
        need this factor to cover all but alpha; `paths`: what it needs more without the former; `following`: the rest.
    """
    alpha = _calibrator(forecast).alpha
    apart = _logs_beside_neighbours(forecast, events)
    by_path = np.concatenate([np.array(logs) - np.median(logs) for logs in apart.values()])
    spread = math.exp(np.quantile(by_path, 1.0 - alpha))
    one_for_all = math.exp(np.quantile(np.concatenate(list(apart.values())), 1.0 - alpha))
    return {'spread': spread, 'paths': one_for_all / spread, 'following': float(np.median(tightness)) / one_for_all}


def show_frames(found: dict) -> None:
    """Prints what `measure_frames` gave."""
    for part in ('whole', 'rest', 'rest_by_whole'):
        row = found['summary'][part]
        print(f'{part}: coverage {100 * row["coverage"]:.2f} % of {found["summary"]["frames"]} frames, bound/latency '
              f'{row["median_tightness"]:.3f} in the median')
    print('bound/latency of whole frames = ' + ' x '.join(f'{name} {factor:.3f}'
                                                          for name, factor in found['excess'].items()))
    print(f'median slowdown {found["summary"]["median_slowdown"]:.2f}; latencies {found["times"]}')


def forecast_error(forecast: PathForecast, events: Sequence[Frame | Look]) -> dict[str, float]:
    """How far idle forecasts lie from what the paths took, without a slowdown: over the paths, from their medians and,
    as `between_paths`, without what neighbouring frames share."""
    errors = [abs(forecast.forecast_ms(path) / np.median(times_ms) - 1.0)
              for path, times_ms in _by_path(events).items()]
    between = [abs(math.expm1(np.median(logs))) for logs in _logs_beside_neighbours(forecast, events).values()]
    return {'median': float(np.median(errors)), 'p90': float(np.quantile(errors, 0.9)), 'max': float(max(errors)),
            'between_paths_median': float(np.median(between)), 'between_paths_p90': float(np.quantile(between, 0.9))}


def _logs_beside_neighbours(forecast: PathForecast, events: Sequence[Frame | Look]) -> dict[ExecutionPath, list[float]]:
    """By path, each frame's `log(latency / forecast)` less the median of those of the frames around it on other
    paths."""
    frames = [event for event in events if isinstance(event, Frame)]
    logs = [math.log(frame.latency_ms / forecast.forecast_ms(frame.path)) for frame in frames]
    apart: dict[ExecutionPath, list[float]] = {}
    for at, (frame, log) in enumerate(zip(frames, logs)):
        around = range(max(0, at - AROUND), min(len(frames), at + AROUND + 1))
        others = [logs[index] for index in around if frames[index].path != frame.path]
        if others:
            apart.setdefault(frame.path, []).append(log - float(np.median(others)))
    return apart


def _by_path(events: Sequence[Frame | Look]) -> dict[ExecutionPath, list[float]]:
    times_ms: dict[ExecutionPath, list[float]] = {}
    for event in events:
        if isinstance(event, Frame):
            times_ms.setdefault(event.path, []).append(event.latency_ms)
    return times_ms


def evaluate(forecast: PathForecast, events: dict[str, list]) -> dict[str, dict]:
    """For each condition: the recorded frames one after the other, the long run, and a bound that never learns; and the
    long run through all conditions."""
    bounds, found = Bounds(forecast), {}
    scores = {name: np.log([event.latency_ms / forecast.forecast_ms(event.path) for event in events[name]
                            if isinstance(event, Frame)]) for name in CONDITIONS}
    first, scores['alone'] = np.array_split(scores['alone'], 2)
    rank = bounding_rank(len(first), 1.0 - bounds.calibrator.alpha) or len(first)
    offline = np.sort(first)[rank - 1]
    rng = random.Random(SIMULATION_SEED)
    for name in CONDITIONS:
        found[name] = {'recorded': summary(bounds.follow(events[name])),
                       'simulated': simulate(forecast, [events[name]], rng),
                       'offline_factor_coverage': float(np.mean(scores[name] <= offline))}
    found[MIXED] = {'simulated': simulate(forecast, list(events.values()), rng)}
    return found


def simulate(forecast: PathForecast, conditions: Sequence[Sequence[Frame | Look]], rng: random.Random) -> dict:
    """Summary of a long run, and the worst coverage in it, of whole frames: over stretches of consecutive frames and
    over paths."""
    drawn = resample(conditions, rng)
    rows = Bounds(forecast).follow(drawn)
    held = rows[:, 2] >= 1.0
    paths = np.array([str(event.path) for event in drawn if isinstance(event, Frame)])
    return {**summary(rows), 'worst_stretch': {str(length): worst_stretch(held, length) for length in WINDOWS},
            'worst_path': min(float(held[paths == path].mean()) for path in np.unique(paths))}


def resample(conditions: Sequence[Sequence[Frame | Look]], rng: random.Random,
             frames: int = SIMULATED_FRAMES) -> list[Frame | Look]:
    """A sequence of at least so many frames: stretches of 1 to `MOST_BLOCKS` blocks of consecutive events, each stretch
    from one condition, blocks drawn with replacement."""
    drawn, count = [], 0
    while count < frames:
        events = rng.choice(conditions)
        for _ in range(rng.randint(1, MOST_BLOCKS)):
            start = rng.randrange(max(1, len(events) - BLOCK + 1))
            block = events[start:start + BLOCK]
            drawn += block
            count += sum(isinstance(event, Frame) for event in block)
    return drawn


def worst_stretch(held: np.ndarray, length: int) -> float:
    """Smallest share of held bounds over `length` consecutive frames, over all of them where there are fewer."""
    sums = np.concatenate(([0], np.cumsum(held)))
    length = min(length, len(held))
    return float((sums[length:] - sums[:-length]).min() / length)


def summary(rows: np.ndarray) -> dict:
    """Error, coverage and tightness of what `Bounds.follow` gave."""
    slowdown, forecast, bound, rest_forecast, rest_by_whole, rest_bound = rows.T
    parts = {'whole': (forecast, bound), 'rest': (rest_forecast, rest_bound),
             'rest_by_whole': (rest_forecast, rest_by_whole)}
    return {'frames': len(rows), 'median_slowdown': float(np.median(slowdown)), **{
        name: {'median_error': float(np.median(np.abs(expected - 1.0))), 'coverage': float(np.mean(limit >= 1.0)),
               'miss_ratio_upper_95': clopper_pearson_upper(int(np.sum(limit < 1.0)), len(rows)),
               'median_tightness': float(np.median(limit))} for name, (expected, limit) in parts.items()}}


def times_of(events: Sequence[Frame | Look]) -> dict[str, float]:
    """Latencies of the paths, each path weighing the same in the mean of medians, and of all frames."""
    by_path = _by_path(events)
    every_ms = [latency_ms for times_ms in by_path.values() for latency_ms in times_ms]
    p95, p99 = np.quantile(every_ms, (0.95, 0.99))
    return {'frames': len(every_ms),
            'mean_of_path_medians_ms': float(np.mean([np.median(ms) for ms in by_path.values()])),
            'p95_ms': float(p95), 'p99_ms': float(p99)}


def check_goals(found: dict[str, dict]) -> list[dict]:
    """What became of each goal under each setting and condition, of whole frames and of what is left from mid-way."""
    goals = []
    for setting, result in found.items():
        for condition, rows in result['conditions'].items():
            for part in ('whole', 'rest'):
                wanted = [('coverage off its target', GOAL_COVERAGE_OFF,
                           abs(rows['simulated'][part]['coverage'] - (1.0 - result['alpha'])))]
                if 'recorded' in rows:
                    wanted += [('median error', GOAL_ERROR, rows['recorded'][part]['median_error']),
                               ('median bound/latency', GOAL_TIGHTNESS, rows['recorded'][part]['median_tightness'])]
                goals += [{'goal': name, 'setting': setting, 'condition': condition, 'of': part, 'at_most': most,
                           'reached': reached, 'met': reached <= most} for name, most, reached in wanted]
    return goals


def show(found: dict[str, dict]) -> None:
    """Prints the tables, with the goals of the figures."""
    console = Console(width=170)
    table = Table(title=f'bounds of {PATHS} paths; goals: error < 5 %, coverage 99 +- 0.2 % over {SIMULATED_FRAMES} '
                        'simulated frames, bound/latency < 1.2')
    for title in ('setting', 'condition', 'of', 'frames', 'slowdown', 'error %', 'cover %', 'bound/lat.',
                  'sim. cover %', 'bound/lat.', 'worst 200', 'worst 500', 'worst path'):
        table.add_column(title, justify='left' if title in ('setting', 'condition', 'of') else 'right')
    for setting, result in found.items():
        for condition, rows in result['conditions'].items():
            for part, words in (('whole', 'whole'), ('rest', 'rest'), ('rest_by_whole', "rest, whole's")):
                recorded, simulated = rows.get('recorded'), rows['simulated']
                cells = [''] * 5 if recorded is None else [
                    str(recorded['frames']), f'{recorded["median_slowdown"]:.2f}',
                    f'{100 * recorded[part]["median_error"]:.1f}', f'{100 * recorded[part]["coverage"]:.1f}',
                    f'{recorded[part]["median_tightness"]:.3f}']
                worst = [*simulated['worst_stretch'].values(), simulated['worst_path']] if part == 'whole' else []
                table.add_row(setting, condition, words, *cells, f'{100 * simulated[part]["coverage"]:.2f}',
                              f'{simulated[part]["median_tightness"]:.3f}', *(f'{100 * share:.1f}' for share in worst))
            if 'recorded' in rows:
                table.add_row(setting, condition, 'whole, fixed', '', '', '',
                              f'{100 * rows["offline_factor_coverage"]:.1f}')
        table.add_section()
    console.print(table)
    for setting, result in found.items():
        for name, error in result['forecast_error'].items():
            console.print(f'{setting}, {name}: idle forecasts lie {100 * error["median"]:.1f} % from the paths\' '
                          f'medians (median over the paths; 90 % quantile {100 * error["p90"]:.1f} %), between paths '
                          f'{100 * error["between_paths_median"]:.1f} % ({100 * error["between_paths_p90"]:.1f} %)')
    table = Table(title='latency in ms: mean over paths of their median, 95 % and 99 % quantiles of all frames')
    for title in ('setting', *(f'{name} {what}' for name in CONDITIONS for what in ('mean', 'p95', 'p99'))):
        table.add_column(title, justify='left' if title == 'setting' else 'right')
    for setting, result in found.items():
        table.add_row(setting, *(f'{result["times"][name][key]:.1f}' for name in CONDITIONS
                                 for key in ('mean_of_path_medians_ms', 'p95_ms', 'p99_ms')))
    console.print(table)
    goals = check_goals(found)
    for name in dict.fromkeys(goal['goal'] for goal in goals):
        rows = [goal for goal in goals if goal['goal'] == name]
        missed = [f'{row["setting"]}, {row["condition"]}, {row["of"]} {row["reached"]:.3f}' for row in rows
                  if not row['met']]
        console.print(f'goal: {name} at most {rows[0]["at_most"]:g}: met in {len(rows) - len(missed)} of {len(rows)}'
                      + (f'; NOT met: {"; ".join(missed)}' if missed else ''))


def run_setting(name: str, args: argparse.Namespace, folder: Path) -> dict:
    """Measures one setting in a new process."""
    threads, wait_policy = SETTINGS[name]
    environment = {**os.environ, **process_environment(threads)}
    environment.pop('OMP_WAIT_POLICY', None)
    if wait_policy:
        environment['OMP_WAIT_POLICY'] = wait_policy
    out = folder / 'found.json'
    print(f'measuring {name}', file=sys.stderr, flush=True)
    command = [sys.executable, __file__, '--weights', str(args.weights), '--measure', name, '--out', str(out)]
    subprocess.run(command + ['--quick'] * args.quick, env=environment, check=True)
    return json.loads(out.read_text(encoding='utf-8'))


def main() -> None:
    parser = argparse.ArgumentParser(description=' '.join(__doc__.split('\n\n')[0].split()))
    parser.add_argument('--weights', type=Path, default=Path('models/compact.safetensors'))
    parser.add_argument('--settings', nargs='+', choices=SETTINGS, default=list(SETTINGS), metavar='SETTING',
                        help=f'of {", ".join(map(repr, SETTINGS))}; results are written when all are measured')
    parser.add_argument('--quick', action='store_true', help='fewer frames; nothing is written')
    parser.add_argument('--frames', type=int, help='run so many frames in fact, at least 1000, in place of all this')
    parser.add_argument('--slowest-ms', type=float, default=25.0, help='of the paths of --frames')
    parser.add_argument('--measure', choices=SETTINGS, help=argparse.SUPPRESS)
    parser.add_argument('--out', type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        found = measure(args.weights, SETTINGS[args.measure][0], args.quick)
        args.out.write_text(json.dumps(found), encoding='utf-8')
        return
    load_before = round(os.getloadavg()[0], 2)
    if args.frames is not None:
        if args.frames < 1000:
            raise ValueError(f'--frames is {args.frames}, expected at least 1000')
        restart_with_environment(1)
        found = measure_frames(args.weights, args.frames, args.slowest_ms)
        show_frames(found)
        file = RESULTS.with_name('path_bounds_frames.json')
        write_text_atomically(file, json.dumps({'date': date.today().isoformat(), 'load_average_before': load_before,
                                                **found}, indent=1) + '\n')
        print(f'wrote {file}')
        return
    with tempfile.TemporaryDirectory() as folder:
        found = {name: run_setting(name, args, Path(folder)) for name in args.settings}
    show(found)
    if not args.quick and set(found) == set(SETTINGS):
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps({
            'date': date.today().isoformat(), 'load_average_before': load_before, 'paths': PATHS,
            'seeds': {'paths': PATHS_SEED, 'profile': 0, 'simulation': SIMULATION_SEED},
            'simulated_frames': SIMULATED_FRAMES, 'block': BLOCK, 'goals': check_goals(found), 'settings': found},
            indent=1) + '\n', encoding='utf-8')
        print(f'wrote {RESULTS}')


if __name__ == '__main__':
    sys.exit(exit_status(Path(__file__).name, main))
