"""Average precision of execution paths against their time measured in place: the frontier, and what each operator buys.

    python benchmarks/path_accuracy.py [--quick] [--data ../shared/data/carla/val.json] [--weights FILE ...]
        [--alone FILE=PATH ...]

Scores a sample of paths that shows every setting of every operator, then, twice, those that a profile and the
qualities predicted so far put on the frontier or next to it, so that the frontier is measured. Then all of them are
timed in turn, as whole frames. V+L is the average precision over vehicles and traffic lights, which have instances
enough to rank paths. An operator's effect is the largest path less the same path with this operator alone at its
smallest setting; its interval (95 %) comes from drawing runs of neighbouring images anew. With several weights (seeds
of one recipe) the effects and their spread over the seeds are shown too. --alone compares a path with weights that were
trained on that path alone. The frontier shown is chosen among all images' own figures, so that it leans to the good
side. Useful points are counted where that cannot be: the frontier is chosen on one half of the images (runs of
neighbours taken in turn) and its points count where they gain on the other half, both ways; the lower count is judged.
On CUDA the network that is timed replays graphs, as the node does.
Prints tables, writes results/path_accuracy.json and results/path_accuracy.png; with --quick below out/benchmarks.
"""
from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from deadline_perception.datasets.coco import read_coco
from deadline_perception.decision.frontier import pareto_frontiers
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.detector.checkpoint import load_detector
from deadline_perception.detector.detections import Detections
from deadline_perception.evaluation.average_precision import average_precision
from deadline_perception.evaluation.path_accuracy import POOLED_CLASSES, annotated_frames, detect_on_frames, pooled_ap
from deadline_perception.evaluation.path_accuracy import relabelled, sample_paths
from deadline_perception.evaluation.resampled_precision import RUN_OF_IMAGES, bootstrap_draws, resampled_ap
from deadline_perception.execution_path import ExecutionPath, PathSpace
from deadline_perception.latency.device import read_device_facts, use_threads
from deadline_perception.latency.json_file import write_text_atomically
from deadline_perception.latency.path_bound import PathForecast
from deadline_perception.latency.profile import LatencyProfile, measure_profile, time_frame
from deadline_perception.tools.profile import restart_with_environment
from deadline_perception.workers import Workers

RESULTS = Path(__file__).parent / 'results' / 'path_accuracy.json'
QUICK_RESULTS = RESULTS.parents[2] / 'out' / 'benchmarks' / RESULTS.name  # never in place of published ones
USEFUL_POINTS = 0.2  # a point of the frontier is useful when it gains so much V+L over the useful one before it
NESTED_POINTS = 0.5  # a path with no operator smaller should not be worse by more than this
DRAWS = 500
SEARCHES = 2
PROFILE_S = 40.0
GOALS = {'full AP': 36.0, 'full AP50': 60.0, 'cheapest AP': 20.0, 'speed ratio': 8.0, 'useful points': 12,
         'alone, points under': 0.5, 'alone, full path, points under': 0.2}

Found = dict[ExecutionPath, list[Detections]]
_held: dict = {}  # in each process of the pool: its detector and its frames


@dataclass(frozen=True)
class Scores:
    """A path's average precision, 0 to 100: over all classes, at IoU 0.50, and over vehicles and lights."""

    ap: float
    ap50: float
    pooled: float


class Detecting:
    """Processes that hold the weights and run paths on the images, each on its share."""

    def __init__(self, weights: Path, args: argparse.Namespace) -> None:
        self._count = args.processes
        self._pool = ProcessPoolExecutor(self._count, multiprocessing.get_context('spawn'), _hold,
                                         (weights, args.device, args.data, args.limit))

    def __enter__(self) -> Detecting:
        return self

    def __exit__(self, *_) -> None:
        self._pool.shutdown()

    def run(self, paths: list[ExecutionPath]) -> Found:
        """Detections of every path, image by image."""
        parts = [self._pool.submit(_detect_share, paths, Workers(rank, self._count)) for rank in range(self._count)]
        shares = [part.result() for part in parts]
        found: Found = {path: [Detections.none()] * sum(len(share[path]) for share in shares) for path in paths}
        for path, detections in found.items():
            for rank, share in enumerate(shares):
                detections[rank::self._count] = share[path]
        return found


def _hold(weights: Path, device: str, data: Path, limit: int | None) -> None:
    use_threads(1)
    _held['detector'] = load_detector(weights, device)
    _held['frames'] = annotated_frames(read_coco(data), limit)


def _detect_share(paths: list[ExecutionPath], workers: Workers) -> Found:
    return detect_on_frames(_held['detector'], workers.share(_held['frames']), paths)


class Judge:
    """Scores detections against the known objects."""

    def __init__(self, args: argparse.Namespace, class_names: tuple[str, ...]) -> None:
        sequence = read_coco(args.data)
        self.frames = annotated_frames(sequence, args.limit)
        self.dataset = sequence.name
        self._truths = [relabelled(frame.truth, sequence.class_names, class_names) for frame in self.frames]
        self._names = class_names
        self._draws = bootstrap_draws(len(self.frames), DRAWS)

    def scores(self, detections: list[Detections]) -> Scores:
        """A path's scores."""
        result = average_precision(detections, self._truths, self._names)
        return Scores(100 * (result.ap or 0.0), 100 * (result.ap50 or 0.0), 100 * pooled_ap(result))

    def resampled(self, detections: list[Detections]) -> np.ndarray:
        """V+L, points, of each draw of images: float64 `[DRAWS]`."""
        return 100 * resampled_ap(detections, self._truths, self._names, self._draws, POOLED_CLASSES)

    def halves(self, detections: list[Detections]) -> tuple[float, float]:
        """V+L, points, on either half of the images: runs of neighbours, taken in turn."""
        second = np.arange(len(self.frames)) // RUN_OF_IMAGES % 2
        values = resampled_ap(detections, self._truths, self._names, np.array([1 - second, second]), POOLED_CLASSES)
        return 100 * float(np.nan_to_num(values[0])), 100 * float(np.nan_to_num(values[1]))


def interval(larger: np.ndarray, smaller: np.ndarray) -> tuple[float, float]:
    """95 % interval of the gain in V+L, points, had other images been drawn; of two `resampled`."""
    low, high = np.nanquantile(larger - smaller, (0.025, 0.975))
    return float(low), float(high)


def smallest_settings(space: PathSpace) -> dict[str, ExecutionPath]:
    """The largest path with one operator at its smallest setting, by the operator's name."""
    full = space.largest
    paths = {f'skip {i}': replace(full, skip=tuple(i == k for k in range(space.skips))) for i in range(space.skips)}
    if space.skips > 1:
        paths['all skips'] = replace(full, skip=(True,) * space.skips)
    for name in ('width', 'pyramid_width', 'proposals', 'head'):
        paths[name.replace('_', ' ')] = replace(full, **{name: getattr(space.smallest, name)})
    return {name: path for name, path in paths.items() if path != full}


def near_frontier(space: PathSpace, forecast: PathForecast, known: dict[ExecutionPath, Scores],
                  count: int) -> list[ExecutionPath]:
    """Unmeasured paths of the predicted frontier, then of the frontier without those, until there are `count`."""
    quality = PathQuality({path: scores.pooled / 100 for path, scores in known.items()})
    paths = list(space)
    times_ms, values = forecast.table(paths), quality.table(paths)
    left, chosen = np.arange(len(paths)), []
    while len(chosen) < count and len(left):
        members, _ = pareto_frontiers(np.zeros(len(left), int), times_ms[left], values[left])
        chosen += [paths[at] for at in left[members] if paths[at] not in known]
        left = np.delete(left, members)
    return chosen[:count]


def measured_times(detector, images: list[np.ndarray], paths: list[ExecutionPath], rounds: int) -> dict:
    """Median time of whole frames on each path, ms; all paths in turn in random order, the first round dropped."""
    rng = random.Random(0)
    samples: dict[ExecutionPath, list[float]] = {path: [] for path in paths}
    for number in range(rounds + 1):
        for path in rng.sample(paths, len(paths)):
            taken_ms, _ = time_frame(detector, rng.choice(images), path)
            if number:
                samples[path].append(taken_ms)
    return {path: statistics.median(taken) for path, taken in samples.items()}


def frontier_of(times_ms: dict[ExecutionPath, float], pooled: dict[ExecutionPath, float]) -> list[ExecutionPath]:
    """Paths that no measured path beats in both time and V+L, the cheapest first."""
    paths = list(pooled)
    members, _ = pareto_frontiers(np.zeros(len(paths), int), np.array([times_ms[path] for path in paths]),
                                  np.array([pooled[path] for path in paths]))
    return [paths[at] for at in members]


def useful(frontier: list[ExecutionPath], pooled: dict[ExecutionPath, float]) -> list[ExecutionPath]:
    """Points of the frontier that gain at least `USEFUL_POINTS` over the useful one before."""
    kept: list[ExecutionPath] = []
    for path in frontier:
        if not kept or pooled[path] >= pooled[kept[-1]] + USEFUL_POINTS:
            kept.append(path)
    return kept


def held_out(times_ms: dict[ExecutionPath, float], halves: dict[ExecutionPath, tuple[float, float]]) -> list[dict]:
    """The frontier chosen on each half of the images, and which of its points are useful on the other half.

    Args:
        times_ms: time by path.
        halves: V+L on the two halves, by path.
    """
    rows = []
    for chosen_on in (0, 1):
        chosen, judged = ({path: values[half] for path, values in halves.items()}
                          for half in (chosen_on, 1 - chosen_on))
        frontier = frontier_of(times_ms, chosen)
        rows.append({'points': len(frontier), 'useful_where_chosen': len(useful(frontier, chosen)),
                     'useful': [str(path) for path in useful(frontier, judged)]})
    return rows


def monotonicity(times_ms: dict[ExecutionPath, float], scores: dict[ExecutionPath, Scores]) -> dict:
    """How well more work means better detections: rank correlation, the full path's lag, nested pairs in disorder."""
    paths = list(scores)
    work = np.array([[*(not skipped for skipped in path.skip), path.width, path.pyramid_width, path.proposals, path.head]
                     for path in paths], dtype=float)
    values = np.array([scores[path].pooled for path in paths])
    nested = (work[:, None] >= work[None]).all(2) & ~np.eye(len(paths), dtype=bool)
    worse = nested & (values[:, None] < values[None] - NESTED_POINTS)
    rank = spearmanr([times_ms[path] for path in paths], values)[0]
    full = max(range(len(paths)), key=lambda at: tuple(work[at]))
    return {'rank_correlation_of_time_and_quality': float(rank), 'nested_pairs': int(nested.sum()),
            'nested_pairs_larger_is_worse': int(worse.sum()),
            'full_path_behind_best_points': float(values.max() - values[full])}


def operator_rows(space: PathSpace, judge: Judge, seeds: list[Found], scores: dict[ExecutionPath, Scores],
                  times_ms: dict[ExecutionPath, float]) -> list[dict]:
    """What each operator's largest setting buys over its smallest, all others at their largest."""
    rows, full = [], judge.resampled(seeds[0][space.largest])
    for name, path in smallest_settings(space).items():
        gains = [judge.scores(found[space.largest]).pooled - judge.scores(found[path]).pooled for found in seeds]
        low, high = interval(full, judge.resampled(seeds[0][path]))
        mean, spread = statistics.fmean(gains), max(gains) - min(gains)
        rows.append({'operator': name, 'smallest': str(path), 'saves_ms': times_ms[space.largest] - times_ms[path],
                     'ap_points': scores[space.largest].ap - scores[path].ap, 'pooled_points': gains[0],
                     'interval_points': [low, high], 'pooled_points_of_seeds': gains, 'mean_of_seeds': mean,
                     'spread_of_seeds': spread if len(seeds) > 1 else None,
                     'pays': mean > spread if len(seeds) > 1 else low > 0})
    return rows


def alone_rows(args: argparse.Namespace, judge: Judge, found: Found, detecting: Detecting,
               space: PathSpace) -> list[dict]:
    """Paths of the network against the same paths of weights that were trained on them alone."""
    rows = []
    for text in args.alone:
        file, _, name = text.rpartition('=')
        path = {'full': space.largest, 'cheapest': space.smallest}.get(name) or ExecutionPath.parse(name)
        if path not in found:
            found.update(detecting.run([path]))
        with Detecting(Path(file), args) as other:
            theirs = other.run([path])[path]
        ours, alone = judge.scores(found[path]), judge.scores(theirs)
        low, high = interval(judge.resampled(theirs), judge.resampled(found[path]))
        goal = GOALS['alone, full path, points under' if path == space.largest else 'alone, points under']
        rows.append({'path': str(path), 'weights': file, 'ap': ours.ap, 'ap_alone': alone.ap, 'pooled': ours.pooled,
                     'pooled_alone': alone.pooled, 'points_under': alone.ap - ours.ap,
                     'pooled_points_under': alone.pooled - ours.pooled, 'interval_points': [low, high], 'goal': goal})
    return rows


def goal_rows(result: dict, space: PathSpace) -> list[dict]:
    """Each goal of the issue with the figure reached."""
    by_name = {row['path']: row for row in result['paths']}
    full, cheapest = by_name[str(space.largest)], by_name[str(space.smallest)]
    figures = {'full AP': full['ap'], 'full AP50': full['ap50'], 'cheapest AP': cheapest['ap'],
               'speed ratio': full['ms'] / cheapest['ms'],
               'useful points': min(len(row['useful']) for row in result['held_out'])}
    rows = [{'goal': f'{name} at least {GOALS[name]:g}', 'figure': round(figure, 2), 'met': figure >= GOALS[name]}
            for name, figure in figures.items()]
    paying = [row['operator'] for row in result['operators'] if row['pays']]
    rows.append({'goal': 'every operator pays', 'figure': f'{len(paying)} of {len(result["operators"])}',
                 'met': len(paying) == len(result['operators'])})
    behind = result['monotonicity']['full_path_behind_best_points']
    rows.append({'goal': 'no cheaper path is better than the full one (points V+L)', 'figure': round(behind, 2),
                 'met': behind <= 0})
    for row in result['alone']:
        rows.append({'goal': f'{row["path"]} at most {row["goal"]} AP under trained alone',
                     'figure': round(row['points_under'], 2), 'met': row['points_under'] <= row['goal']})
    if not result['alone']:
        rows.append({'goal': 'at most 0.5 AP under trained alone, on five paths', 'figure': 'not measured', 'met': False})
    return rows


def plot(result: dict, space: PathSpace, file: Path) -> None:
    """Every path as a dot, the frontier as a line."""
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot
    from matplotlib.ticker import ScalarFormatter

    colours = dict(zip(space.widths, ('#0f4c8f', '#2f7cc4', '#3aa17e', '#e0923a', '#c95d94')))
    rows = [(ExecutionPath.parse(row['path']), row) for row in result['paths']]
    line = [row for row in result['paths'] if row['path'] in result['frontier']]
    figure, axes = pyplot.subplots(figsize=(8.6, 5.0), layout='constrained')
    axes.plot([row['ms'] for row in line], [row['pooled'] for row in line], color='#16202c', linewidth=1.6, zorder=2,
              drawstyle='steps-post', label='frontier')
    for width, colour in colours.items():
        for pyramid, marker in zip(space.pyramid_widths, 'o^s'):
            chosen = [row for path, row in rows if path.width == width and path.pyramid_width == pyramid]
            axes.scatter([row['ms'] for row in chosen], [row['pooled'] for row in chosen], s=30, color=colour,
                         marker=marker, edgecolor='white', linewidth=0.6, zorder=3,
                         label=f'width {width:g}, pyramid {pyramid:g}')
    for path, text, offset in ((space.largest, 'full', (7, -11)), (space.smallest, 'cheapest', (7, -11))):
        row = next(row for row in result['paths'] if row['path'] == str(path))
        axes.scatter([row['ms']], [row['pooled']], s=90, facecolor='none', edgecolor='#16202c', zorder=4)
        axes.annotate(text, (row['ms'], row['pooled']), xytext=offset, textcoords='offset points', color='#16202c')
    axes.set_xscale('log')
    ticks = [tick for tick in (2, 5, 10, 20, 30, 50, 70, 100, 150, 200, 300, 500) if
             0.9 * min(row['ms'] for row in result['paths']) <= tick <= 1.1 * max(row['ms'] for row in result['paths'])]
    axes.set_xticks(ticks, minor=False)
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.set_xlabel(f'time of a frame, ms (median, {result["device"]["name"]}, {result["device"]["threads"]} thread'
                    f'{"s" * (result["device"]["threads"] > 1)})')
    axes.set_ylabel('average precision of vehicles and traffic lights, %')
    axes.set_title(f'{len(rows)} execution paths of one network on {result["images"]} images of {result["dataset"]}',
                   loc='left', fontsize=11)
    axes.grid(color='#e1e5ea', linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[['top', 'right']].set_visible(False)
    axes.legend(fontsize=8, frameon=False, loc='lower right')
    figure.savefig(file, dpi=120)


def print_tables(result: dict) -> None:
    """Goals, frontier, operators and, where given, paths trained alone."""
    console = Console(width=max(Console().width, 124))

    def show(title: str, heads: tuple[str, ...], rows: list[tuple]) -> None:
        table = Table(title=title, title_justify='left')
        for head in heads:
            table.add_column(head, no_wrap=True, justify='left' if head == heads[0] else 'right')
        for row in rows:
            table.add_row(*(f'{value:.1f}' if isinstance(value, float) else str(value) for value in row))
        console.print(table)

    useful_once = {path for row in result['held_out'] for path in row['useful']}
    show('frontier (* useful on held-out images)', ('path', 'ms', 'AP', 'AP50', 'V+L'),
         [(row['path'] + ' *' * (row['path'] in useful_once), row['ms'], row['ap'], row['ap50'], row['pooled'])
          for row in result['paths'] if row['path'] in result['frontier']])
    show('operators: largest less smallest setting', ('operator', 'saves ms', 'AP', 'V+L', '95 %', 'seeds: mean',
                                                      'spread', 'pays'),
         [(row['operator'], row['saves_ms'], row['ap_points'], row['pooled_points'],
           f'{row["interval_points"][0]:.1f} to {row["interval_points"][1]:.1f}', row['mean_of_seeds'],
           '-' if row['spread_of_seeds'] is None else row['spread_of_seeds'], 'yes' if row['pays'] else 'no')
          for row in result['operators']])
    if result['alone']:
        show('against the path trained alone', ('path', 'AP', 'alone', 'V+L', 'alone', 'V+L under, 95 %'),
             [(row['path'], row['ap'], row['ap_alone'], row['pooled'], row['pooled_alone'],
               f'{row["interval_points"][0]:.1f} to {row["interval_points"][1]:.1f}') for row in result['alone']])
    show('goals', ('goal', 'figure', 'met'),
         [(row['goal'], row['figure'], 'yes' if row['met'] else 'no') for row in result['goals']])
    for row in result['held_out']:
        console.print(f'frontier chosen on half of the images: {row["points"]} points, {row["useful_where_chosen"]} of '
                      f'them useful there, {len(row["useful"])} on the other half')
    order = result['monotonicity']
    console.print(f'{len(result["paths"])} paths on {result["images"]} images; rank correlation of time and V+L '
                  f'{order["rank_correlation_of_time_and_quality"]:.2f}; of {order["nested_pairs"]} pairs of nested '
                  f'paths the larger one is worse by over {NESTED_POINTS} points in '
                  f'{order["nested_pairs_larger_is_worse"]}')
    console.print(f'error of predicting a path from the others: {result["prediction_error_text"]}')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--weights', type=Path, nargs='+', default=[Path('models/compact.safetensors')],
                        help='the first is measured in full, others (other seeds) for the operators')
    parser.add_argument('--data', type=Path, default=Path('../shared/data/carla/val.json'), help='COCO annotations')
    parser.add_argument('--profile', type=Path, help='latency profile that finds candidates; else one is measured')
    parser.add_argument('--alone', nargs='*', default=[], metavar='FILE=PATH', help='weights trained on one path alone; '
                        'PATH is full, cheapest or a name')
    parser.add_argument('--paths', type=int, default=60, help='paths of the sample')
    parser.add_argument('--extra', type=int, default=40, help='further paths on and near the predicted frontier')
    parser.add_argument('--limit', type=int, help='use only so many images')
    parser.add_argument('--rounds', type=int, default=8, help='times that each path is timed')
    parser.add_argument('--threads', type=int, default=1, help='CPU threads of the timing')
    parser.add_argument('--processes', type=int, default=2, help='processes that detect')
    parser.add_argument('--device', default='cpu', help='cpu or cuda')
    parser.add_argument('--out', type=Path, help='JSON file to write; the plot lies beside it')
    parser.add_argument('--quick', action='store_true', help='12 images, 20 + 4 paths, 2 rounds: shows that it works')
    args = parser.parse_args()
    if args.quick:
        args.limit, args.paths, args.extra, args.rounds = 12, 20, 4, 2
    out = args.out or (QUICK_RESULTS if args.quick else RESULTS)
    restart_with_environment(args.threads)
    use_threads(args.threads)
    detector = load_detector(args.weights[0], args.device)
    if read_device_facts(args.device).kind == 'cuda':
        detector.use_graphs()  # those that detect are other networks, in processes of their own
    space, judge = detector.path_space, Judge(args, detector.class_names)
    images = [frame.load_bgr() for frame in judge.frames[:40]]
    print(f'{args.weights[0]}: {len(space)} paths, {len(judge.frames)} images', flush=True)
    profile = LatencyProfile.load(args.profile) if args.profile else measure_profile(
        detector, images, repeats=12, whole_paths=16, path_repeats=6, time_limit_s=PROFILE_S)
    forecast = PathForecast(profile, space)
    wanted = list(dict.fromkeys([*sample_paths(space, args.paths), *smallest_settings(space).values()]))
    scores: dict[ExecutionPath, Scores] = {}
    with Detecting(args.weights[0], args) as detecting:
        found: Found = {}
        for search in range(1 + SEARCHES):
            if search:
                wanted = near_frontier(space, forecast, scores, args.extra // SEARCHES)
            found.update(detecting.run(wanted))
            scores.update((path, judge.scores(found[path])) for path in wanted)
            print(f'scored {len(scores)} paths', flush=True)
        alone = alone_rows(args, judge, found, detecting, space)
    seeds = [found]
    for weights in args.weights[1:]:
        with Detecting(weights, args) as other:
            seeds.append(other.run([space.largest, *smallest_settings(space).values()]))
    times_ms = measured_times(detector, images, list(scores), args.rounds)
    frontier = frontier_of(times_ms, {path: value.pooled for path, value in scores.items()})
    error = PathQuality({path: value.pooled / 100 for path, value in scores.items()}).prediction_error()
    result = {'date': date.today().isoformat(), 'device': asdict(read_device_facts(args.device)),
              'weights': [str(file) for file in args.weights], 'weights_hash': detector.weights_hash,
              'dataset': judge.dataset, 'images': len(judge.frames), 'paths_of_the_network': len(space),
              'paths': [{'path': str(path), 'ms': times_ms[path], **asdict(scores[path])}
                        for path in sorted(scores, key=times_ms.get)],
              'frontier': [str(path) for path in frontier],
              'held_out': held_out(times_ms, {path: judge.halves(found[path]) for path in scores}),
              'operators': operator_rows(space, judge, seeds, scores, times_ms), 'alone': alone,
              'monotonicity': monotonicity(times_ms, scores), 'prediction_error': asdict(error),
              'prediction_error_text': str(error)}
    result['goals'] = goal_rows(result, space)
    print_tables(result)
    write_text_atomically(out, json.dumps(result, indent=1) + '\n')
    plot(result, space, out.with_suffix('.png'))
    print(f'wrote {out} and {out.with_suffix(".png").name}')


if __name__ == '__main__':
    main()
