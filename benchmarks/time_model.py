"""What each part of the time model earns: recorded frames replayed with the part switched off.

    python benchmarks/time_model.py --record      frames of random paths alone, beside a co-runner, and beside bursts
    python benchmarks/time_model.py               replays them, some minutes; any machine gives the same

Recorded is the time of every segment of the default network on this device's engine, on one thread, at the priority
that the detector node asks for; it needs prepared segments (`profile --all-paths`). In a replay the real
inference loop chooses paths against budgets that wander, on a clock that advances by what each segment of the path it
takes would have lasted: its forecast times what the recorded frame's segment took over its own. What a recorded frame
took beside its segments stands for publishing. The slowdown is that of its own frames. The forecast is the shipped
profile's, brought to this machine by the median ratio of the frames alone.

Of each row: `late`, feasible frames whose answer was late; `beyond`, frames that exceeded the bound of the path that
they ran; `rest`, the same of what was left at each decision of a frame; bound over time of the network, median, and that
of frames 50 to 300; the mean quality of paths, AP, late and aborted frames counting 0; and how much higher that is than
with all parts on the same budgets, with the standard error over several draws of these. `again late` is the share of
frames that were late right after a late one. The rows `start factor 5` begin with a profile whose frames scatter so
much that its limit is 5 times the forecast.
"""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from parts.beside_programs import beside_programs
from parts.harness import ROOT, Run, option, run_script, show

from deadline_perception.core.device import use_threads
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.decision.policy import Policy
from deadline_perception.extras.contention.load import busy_programs
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.networks.model_reference import load_network
from deadline_perception.runtime.job import Job, StampReading
from deadline_perception.runtime.loading import SetupError, make_policy, warm_up
from deadline_perception.runtime.timed_inference import TimedInference
from deadline_perception.system.priority import Role, ThreadPriority
from deadline_perception.timing.calibration import BoundCalibrator
from deadline_perception.timing.contention.slowdown import SlowdownEstimator
from deadline_perception.timing.part_bound import PartBound
from deadline_perception.timing.path_bound import PathForecast, SegmentForecast
from deadline_perception.timing.profile import LatencyProfile
from deadline_perception.timing.recent_times import START_DEVIATIONS, RecentTimes, StartRatio
from deadline_perception.timing.time_model import TimeModel, TimeParts
from deadline_perception.tools.profile import restart_with_environment
from deadline_perception.tools.support.file_arguments import DEFAULT_WEIGHTS

TRACES = ROOT / 'benchmarks' / 'results' / 'time_model_traces.json'
PROFILE = ROOT / 'models' / 'profiles' / f'{DEFAULT_WEIGHTS.stem}-reference-t1.json'
WEIGHTS = ROOT / DEFAULT_WEIGHTS
CONDITIONS = ('alone', 'busy', 'bursts')
SEEDS, FRAMES = 3, 1000  # the latter are recorded under each condition
ALL, LOOSE = 'all parts', 'start factor 5'
EARLY = slice(50, 300)  # frames
START_FACTOR = 5.0
SWITCHES = tuple(part.name for part in fields(TimeParts) if part.name != 'bounds')
BURSTS = (
    'import random, sys, time\nrng = random.Random(int(sys.argv[1]))\nwhile True:\n'
    '    until = time.monotonic() + rng.uniform(0.2, 1.5)\n    while time.monotonic() < until:\n'
    '        sum(value * value for value in range(20_000))\n    time.sleep(rng.uniform(0.2, 1.5))\n'
)


@dataclass(frozen=True)
class Recorded:
    """One frame: its path, what each segment took (0 where it was skipped), and the rest of its time, ms."""

    path: str
    segments_ms: tuple[float, ...]
    rest_ms: float


def record(frames: int) -> dict[str, list[Recorded]]:
    """Frames of random paths under each condition, taken on this machine as it is now."""
    restart_with_environment(1)
    use_threads(1)
    network, _ = load_network(str(WEIGHTS), 'cpu')
    needed = LatencyProfile.load(PROFILE).engine.partition(' ')[0]
    if not network.engine.identity.startswith(needed):
        raise SetupError(
            f'engine is {network.engine.identity}, expected {needed}, as the forecast is of it; prepare '
            'its segments: deadline-perception profile --all-paths'
        )
    images = [frame.load_bgr() for frame in render_drive(seconds=4.0).frames]
    warm_up(network, images[0].shape[:2])
    priority = ThreadPriority('auto', lock_memory=False)
    priority.raise_thread(Role.INFERENCE)

    def frame_of(path: ExecutionPath) -> Recorded:
        priority.between_frames()  # else the system ends a thread of real-time priority that never waits
        return record_frame(network, rng.choice(images), path)

    rng, paths = random.Random(0), list(network.path_space)
    conditions = {
        'alone': nullcontext(),
        'busy': busy_programs(1),
        'bursts': beside_programs(BURSTS, [('1',), ('2',)]),
    }
    assert tuple(conditions) == CONDITIONS
    found: dict[str, list[Recorded]] = {}
    for name, load in conditions.items():
        with load:
            found[name] = [frame_of(rng.choice(paths)) for _ in range(frames)]
    return found


def record_frame(network, image: np.ndarray, path: ExecutionPath) -> Recorded:
    """Runs one frame."""
    segments_ms = [0.0] * len(network.path_space.segments)
    begun_ms = now_ms()
    run = network.start(image, path)
    while not run.finished:
        segment = run.segment
        segments_ms[segment] = run.run_segment()
    run.result()
    rest_ms = now_ms() - begun_ms - sum(segments_ms)
    return Recorded(
        str(path), tuple(round(took_ms, 4) for took_ms in segments_ms), round(rest_ms, 4)
    )


class ReplayedNetwork:
    """Lets a clock advance by what a recorded frame says that each segment of a path would have taken."""

    def __init__(self, forecast: SegmentForecast) -> None:
        self._forecast, self.path_space = forecast, forecast.path_space
        self.now_ms, self._ratios = 0.0, ()

    def follow(self, frame: Recorded) -> None:
        """From now on goes as a recorded frame went; a segment that it skipped, as its whole."""
        path = self.path_space.parse(frame.path)
        expected_ms = [
            self._forecast.segment_ms(at, path) for at in range(len(self.path_space.segments))
        ]
        whole = sum(frame.segments_ms) / sum(expected_ms)
        self._ratios = [
            took_ms / forecast_ms if took_ms > 0.0 and forecast_ms > 0.0 else whole
            for took_ms, forecast_ms in zip(frame.segments_ms, expected_ms)
        ]

    def start(self, image: object, path: ExecutionPath) -> ReplayedRun:
        """Begins a frame."""
        return ReplayedRun(self, path)

    def segment_ms(self, segment: int, path: ExecutionPath) -> float:
        """Time of one segment of the frame that is followed."""
        return self._forecast.segment_ms(segment, path) * self._ratios[segment]


class ReplayedRun:
    """A frame of it."""

    def __init__(self, network: ReplayedNetwork, path: ExecutionPath) -> None:
        self._network, self.path, self.segment = network, path, 0

    @property
    def finished(self) -> bool:
        """All segments have run."""
        return self.segment == len(self._network.path_space.segments)

    def redirect(self, path: ExecutionPath) -> None:
        """Goes on along another path."""
        self.path = path

    def run_segment(self, begun_ms: float) -> float:
        """Lets the clock advance."""
        took_ms = self._network.segment_ms(self.segment, self.path)
        self._network.now_ms += took_ms
        self.segment += 1
        return took_ms

    def result(self) -> str:
        """Something."""
        return 'found'


@dataclass(frozen=True)
class Figures:
    """Of one replay; see the module."""

    late: float
    beyond: float
    rest_beyond: float
    bound_over_time: float
    bound_over_time_early: float
    quality: float
    late_after_late: float


def replay(
    trace: Sequence[Recorded],
    forecast: SegmentForecast,
    start: StartRatio,
    policy: Policy,
    quality: PathQuality,
    parts: TimeParts,
    seed: int,
) -> Figures:
    """Goes through a trace against budgets that wander, from the cheapest path's to more than the whole network's."""
    space, rng = forecast.path_space, random.Random(seed)
    bound = PartBound(BoundCalibrator(0.01, 0.05, math.log(8.0)), RecentTimes(0.01, start))
    network, model = ReplayedNetwork(forecast), TimeModel(space, forecast, bound, parts=parts)
    inference = TimedInference(network, space, policy, clock_ms=lambda: network.now_ms)
    estimator = SlowdownEstimator()
    least_ms = 1.3 * float(forecast.table(list(space)).min())
    most_ms = 1.2 * forecast.forecast_ms(space.largest)
    feasible = beyond = 0
    late: list[bool] = []
    rests_beyond, over, qualities, budget_ms = [], [], [], math.sqrt(least_ms * most_ms)
    for frame in trace:
        budget_ms = min(max(budget_ms * math.exp(rng.gauss(0.0, 0.15)), least_ms), most_ms)
        network.follow(frame)
        times = model.begin(estimator.slowdown)
        due_ms = network.now_ms + budget_ms
        job = Job(None, network.now_ms, StampReading(0.0, '', 0))
        job.times = times
        due_before_ms = due_ms - times.reserve.publishing_ms
        run = inference.begin(None, job, due_ms=due_before_ms, may_abort=True)
        run.until_answer()
        is_aborted = not run.ended
        if is_aborted:  # it goes on along the cheapest path
            run.for_tracks(lambda: network.now_ms, lambda path, segment: '')
        job.is_in_time = not is_aborted and network.now_ms + frame.rest_ms <= due_ms
        job.publish_ms = None if is_aborted else frame.rest_ms
        model.publishing.observe(frame.rest_ms)
        model.observe(job)
        estimator.observe_frame(
            forecast.forecast_ms(job.path), job.network_ms, times.bound_ms(job.path)
        )
        skipped_ms = times.skipped_ms(job.plan.path, times.expected_ms(job.path))
        took_ms = job.network_ms + skipped_ms
        bound_ms = times.bound_ms(job.path) + skipped_ms * times.factor / times.slowdown
        for decision in job.decisions:
            spent = decision.progress * times.slowdown
            _, factor, interruption_ms = times.bound_from(decision.segment, 1.0, spent)
            rest_ms = decision.forecast_ms * factor + interruption_ms
            skipped_ms = max(
                0.0,
                decision.forecast_ms * times.slowdown
                - times.expected_ms(job.path, decision.segment),
            )
            rests_beyond.append(job.network_ms - decision.spent_ms + skipped_ms > rest_ms)
        feasible += job.plan.feasible
        late.append(bool(job.plan.feasible) and not job.is_in_time)
        beyond += took_ms > bound_ms
        over.append(bound_ms / took_ms)
        qualities.append(quality.quality(job.path) if job.is_in_time else 0.0)
    again = [after for before, after in zip(late, late[1:]) if before]
    return Figures(
        sum(late) / max(feasible, 1),
        beyond / len(trace),
        statistics.mean(rests_beyond),
        statistics.median(over),
        statistics.median(over[EARLY]),
        statistics.mean(qualities),
        statistics.mean(again) if again else 0.0,
    )


def read_traces(file: Path) -> dict[str, list[Recorded]]:
    """As `record` gave them."""
    content = json.loads(file.read_text(encoding='utf-8'))
    return {
        name: [Recorded(path, tuple(segments_ms), rest_ms) for path, segments_ms, rest_ms in frames]
        for name, frames in content['traces'].items()
    }


def write_traces(run: Run, frames: int) -> None:
    """Records, and keeps what was recorded."""
    found = {
        name: [[frame.path, frame.segments_ms, frame.rest_ms] for frame in trace]
        for name, trace in record(frames).items()
    }
    TRACES.write_text(
        json.dumps({'load_before': run.load_before, 'traces': found}) + '\n', encoding='utf-8'
    )
    print(f'wrote {TRACES}')


def variants() -> dict[str, TimeParts]:
    """All parts, each one switched off, and nothing but forecasts."""
    alone = {f'without {name}': TimeParts(**{name: False}) for name in SWITCHES}
    return {
        ALL: TimeParts(),
        LOOSE: TimeParts(),
        **alone,
        'forecast alone': TimeParts(**dict.fromkeys(SWITCHES, False)),
    }


def rows_of(condition: str, quick: bool) -> tuple[list[dict], float]:
    """Figures of all variants under one condition, and what the profile's times were scaled by."""
    space = load_network(str(WEIGHTS), 'cpu')[0].path_space
    traces, profiled = read_traces(TRACES), PathForecast(LatencyProfile.load(PROFILE), space)
    scale = statistics.median(
        sum(frame.segments_ms) / profiled.forecast_ms(space.parse(frame.path))
        for frame in traces['alone']
    )
    forecast = SegmentForecast(
        space, {key: cost_ms * scale for key, cost_ms in profiled.costs_ms.items()}
    )
    start = profiled.start_ratio()
    loose = StartRatio(0.0, math.log(START_FACTOR) / START_DEVIATIONS)
    quality = PathQuality.load(WEIGHTS.with_suffix('.quality.json'), space)
    policy = make_policy('frontier', space, forecast, quality)
    trace, rows = traces[condition][: 60 if quick else None], []
    for name, parts in variants().items():
        begin = loose if name == LOOSE else start
        figures = [
            replay(trace, forecast, begin, policy, quality, parts, seed) for seed in range(SEEDS)
        ]
        mean = {
            key: statistics.mean(getattr(figure, key) for figure in figures)
            for key in asdict(figures[0])
        }
        if name == ALL:
            whole = figures
        gains = [figure.quality - of_all.quality for figure, of_all in zip(figures, whole)]
        rows.append(
            {
                'condition': condition,
                'parts': name,
                'frames': len(trace),
                **mean,
                'gain': statistics.mean(gains),
                'gain_error': statistics.stdev(gains) / math.sqrt(SEEDS),
            }
        )
    return rows, scale


def main(run: Run) -> None:
    """Records or replays."""
    if run.args.record:
        write_traces(run, FRAMES)
        return
    # Each condition in a process of its own.
    with ProcessPoolExecutor(len(CONDITIONS), get_context('spawn')) as pool:
        of_conditions = list(pool.map(rows_of, CONDITIONS, [run.quick] * len(CONDITIONS)))
    rows = [row for rows, _ in of_conditions for row in rows]
    scale = of_conditions[0][1]
    heads = 'condition | parts | frames | late % | beyond % | rest % | bound/time | early | again late % | AP | AP gained'
    show(
        'time model, each part switched off',
        heads,
        [
            (
                row['condition'],
                row['parts'],
                row['frames'],
                *(100.0 * row[key] for key in ('late', 'beyond', 'rest_beyond')),
                f'{row["bound_over_time"]:.3f}',
                f'{row["bound_over_time_early"]:.3f}',
                100.0 * row['late_after_late'],
                100.0 * row['quality'],
                f'{100.0 * row["gain"]:+.2f} +- {100.0 * row["gain_error"]:.2f}',
            )
            for row in rows
        ],
    )
    run.write(seeds=SEEDS, scale=scale, profile=PROFILE.name, rows=rows)


if __name__ == '__main__':
    run_script(
        main,
        {
            '--record': option(False, 'record frames in place of replaying them'),
        },
        quick='60 frames of each trace',
    )
