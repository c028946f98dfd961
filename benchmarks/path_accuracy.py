"""Average precision of execution paths against their time measured in place: the frontier, and what each operator buys.

    python benchmarks/path_accuracy.py [--quick] [--data ../shared/data/carla/val.json] [--drives SOURCE ...]
        [--weights FILE] [--old CHECKOUT] [--seeds FILE FILE FILE] [--alone FILE=PATH ...]

Scores a sample of paths that shows every setting of every operator, then, twice, those that a profile and the qualities
expected so far put on the frontier or next to it, so that the frontier is measured. Then all of them are timed in turn,
as whole frames.

What is measured is the network as it ships: on a CPU by the prepared segments of --engine; the paths of its frontier
are scored and timed in eager PyTorch too. --old is a checkout of an older commit (895830d: group norms, five skips,
three heads), whose own code computes its own weights on the same images, in eager PyTorch: those of its paths that its
table of qualities and its times here put on the frontier or next to it. Frames of old and new paths and of both engines
are timed in turn, in one random order.

Whatever concerns the choice of paths is judged as in the shipped table of qualities: by the ranking AP, the mean over
the classes that have objects enough (six), on all images, those of --data and those of --drives, which the training did
not see; a class that a source does not name is not scored on its images. "Expected" is what the decision goes by:
measurement and prediction weighed by their errors. The older network knows the images of --data alone: what is compared
with it is the mean over the classes that have objects enough there (V+L: vehicle and traffic light).

An operator's effect is the largest path less the same path with this operator alone at its smallest setting; intervals
(95 %) come from drawing runs of neighbouring images anew. --seeds are weights of one recipe that differ by their seed
alone; --weights may be their model soup. An operator pays when its effect, of the weights and in the mean of the seeds,
is larger than the range of the seeds' effects. Seeds that begin with the same weights show the spread of what came
after.

--alone compares a path with weights that were trained on that path alone; with --seeds it is judged against the mean of
the seeds, since a model soup of several runs has had more compute.

The frontier shown is chosen on all images, so that it leans to the good side. What is judged is chosen on one half of
the images and counts on the other (held_out_choice.py): the useful points of the frontier (runs of neighbours taken in
turn, both ways, the lower count) and what the best of the other paths has over the full one (ten ways to halve, mean).
The same halves show what expected values are worth. The sources follow one another, so that one run of eight images may
span the end of one and the beginning of the next: three of 36 runs.

Weights of --seeds and --alone are computed eagerly, and --alone is judged on --data. On CUDA the network that is timed
replays graphs, as the node does.
Prints tables, writes results/path_accuracy.json and results/path_accuracy.png; with --quick below out/benchmarks.
"""
from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from detection_pool import MODELS, DetectionPool, Found, Sources, read_sources
from held_out_choice import expected_points, frontier_of, half_draws, held_out, summary
from old_network import OldNetwork
from path_figures import GOALS, NESTED_POINTS, goal_rows, plot, print_tables
from deadline_perception.decision.frontier import pareto_frontiers
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.datasets.class_names import relabelled
from deadline_perception.detector.checkpoint import load_detector
from deadline_perception.detector.detections import Detections
from deadline_perception.evaluation.average_precision import average_precision
from deadline_perception.engine.choice import ENGINES
from deadline_perception.engine.eager import Eager
from deadline_perception.evaluation.path_accuracy import pooled_ap, ranking_classes, sample_paths
from deadline_perception.evaluation.resampled_precision import bootstrap_draws, resampled_ap
from deadline_perception.execution_path import SKIP, ExecutionPath, PathSpace
from deadline_perception.latency.device import read_device_facts, use_threads
from deadline_perception.latency.json_file import write_text_atomically
from deadline_perception.latency.path_bound import PathForecast
from deadline_perception.latency.profile import LatencyProfile, measure_profile, time_frame
from deadline_perception.model_set.model_reference import load_network
from deadline_perception.tools.command_line import exit_status
from deadline_perception.tools.profile import restart_with_environment

RESULTS = Path(__file__).parent / 'results' / 'path_accuracy.json'
QUICK_RESULTS = RESULTS.parents[2] / 'out' / 'benchmarks' / RESULTS.name  # never in place of published ones
DRIVES = tuple(f'drive:seed={seed},seconds=32,rate_hz=1.5' for seed in (900, 901, 902))  # as in models/compact.md
DRAWS = 300
SEARCHES = 2
PROFILE_S, QUICK_PROFILE_S = 40.0, 8.0
OLD_CHOICE_ROUNDS, QUICK_ROUNDS = 3, 1  # frames of each path of the old table, to find those of its frontier


@dataclass(frozen=True)
class Scores:
    """A path's average precision, 0 to 100: over all classes, at IoU 0.50, and over the classes that rank."""

    ap: float
    ap50: float
    pooled: float


@dataclass(frozen=True, eq=False)
class Ranked:
    """Ranking AP of a path, points: as measured, and float64 on draws of images, `[DRAWS]` of all, and of halves as
    `half_draws` has them."""

    value: float
    draws: np.ndarray
    halves: np.ndarray


class Judge:
    """Scores detections against the known objects of some sources.

    Args:
        sources: annotated images. Detections may go on to images of further sources, which are not looked at.
        limit: only so many images of each source.
        class_names: of the network.

    Attributes:
        images: how many there are.
        dataset: name of all sources.
        ranked_by: the classes that rank paths.
    """

    def __init__(self, sources: Sources, limit: int | None, class_names: tuple[str, ...]) -> None:
        sequence = read_sources(sources, limit, class_names)
        self.images, self.dataset = len(sequence.frames), sequence.name
        self._ground_truths = [relabelled(frame.ground_truth, sequence.class_names, class_names)
                               for frame in sequence.frames]
        self._names = class_names
        self.ranked_by = list(ranking_classes(self._ground_truths, class_names) or class_names)
        self._draws = bootstrap_draws(self.images, DRAWS)
        self._halves = half_draws(self.images)

    def scores(self, detections: list[Detections]) -> Scores:
        """A path's scores."""
        result = average_precision(detections[:self.images], self._ground_truths, self._names)
        return Scores(100 * (result.ap or 0.0), 100 * (result.ap50 or 0.0), 100 * pooled_ap(result, self.ranked_by))

    def ranked(self, detections: list[Detections]) -> Ranked:
        """A path's AP by which paths are ranked, as measured and on all draws."""
        as_measured, halves = np.ones((1, self.images), np.int64), self._halves.reshape(-1, self.images)
        values = self._resampled(detections, np.vstack([as_measured, self._draws, halves]), self.ranked_by)
        return Ranked(float(values[0]), values[1:1 + DRAWS], values[1 + DRAWS:].reshape(self._halves.shape[:3]))

    def resampled_ap(self, detections: list[Detections]) -> np.ndarray:
        """AP over all classes, points, of each draw of all images: float64 `[DRAWS]`."""
        return self._resampled(detections, self._draws, None)

    def _resampled(self, detections: list[Detections], draws: np.ndarray, classes: list[str] | None) -> np.ndarray:
        return 100 * resampled_ap(detections[:self.images], self._ground_truths, self._names, draws, classes)


def interval(larger: np.ndarray, smaller: np.ndarray) -> tuple[float, float]:
    """95 % interval of a gain, points, had other images been drawn."""
    low, high = np.nanquantile(larger - smaller, (0.025, 0.975))
    return float(low), float(high)


def smallest_settings(space: PathSpace) -> dict[str, ExecutionPath]:
    """The largest path with one operator at its smallest setting, by the operator's name."""
    full = space.largest
    paths = {operator.name.replace('_', ' '): full.replace(**{operator.name: operator.settings[0]})
             for operator in space.operators}
    skips = space.of_kind(SKIP)
    if len(skips) > 1:
        paths['all skips'] = full.replace(**{skip.name: 'skip' for skip in skips})
    return {name: path for name, path in paths.items() if path != full}


def near_frontier(space: PathSpace, forecast: PathForecast, quality: PathQuality, count: int) -> list[ExecutionPath]:
    """Unmeasured paths of the expected frontier, then of the frontier without those, until there are `count`."""
    paths = list(space)
    times_ms, values = forecast.table(paths), quality.table(paths)
    left, chosen = np.arange(len(paths)), []
    while len(chosen) < count and len(left):
        members, _ = pareto_frontiers(np.zeros(len(left), int), times_ms[left], values[left])
        chosen += [paths[at] for at in left[members] if paths[at] not in quality.known]
        left = np.delete(left, members)
    return chosen[:count]


def measured_times(frames: dict[object, Callable[[int], float]], images: int, rounds: int) -> dict:
    """Median time of every kind of frame, ms; all kinds in turn in random order, the first round dropped.

    Args:
        frames: by any key, a function that runs a frame of an image, by its number, and returns its time in ms.
        images: number of images.
        rounds: frames of each kind.
    """
    rng = random.Random(0)
    samples: dict[object, list[float]] = {kind: [] for kind in frames}
    for number in range(rounds + 1):
        for kind in rng.sample(list(frames), len(frames)):
            taken_ms = frames[kind](rng.randrange(images))
            if number:
                samples[kind].append(taken_ms)
    return {kind: statistics.median(taken) for kind, taken in samples.items()}


def frames_of(detector, engine: Eager, images: list[np.ndarray], path: ExecutionPath) -> Callable[[int], float]:
    """Runs a path by an engine, for `measured_times`."""
    def run(number: int) -> float:
        detector.engine = engine
        return time_frame(detector, images[number], path)[0]

    return run


def old_choice(old: OldNetwork, images: int, count: int, rounds: int) -> list[str]:
    """Paths of an older network on and near its frontier, by its own table and times taken now; its longest and
    shortest.

    Args:
        old: the network.
        images: number of images.
        count: number of paths, at least 2.
        rounds: frames of each path of its table.
    """
    times_ms = measured_times({path: lambda image, path=path: old.time_ms(image, path) for path in old.measured},
                              images, rounds)
    left, chosen = dict(old.measured), [old.longest, old.shortest]
    while left and len(chosen) < count:
        members = frontier_of({path: times_ms[path] for path in left}, left)
        chosen += [path for path in members if path not in chosen]
        left = {path: value for path, value in left.items() if path not in members}
    return chosen[:count]


def old_rows(old: OldNetwork, args: argparse.Namespace, paths: list[str], times_ms: dict[object, float]) -> list[dict]:
    """Scores and times of paths of an older network."""
    judge = Judge([args.data], args.limit, old.class_names)
    found = {path: [Detections(*boxes) for boxes in images] for path, images in old.detect(paths).items()}
    return [{'path': path, 'ms': times_ms['old', path], **asdict(judge.scores(found[path]))}
            for path in sorted(paths, key=lambda path: times_ms['old', path])]


def monotonicity(times_ms: dict[ExecutionPath, float], ranked: dict[ExecutionPath, Ranked]) -> dict:
    """How well more work means better detections, by measured values: rank correlation, nested pairs in disorder."""
    paths = list(ranked)
    work = np.array([path.settings for path in paths])
    values = np.array([ranked[path].value for path in paths])
    nested = (work[:, None] >= work[None]).all(2) & ~np.eye(len(paths), dtype=bool)
    worse = nested & (values[:, None] < values[None] - NESTED_POINTS)
    rank = spearmanr([times_ms[path] for path in paths], values)[0]
    return {'rank_correlation_of_time_and_quality': float(rank), 'nested_pairs': int(nested.sum()),
            'nested_pairs_larger_is_worse': int(worse.sum())}


def operator_rows(space: PathSpace, judge: Judge, seeds: list[Found], scores: dict[ExecutionPath, Scores],
                  ranked: dict[ExecutionPath, Ranked], times_ms: dict[ExecutionPath, float]) -> list[dict]:
    """What each operator's largest setting buys over its smallest, all others at their largest.

    Args:
        space: of the paths.
        judge: the one of `ranked`.
        seeds: detections of the weights that differ by their seed.
        scores, ranked: of the full path and of those of `smallest_settings`; what pays goes by `ranked`.
        times_ms: of the same.
    """
    rows, full = [], space.largest
    for name, path in smallest_settings(space).items():
        gain = ranked[full].value - ranked[path].value
        low, high = interval(ranked[full].draws, ranked[path].draws)
        of_seeds = [judge.scores(found[full]).pooled - judge.scores(found[path]).pooled for found in seeds]
        rows.append({'operator': name, 'smallest': str(path), 'saves_ms': times_ms[full] - times_ms[path],
                     'ranked_points': gain, 'interval_points': [low, high], 'ranked_points_of_seeds': of_seeds,
                     **verdict(gain, low, of_seeds), 'ap_points': scores[full].ap - scores[path].ap,
                     'pooled_points': scores[full].pooled - scores[path].pooled})
    return rows


def verdict(gain: float, low: float, of_seeds: list[float]) -> dict:
    """Whether an operator pays: beyond the range of two seeds or more, else beyond chance in the choice of images."""
    if len(of_seeds) < 2:
        return {'mean_of_seeds': None, 'spread_of_seeds': None, 'pays': low > 0}
    mean, spread = statistics.fmean(of_seeds), max(of_seeds) - min(of_seeds)
    return {'mean_of_seeds': mean, 'spread_of_seeds': spread, 'pays': min(gain, mean) > spread}


def alone_row(judge: Judge, path: ExecutionPath, file: str, ours: list[Detections], seeds: list[list[Detections]],
              theirs: list[Detections], is_full: bool) -> dict:
    """A path of the network against the same path of weights that were trained on it alone.

    Args:
        judge: scores all.
        path: the path.
        file: weights trained alone.
        ours: detections of the network, one per image.
        seeds: those of each seed, perhaps none; their mean is judged if there are any, else `ours`.
        theirs: those of the weights trained alone.
        is_full: whether the goal of the full path holds.
    """
    own, alone, of_seeds = judge.scores(ours), judge.scores(theirs), [judge.scores(found).ap for found in seeds]
    judged = seeds or [ours]
    low, high = interval(judge.resampled_ap(theirs), np.mean([judge.resampled_ap(found) for found in judged], axis=0))
    goal = GOALS['alone, full path, points under' if is_full else 'alone, points under']
    return {'path': str(path), 'weights': file, 'ap': own.ap, 'pooled': own.pooled, 'ap_of_seeds': of_seeds,
            'ap_alone': alone.ap, 'pooled_alone': alone.pooled,
            'points_under': alone.ap - statistics.fmean(of_seeds or [own.ap]), 'interval_points': [low, high],
            'goal': goal}


def checked_rivals(parser: argparse.ArgumentParser, args: argparse.Namespace,
                   detector) -> list[tuple[Path, ExecutionPath]]:
    """The files of `--alone` with their paths; a wrong word ends the program now and not after minutes."""
    space = detector.path_space
    alone = []
    for text in args.alone:
        file, _, name = text.rpartition('=')
        try:
            path = {'full': space.largest, 'cheapest': space.smallest}.get(name) or space.parse(name)
        except ValueError as error:
            parser.error(f'--alone {text}: {error}')
        alone.append((Path(file), path))
    for file in (*args.seeds, *(file for file, _ in alone)):
        if not file.is_file():
            parser.error(f'{file} is no file')
        other = load_detector(file, args.device)
        if (other.path_space, other.class_names) != (space, detector.class_names):
            parser.error(f'{file} holds another network than {args.weights}')
    return alone


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--weights', type=Path, default=Path('models/compact.safetensors'), help='weights to measure')
    parser.add_argument('--engine', choices=ENGINES, default='auto', help='of the weights, on a CPU')
    parser.add_argument('--old', type=Path, help='checkout of an older commit to compare with')
    parser.add_argument('--old-paths', type=int, default=24, help='paths of it')
    parser.add_argument('--seeds', type=Path, nargs='*', default=[], help='weights of one recipe that differ by their '
                        'seed alone: the spread that operators are held against')
    parser.add_argument('--data', type=Path, default=Path('../shared/data/carla/val.json'), help='COCO annotations: '
                        'the images of the older network and of --alone')
    parser.add_argument('--drives', nargs='*', default=list(DRIVES), metavar='SOURCE', help='further sources, by which '
                        'paths are chosen too; none for --data alone')
    parser.add_argument('--profile', type=Path, help='latency profile that finds candidates; else one is measured')
    parser.add_argument('--alone', nargs='*', default=[], metavar='FILE=PATH', help='weights trained on one path '
                        'alone; PATH is full, cheapest or a name')
    parser.add_argument('--paths', type=int, default=60, help='paths of the sample')
    parser.add_argument('--extra', type=int, default=40, help='further paths on and near the expected frontier')
    parser.add_argument('--limit', type=int, help='use only so many images of each source')
    parser.add_argument('--rounds', type=int, default=8, help='times that each path is timed')
    parser.add_argument('--threads', type=int, default=1, help='CPU threads of the timing')
    parser.add_argument('--processes', type=int, default=2, help='processes that detect')
    parser.add_argument('--device', default='cpu', help='cpu or cuda')
    parser.add_argument('--out', type=Path, help='JSON file to write; the plot lies beside it')
    parser.add_argument('--quick', action='store_true', help='6 images of each source, 24 paths, 4 old ones: '
                        'shows that it works')
    args = parser.parse_args()
    if args.quick:
        args.limit, args.paths, args.extra, args.rounds, args.old_paths = 6, 20, 4, 2, 4
    if args.old_paths < 2:
        parser.error(f'--old-paths is {args.old_paths}, expected at least 2')
    if len(args.seeds) == 1:
        parser.error('--seeds has 1 file, expected none or at least 2: one shows no spread')
    out = args.out or (QUICK_RESULTS if args.quick else RESULTS)
    restart_with_environment(args.threads)
    use_threads(args.threads)
    load_before = round(os.getloadavg()[0], 2)
    detector = load_network(str(args.weights), args.device, MODELS, args.engine)[0]  # replays graphs on CUDA
    alone = checked_rivals(parser, args, detector)
    space, sources = detector.path_space, [args.data, *args.drives]
    known, judge = (Judge(chosen, args.limit, detector.class_names) for chosen in ([args.data], sources))
    images = [frame.load_bgr() for frame in read_sources([args.data], args.limit).frames[:40]]
    shipped = detector.engine
    print(f'{args.weights}: {len(space)} paths, {judge.images} images, engine {shipped.identity}. '
          f'{shipped.notice}',
          flush=True)
    profile = LatencyProfile.load(args.profile) if args.profile else measure_profile(
        detector, images, repeats=12, whole_paths=16, path_repeats=6,
        time_limit_s=QUICK_PROFILE_S if args.quick else PROFILE_S)
    forecast = PathForecast(profile, space)
    shrunk = list(smallest_settings(space).values())
    sample = wanted = list(dict.fromkeys([*sample_paths(space, args.paths), *shrunk, *(path for _, path in alone)]))
    found: Found = {}
    scores: dict[ExecutionPath, Scores] = {}
    ranked: dict[ExecutionPath, Ranked] = {}
    seeds, alone_rows, others, old_found = [], [], {}, []
    eager = Eager()
    with ExitStack() as stack:
        detecting = stack.enter_context(DetectionPool(sources, args.limit, args.processes, args.device))
        for _ in range(1 + SEARCHES):
            found.update(detecting.run(args.weights, wanted, args.engine))
            scores.update((path, known.scores(found[path])) for path in wanted)
            ranked.update(zip(wanted, detecting.each(judge.ranked, [found[path] for path in wanted])))
            quality = expected_points({path: each.value for path, each in ranked.items()},
                                      {path: each.draws for path, each in ranked.items()})
            wanted = near_frontier(space, forecast, quality, args.extra // SEARCHES)
            print(f'scored {len(scores)} paths', flush=True)
        for weights in args.seeds:
            seeds.append(detecting.run(weights, list(dict.fromkeys([space.largest, *shrunk,
                                                                    *(path for _, path in alone)]))))
            print(f'{weights} done', flush=True)
        for file, path in alone:
            theirs = detecting.run(file, [path], images=known.images)[path]
            alone_rows.append(alone_row(known, path, str(file), found[path], [seed[path] for seed in seeds], theirs,
                                        path == space.largest))
        expected = {path: 100 * quality.quality(path) for path in scores}
        kinds = {path: frames_of(detector, shipped, images, path) for path in scores}
        if shipped.identity != eager.identity:  # the same weights in eager PyTorch, where it matters
            eagerly = frontier_of({path: forecast.forecast_ms(path) for path in scores},
                                  {path: each.pooled for path, each in scores.items()})
            eagerly = list(dict.fromkeys([space.smallest, *eagerly, space.largest]))
            others = {path: known.scores(each) for path, each in
                      detecting.run(args.weights, eagerly, images=known.images).items()}
            kinds |= {('eager', path): frames_of(detector, eager, images, path) for path in others}
        old = args.old and stack.enter_context(OldNetwork(args.old, args.data, args.limit, args.processes))
        rounds = QUICK_ROUNDS if args.quick else OLD_CHOICE_ROUNDS
        old_paths = old_choice(old, len(images), args.old_paths, rounds) if old else []
        kinds |= {('old', path): lambda image, path=path: old.time_ms(image, path) for path in old_paths}
        print(f'times {len(kinds)} kinds of frames', flush=True)
        all_ms = measured_times(kinds, len(images), args.rounds)
        if old:
            old_found = old_rows(old, args, old_paths, all_ms)
    times_ms = {path: all_ms[path] for path in scores}
    halves = {path: each.halves for path, each in ranked.items()}
    choices = held_out(times_ms, halves, list(scores), space.largest)
    error = quality.prediction_error()
    result = {'date': date.today().isoformat(), 'device': asdict(read_device_facts(args.device)),
              'load_before': load_before, 'engine': shipped.identity,
              'weights': str(args.weights), 'weights_hash': detector.weights_hash,
              'seeds': [str(file) for file in args.seeds], 'dataset': judge.dataset, 'images': judge.images,
              'ranked_by': judge.ranked_by, 'pooled_dataset': known.dataset, 'pooled_images': known.images,
              'pooled_classes': known.ranked_by, 'frames_timed_per_path': args.rounds,
              'paths_of_the_network': len(space),
              'paths': [{'path': str(path), 'ms': times_ms[path], **asdict(scores[path]), 'ranked': ranked[path].value,
                         'expected': expected[path], 'error': 100 * quality.errors[path]}
                        for path in sorted(scores, key=times_ms.get)],
              'eager': [{'path': str(path), 'ms': all_ms['eager', path], **asdict(others[path])}
                        for path in sorted(others, key=lambda path: all_ms['eager', path])],
              'old': old_found,
              'frontier': [str(path) for path in frontier_of(times_ms, expected)], 'held_out': choices,
              'worth_of_expected': summary(choices),
              'worth_of_expected_sample': summary(held_out(times_ms, halves, sample, space.largest)),
              'operators': operator_rows(space, judge, seeds, scores, ranked, times_ms),
              'pays_beyond': 'the range of the seeds' if seeds else 'chance in the choice of images',
              'alone': alone_rows, 'monotonicity': monotonicity(times_ms, ranked), 'trust': quality.trust,
              'prediction_error': asdict(error), 'prediction_error_text': str(error)}
    result['goals'] = goal_rows(result, space)
    print_tables(result)
    write_text_atomically(out, json.dumps(result, indent=1) + '\n')
    plot(result, space, out.with_suffix('.png'))
    print(f'wrote {out} and {out.with_suffix(".png").name}')


if __name__ == '__main__':
    sys.exit(exit_status(Path(__file__).name, main))
