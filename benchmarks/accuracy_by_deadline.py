"""Average precision against the relative deadline: the multi-path paper's Fig. 9, executed against a real clock.

    python benchmarks/accuracy_by_deadline.py [--quick] [--data ../shared/data/carla/val.json] [--weights FILE]
        [--quality FILE] [--profile FILE]

The relative deadline is the time allowed for a frame over the bound of the full path (forecast times the margin that
its residuals ask for). Every image is run for every deadline by each policy, in random order: the best path whose bound
fits (frontier), the paper's thresholds at each operator, and the full path alone (single path). All but the last
re-decide while the frame runs, and nothing is cut; a frame that ends after its deadline counts as one in which nothing was found,
whoever ran it. The single path does not look at the deadline, so that one run of an image is held against all of them.
The paper's thresholds decide no width, because its networks have one: here they run twice, at full width as published,
and at the widths of the longest path among those whose cheapest path's bound fits the deadline. Intervals (95 %) of
the loss come from drawing the images anew. The frontier goes by qualities that were measured on these images too, if
the table beside the weights is used.
Prints a table, writes results/accuracy_by_deadline.json and results/accuracy_by_deadline.png.
"""
from __future__ import annotations

import argparse
import json
import math
import random
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from deadline_perception.datasets.coco import read_coco
from deadline_perception.decision.baselines import FixedPath
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.decision.policy import Policy
from deadline_perception.decision.thresholds import ThresholdPolicy, widths_that_fit
from deadline_perception.decision.timed_frame import FrameProgress, TimedInference
from deadline_perception.detector.checkpoint import load_detector
from deadline_perception.detector.detections import Detections
from deadline_perception.evaluation.average_precision import average_precision
from deadline_perception.evaluation.path_accuracy import POOLED_CLASSES, annotated_frames, pooled_ap, relabelled
from deadline_perception.evaluation.resampled_precision import bootstrap_draws, resampled_ap
from deadline_perception.latency.device import read_device_facts, use_threads
from deadline_perception.latency.path_bound import PathForecast
from deadline_perception.latency.profile import LatencyProfile, measure_profile
from deadline_perception.latency.stopwatch import now_ms
from deadline_perception.tools.profile import restart_with_environment

RESULTS = Path(__file__).parent / 'results' / 'accuracy_by_deadline.json'
RELATIVE = (0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0)
HALF = 0.5
GOAL_POINTS = 1.1  # multi-path paper, section VI-A: the loss on BDD100K; 3.1 on Cityscapes
MISS = 0.01  # target miss probability of the bounds
DRAWS = 500
PROFILE_S = 40.0
NAMES = {'frontier': 'multi-path, frontier', 'thresholds': "multi-path, the paper's thresholds",
         'full_width': 'the same at full width, as published', 'fixed': 'single path'}


@dataclass(frozen=True)
class Taken:
    """One frame: what was found, and how long it took from planning to detections, ms."""

    detections: Detections
    latency_ms: float
    path: str

    def within(self, deadline_ms: float) -> Detections:
        """What counts at a deadline."""
        return self.detections if self.latency_ms <= deadline_ms else Detections.none()


def run_frame(detector, policy: Policy, image: np.ndarray, deadline_ms: float, margin: float) -> Taken:
    """Runs one image against a deadline that begins now."""
    inference = TimedInference(detector, detector.path_space, policy)
    begun_ms = now_ms()
    frame = inference.run(image, FrameProgress(), due_ms=begun_ms + deadline_ms, slowdown=1.0, margin=margin,
                          best_case=1.0, may_cut=False, abandoned=lambda: False)
    return Taken(frame.detections, now_ms() - begun_ms, str(frame.path))


def run_all(detector, cells: dict[tuple[str, float], Policy], images: list[np.ndarray],
            margin: float) -> dict[tuple[str, float], list[Taken]]:
    """Every image in every cell, image by image, the cells in random order.

    Args:
        detector: the network.
        cells: policy by its name and the deadline in ms.
        images: uint8 `[H, W, 3]` each.
        margin: turns forecasts into bounds.
    """
    rng = random.Random(0)
    taken: dict[tuple[str, float], list[Taken]] = {cell: [] for cell in cells}
    for (_, deadline_ms), policy in cells.items():  # no figure may pay for first calls
        run_frame(detector, policy, images[0], deadline_ms, margin)
    with Progress(console=Console(stderr=True)) as progress:
        for image in progress.track(images, description='images'):
            for cell in rng.sample(list(cells), len(cells)):
                taken[cell].append(run_frame(detector, cells[cell], image, cell[1], margin))
    return taken


def row_of(name: str, relative: float, deadline_ms: float, frames: list[Taken], full: list[Detections], truths: list,
           class_names: tuple[str, ...]) -> dict:
    """Scores of one policy at one deadline, and what it loses against the full path without a deadline."""
    counted = [frame.within(deadline_ms) for frame in frames]
    result, best = (average_precision(found, truths, class_names) for found in (counted, full))
    draws = bootstrap_draws(len(truths), DRAWS)
    loss = [resampled_ap(found, truths, class_names, draws, POOLED_CLASSES) for found in (full, counted)]
    low, high = np.nanquantile(100 * (loss[0] - loss[1]), (0.025, 0.975))
    latencies_ms = np.array([frame.latency_ms for frame in frames])
    return {'policy': name, 'relative_deadline': relative, 'deadline_ms': deadline_ms, 'ap': 100 * result.ap,
            'ap50': 100 * result.ap50, 'pooled': 100 * pooled_ap(result), 'loss_ap': 100 * (best.ap - result.ap),
            'loss_pooled': 100 * (pooled_ap(best) - pooled_ap(result)), 'loss_pooled_interval': [float(low), float(high)],
            'missed': float((latencies_ms > deadline_ms).mean()), 'median_ms': float(np.median(latencies_ms)),
            'p99_ms': float(np.quantile(latencies_ms, 0.99)), 'paths': len({frame.path for frame in frames})}


def plot(result: dict, file: Path) -> None:
    """One line per policy over the relative deadline."""
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8.0, 4.6), layout='constrained')
    axes.axhline(result['full_path']['pooled'], color='#9aa8b6', linewidth=1.2, linestyle=(0, (4, 3)), zorder=1,
                 label='full path without a deadline')
    for name, colour, marker in zip(NAMES, ('#1f77d0', '#d98a00', '#8a63c2', '#c02626'), 'osD^'):
        rows = [row for row in result['rows'] if row['policy'] == name]
        axes.plot([row['relative_deadline'] for row in rows], [row['pooled'] for row in rows], color=colour,
                  marker=marker, markersize=5, linewidth=1.8, label=NAMES[name], zorder=3)
    axes.set_xlabel(f'relative deadline (1 is the bound of the full path, {result["full_bound_ms"]:.0f} ms)')
    axes.set_ylabel('average precision of vehicles\nand traffic lights, %')
    axes.set_ylim(bottom=-1)
    axes.set_title(f'{result["images"]} images of {result["dataset"]}, late frames count as empty', loc='left',
                   fontsize=11)
    axes.grid(color='#e1e5ea', linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[['top', 'right']].set_visible(False)
    axes.legend(fontsize=9, frameon=False, loc='best')
    figure.savefig(file, dpi=120)


def print_tables(result: dict) -> None:
    """Every policy at every deadline, and the loss that the goal is about."""
    console = Console(width=max(Console().width, 124))
    best = result['full_path']
    table = Table(title=f'{result["images"]} images of {result["dataset"]}; full path: AP {best["ap"]:.1f}, '
                        f'V+L {best["pooled"]:.1f}', title_justify='left')
    for head in ('policy', 'relative', 'deadline', 'AP', 'AP50', 'V+L', 'loss V+L, 95 %', 'missed', 'median', 'p99 ms',
                 'paths'):
        table.add_column(head, justify='left' if head == 'policy' else 'right', no_wrap=True)
    for row in result['rows']:
        low, high = row['loss_pooled_interval']
        table.add_row(row['policy'], f'{row["relative_deadline"]:.2f}', f'{row["deadline_ms"]:.1f}',
                      f'{row["ap"]:.1f}', f'{row["ap50"]:.1f}', f'{row["pooled"]:.1f}',
                      f'{row["loss_pooled"]:.1f} ({low:.1f} to {high:.1f})', f'{row["missed"]:.1%}',
                      f'{row["median_ms"]:.1f}', f'{row["p99_ms"]:.1f}', str(row['paths']),
                      end_section=row['relative_deadline'] == RELATIVE[-1])
    console.print(table)
    goal = result['goal']
    console.print(f'the full path took {result["full_path_over_forecast"]:.2f} times its forecast (median); far from 1, '
                  f'the machine was not as idle as when the profile was measured')
    console.print(f'loss at half of the full path\'s time: {goal["loss_ap"]:.1f} AP, {goal["loss_pooled"]:.1f} V+L; '
                  f'goal at most {GOAL_POINTS} AP: {"met" if goal["met"] else "not met"}')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--weights', type=Path, default=Path('models/compact.safetensors'))
    parser.add_argument('--data', type=Path, default=Path('../shared/data/carla/val.json'), help='COCO annotations')
    parser.add_argument('--quality', type=Path, help='path qualities; by default those beside the weights')
    parser.add_argument('--profile', type=Path, help='latency profile; else one is measured, in 40 s')
    parser.add_argument('--limit', type=int, help='use only so many images')
    parser.add_argument('--threads', type=int, default=1, help='CPU threads')
    parser.add_argument('--device', default='cpu', help='cpu or cuda')
    parser.add_argument('--out', type=Path, default=RESULTS, help='JSON file to write; the plot lies beside it')
    parser.add_argument('--quick', action='store_true', help='8 images: shows that it works')
    args = parser.parse_args()
    restart_with_environment(args.threads)
    use_threads(args.threads)
    detector = load_detector(args.weights, args.device)
    space = detector.path_space
    quality = PathQuality.load(args.quality or args.weights.with_suffix('.quality.json'))
    quality.check(detector.weights_hash)
    sequence = read_coco(args.data)
    frames = annotated_frames(sequence, 8 if args.quick else args.limit)
    truths = [relabelled(frame.truth, sequence.class_names, detector.class_names) for frame in frames]
    images = [frame.load_bgr() for frame in frames]
    profile = LatencyProfile.load(args.profile) if args.profile else measure_profile(
        detector, images[:40], repeats=12, whole_paths=16, path_repeats=6, time_limit_s=PROFILE_S)
    forecast = PathForecast(profile, space)
    margin = math.exp(max(0.0, forecast.residual_quantile(1.0 - MISS)))
    frontier = FrontierPolicy(space, forecast, quality)
    frontier.prepare()
    full_bound_ms = forecast.forecast_ms(space.largest) * margin
    # the tightest deadline that any path's bound fits, rounded up so that the time of a decision fits too
    tightest = math.ceil(105 * float(forecast.table(list(space)).min()) * margin / full_bound_ms) / 100
    relative = [tightest, *(value for value in RELATIVE if value > tightest)]
    print(f'full path bound {full_bound_ms:.1f} ms (margin {margin:.2f}), {len(images)} images', flush=True)
    deadlines_ms = [value * full_bound_ms for value in relative]
    cells: dict[tuple[str, float], Policy] = {('frontier', deadline_ms): frontier for deadline_ms in deadlines_ms}
    full_width = ThresholdPolicy(space, forecast, quality)
    for deadline_ms in deadlines_ms:
        width, pyramid_width = widths_that_fit(space, forecast, deadline_ms / margin)
        cells['thresholds', deadline_ms] = ThresholdPolicy(space, forecast, quality, width=width,
                                                           pyramid_width=pyramid_width)
        cells['full_width', deadline_ms] = full_width
    cells['fixed', math.inf] = FixedPath(space.largest, space, forecast, quality)
    taken = run_all(detector, cells, images, margin)
    single = taken['fixed', math.inf]
    full = [frame.detections for frame in single]
    pace = float(np.median([frame.latency_ms for frame in single])) / forecast.forecast_ms(space.largest)
    rows = [row_of(name, value, deadline_ms, taken.get((name, deadline_ms), single), full, truths, detector.class_names)
            for name in NAMES for value, deadline_ms in zip(relative, deadlines_ms)]
    at_half = next(row for row in rows if row['policy'] == 'frontier' and row['relative_deadline'] >= HALF)
    best = average_precision(full, truths, detector.class_names)
    result = {'date': date.today().isoformat(), 'device': asdict(read_device_facts(args.device)),
              'weights': str(args.weights), 'weights_hash': detector.weights_hash, 'dataset': sequence.name,
              'quality_measured_on': quality.dataset, 'images': len(images), 'margin': margin,
              'full_bound_ms': full_bound_ms, 'full_path_over_forecast': pace,
              'full_path': {'ap': 100 * best.ap, 'pooled': 100 * pooled_ap(best)},
              'rows': rows, 'goal': {'loss_ap': at_half['loss_ap'], 'loss_pooled': at_half['loss_pooled'],
                                     'at_most_ap': GOAL_POINTS, 'met': at_half['loss_ap'] <= GOAL_POINTS}}
    print_tables(result)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1) + '\n', encoding='utf-8')
    plot(result, args.out.with_suffix('.png'))
    print(f'wrote {args.out} and {args.out.with_suffix(".png").name}')


if __name__ == '__main__':
    main()
