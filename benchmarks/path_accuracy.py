"""Average precision of execution paths against their time measured in place: the frontier, and what each operator buys.

    python benchmarks/path_accuracy.py [--quick] [--data ../shared/data/carla/val.json] [--drives SOURCE ...]
        [--weights FILE] [--seeds FILE FILE FILE]

Scores a sample of paths that shows every setting of every operator, then, twice, those that a profile and the qualities
expected so far put on the frontier or next to it, so that the frontier is measured. Then all of them are timed in turn,
as whole frames. On a CPU the network runs by the prepared segments of --engine; the paths of its frontier are scored
and timed in eager PyTorch too.

Whatever concerns the choice of paths is judged as in the shipped table of qualities: by the ranking AP, the mean over
the classes that have objects enough, on all images, those of --data and those of --drives, which the training did not
see; a class that a source does not name is not scored on its images. "Expected" is what the decision goes by:
measurement and prediction weighed by their errors.

An operator's effect is the largest path less the same path with this operator alone at its smallest setting; intervals
(95 %) come from drawing runs of neighbouring images anew. --seeds are weights of one recipe that differ by their seed
alone, computed eagerly; --weights may be their model soup. An operator pays when its effect, of the weights and in the
mean of the seeds, is larger than the range of the seeds' effects.

The frontier shown is chosen on all images, so that it leans to the good side. What is judged is chosen on one half of
the images and counts on the other (parts/held_out_choice.py). Prints tables, writes results/path_accuracy.json and
results/path_accuracy.png; with --quick below out/benchmarks.
"""
from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from parts.detection_pool import MODELS, DetectionPool, Found, Sources, read_sources
from parts.held_out_choice import expected_points, frontier_of, half_draws, held_out, summary
from parts.harness import Run, run_script, turns
from parts.path_figures import NESTED_POINTS, judge_goals, plot, print_tables
from deadline_perception.core.detections import Detections
from deadline_perception.core.device import read_device_facts, use_threads
from deadline_perception.core.execution_path import SKIP, ExecutionPath, PathSpace
from deadline_perception.datasets.class_names import relabelled
from deadline_perception.decision.frontier import pareto_frontiers
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.engines.choice import ENGINES
from deadline_perception.engines.eager import Eager
from deadline_perception.evaluation.average_precision import average_precision
from deadline_perception.evaluation.path_accuracy import pooled_ap, ranking_classes, sample_paths
from deadline_perception.evaluation.resampled_precision import bootstrap_draws, resampled_ap
from deadline_perception.networks.model_set.model_reference import load_network
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.timing.path_bound import PathForecast
from deadline_perception.timing.profile import LatencyProfile, measure_profile, time_frame
from deadline_perception.tools.profile import restart_with_environment

DRIVES = tuple(f'drive:seed={seed},seconds=32,rate_hz=1.5' for seed in (900, 901, 902))  # as in models/compact.md
DRAWS = 300
SEARCHES = 2
PROFILE_S, QUICK_PROFILE_S = 40.0, 8.0


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
        values = 100 * resampled_ap(detections[:self.images], self._ground_truths, self._names,
                                    np.vstack([as_measured, self._draws, halves]), self.ranked_by)
        return Ranked(float(values[0]), values[1:1 + DRAWS], values[1 + DRAWS:].reshape(self._halves.shape[:3]))


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
    for number, kind in turns(frames, rounds + 1):
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


def main(run: Run) -> None:
    args = run.args
    if run.quick:
        args.limit, args.paths, args.extra, args.rounds = 6, 20, 4, 2
    if len(args.seeds) == 1:
        raise ValueError('--seeds has 1 file, expected none or at least 2: one shows no spread')
    restart_with_environment(args.threads)
    use_threads(args.threads)
    detector = load_network(str(args.weights), args.device, MODELS, args.engine)[0]  # replays graphs on CUDA
    for file in args.seeds:  # a wrong word ends the program now and not after minutes
        other = load_detector(file, args.device)
        if (other.path_space, other.class_names) != (detector.path_space, detector.class_names):
            raise ValueError(f'{file} holds another network than {args.weights}')
    space, sources = detector.path_space, [args.data, *args.drives]
    known, judge = (Judge(chosen, args.limit, detector.class_names) for chosen in ([args.data], sources))
    images = [frame.load_bgr() for frame in read_sources([args.data], args.limit).frames[:40]]
    shipped, eager = detector.engine, Eager()
    print(f'{args.weights}: {len(space)} paths, {judge.images} images, engine {shipped.identity}. {shipped.notice}',
          flush=True)
    profile = LatencyProfile.load(args.profile) if args.profile else measure_profile(
        detector, images, repeats=12, whole_paths=16, path_repeats=6,
        time_limit_s=QUICK_PROFILE_S if run.quick else PROFILE_S)
    forecast = PathForecast(profile, space)
    shrunk = list(smallest_settings(space).values())
    sample = wanted = list(dict.fromkeys([*sample_paths(space, args.paths), *shrunk]))
    found: Found = {}
    scores: dict[ExecutionPath, Scores] = {}
    ranked: dict[ExecutionPath, Ranked] = {}
    seeds, others = [], {}
    with DetectionPool(sources, args.limit, args.processes, args.device) as detecting:
        for _ in range(1 + SEARCHES):
            found.update(detecting.run(args.weights, wanted, args.engine))
            scores.update((path, known.scores(found[path])) for path in wanted)
            ranked.update(zip(wanted, detecting.each(judge.ranked, [found[path] for path in wanted])))
            quality = expected_points({path: each.value for path, each in ranked.items()},
                                      {path: each.draws for path, each in ranked.items()})
            wanted = near_frontier(space, forecast, quality, args.extra // SEARCHES)
            print(f'scored {len(scores)} paths', flush=True)
        for weights in args.seeds:
            seeds.append(detecting.run(weights, [space.largest, *shrunk]))
            print(f'{weights} done', flush=True)
        expected = {path: 100 * quality.quality(path) for path in scores}
        kinds = {path: frames_of(detector, shipped, images, path) for path in scores}
        if shipped.identity != eager.identity:  # the same weights in eager PyTorch, where it matters
            eagerly = frontier_of({path: forecast.forecast_ms(path) for path in scores},
                                  {path: each.pooled for path, each in scores.items()})
            eagerly = list(dict.fromkeys([space.smallest, *eagerly, space.largest]))
            others = {path: known.scores(each) for path, each in
                      detecting.run(args.weights, eagerly, images=known.images).items()}
            kinds |= {('eager', path): frames_of(detector, eager, images, path) for path in others}
        print(f'times {len(kinds)} kinds of frames', flush=True)
        all_ms = measured_times(kinds, len(images), args.rounds)
    times_ms = {path: all_ms[path] for path in scores}
    halves = {path: each.halves for path, each in ranked.items()}
    choices = held_out(times_ms, halves, list(scores), space.largest)
    error = quality.prediction_error()
    result = {'device': asdict(read_device_facts(args.device)), 'engine': shipped.identity,
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
              'frontier': [str(path) for path in frontier_of(times_ms, expected)], 'held_out': choices,
              'worth_of_expected': summary(choices),
              'worth_of_expected_sample': summary(held_out(times_ms, halves, sample, space.largest)),
              'operators': operator_rows(space, judge, seeds, scores, ranked, times_ms),
              'pays_beyond': 'the range of the seeds' if seeds else 'chance in the choice of images',
              'monotonicity': monotonicity(times_ms, ranked), 'trust': quality.trust,
              'prediction_error': asdict(error), 'prediction_error_text': str(error)}
    print_tables(result)
    judge_goals(run, result, space)
    run.write(**result)
    plot(result, space, run.file.with_suffix('.png'))


if __name__ == '__main__':
    run_script(main, {
        '--weights': {'type': Path, 'default': Path('models/compact.safetensors'), 'help': 'weights to measure'},
        '--engine': {'choices': ENGINES, 'default': 'auto', 'help': 'of the weights, on a CPU'},
        '--seeds': {'type': Path, 'nargs': '*', 'default': [], 'help': 'weights of one recipe that differ by their '
                    'seed alone: the spread that operators are held against'},
        '--data': {'type': Path, 'default': Path('../shared/data/carla/val.json'), 'help': 'COCO annotations'},
        '--drives': {'nargs': '*', 'default': list(DRIVES), 'metavar': 'SOURCE', 'help': 'further sources, by which '
                     'paths are chosen too; none for --data alone'},
        '--profile': {'type': Path, 'help': 'latency profile that finds candidates; else one is measured'},
        '--paths': {'type': int, 'default': 60, 'help': 'paths of the sample'},
        '--extra': {'type': int, 'default': 40, 'help': 'further paths on and near the expected frontier'},
        '--limit': {'type': int, 'help': 'use only so many images of each source'},
        '--rounds': {'type': int, 'default': 8, 'help': 'times that each path is timed'},
        '--threads': {'type': int, 'default': 1, 'help': 'CPU threads of the timing'},
        '--processes': {'type': int, 'default': 2, 'help': 'processes that detect'},
        '--device': {'default': 'cpu', 'help': 'cpu or cuda'}}, quick='6 images of each source, 24 paths')
