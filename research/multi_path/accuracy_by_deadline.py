"""Average precision against the relative deadline: the multi-path paper's Fig. 9, executed against a real clock.

    python research/multi_path/accuracy_by_deadline.py [--quick] [--data ../shared/data/carla/val.json] [--weights FILE]

The relative deadline is the time allowed for a frame over the bound of the full path (forecast times the calibration
factor that its residuals ask for). The goal is judged at half of the full path's forecast, its median time, or at the
tightest deadline that a path's bound fits if that is later. Every image is run for every deadline by each policy, in
random order: the best path whose bound fits (frontier), the paper's thresholds at each operator, and the full path
alone (single path). All but the last re-decide while the frame runs, and nothing is cut; a frame that ends after its
deadline counts as one in which nothing was found, whoever ran it. The single path does
not look at the deadline, so that one run of an image is held against all of them. The paper's thresholds decide no
width, because its networks have one: here they run at the widths of the longest path among those whose cheapest path's
bound fits the deadline. Losses are taken against the full path without a deadline; their intervals (95 %) come from
drawing runs of images anew. The network runs as it ships, by prepared segments where they are. The frontier goes by
qualities that were measured on these images too. Prints a table, writes results/accuracy_by_deadline.json and .png.
"""

from __future__ import annotations

import math
import random
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.progress import track

from deadline_perception.core.detections import Detections
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.decision.policy import Policy
from deadline_perception.extras.data.class_names import relabelled
from deadline_perception.extras.data.coco import read_coco
from deadline_perception.extras.evaluation.average_precision import average_precision
from deadline_perception.extras.evaluation.path_accuracy import annotated_frames
from deadline_perception.extras.evaluation.resampled_precision import bootstrap_draws, resampled_ap
from deadline_perception.networks.model_reference import load_network
from deadline_perception.runtime.job import Job, StampReading
from deadline_perception.runtime.loading import make_policy, warm_up
from deadline_perception.runtime.timed_inference import TimedInference
from deadline_perception.timing.path_bound import PathForecast
from deadline_perception.timing.profile import measure_profile
from deadline_perception.timing.time_model import FrameTimes

sys.path.append(str(Path(__file__).resolve().parents[1] / 'policies'))
from baselines import FixedPath
from thresholds import ThresholdPolicy, largest_that_fits

sys.path.append(str(Path(__file__).resolve().parents[2] / 'benchmarks'))
from parts.harness import ROOT, Run, option, run_script, show
from parts.picture import picture

RELATIVE = (0.15, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0)
HALF = 0.5  # of the full path's median time: where the goal is judged
GOAL_POINTS = 1.1  # multi-path paper, section VI-A: the loss on BDD100K; 3.1 on Cityscapes
MISS = 0.01  # target miss probability of the bounds
DRAWS = 500
PROFILE_S = 40.0
QUICK_PROFILE_S = 8.0
QUICK_IMAGES = 4
NAMES = {
    'frontier': 'multi-path, frontier',
    'thresholds': "multi-path, the paper's thresholds",
    'fixed': 'single path',
}


@dataclass(frozen=True)
class Taken:
    """One frame: what was found, and how long it took from planning to detections, ms."""

    detections: Detections
    latency_ms: float

    def within(self, deadline_ms: float) -> Detections:
        """What counts at a deadline."""
        return self.detections if self.latency_ms <= deadline_ms else Detections.none()


def run_frame(
    detector, policy: Policy, image: np.ndarray, deadline_ms: float, times: FrameTimes
) -> Taken:
    """Runs one image against a deadline that begins now."""
    inference = TimedInference(detector, policy)
    begun_ms = now_ms()
    frame = Job(None, begun_ms, StampReading(0.0, '', 0))
    frame.times = times
    due_ms = begun_ms + deadline_ms
    inference.begin(image, frame, due_ms=due_ms, may_abort=False).until_answer()
    return Taken(frame.result, now_ms() - begun_ms)


def run_all(
    detector, cells: dict[tuple[str, float], Policy], images: list[np.ndarray], times: FrameTimes
) -> dict[tuple[str, float], list[Taken]]:
    """Every image, uint8 `[H, W, 3]`, in every cell, image by image, the cells in random order; a cell is a policy by
    its name and the deadline in ms."""
    rng = random.Random(0)
    taken = {cell: [] for cell in cells}
    for (_, deadline_ms), policy in cells.items():  # no figure may pay for first calls
        run_frame(detector, policy, images[0], deadline_ms, times)
    for image in track(images, 'images'):
        for cell in rng.sample(list(cells), len(cells)):
            taken[cell].append(run_frame(detector, cells[cell], image, cell[1], times))
    return taken


@dataclass(frozen=True, eq=False)
class Scored:
    """Average precision of one set of detections, in points; the resampled one is of each draw of images."""

    ap: float
    resampled_ap: np.ndarray

    @classmethod
    def of(cls, found: list[Detections], *ground_truth: object) -> Scored:
        """Scores of detections, one per image; `ground_truth` as `average_precision` takes it."""
        draws = bootstrap_draws(len(found), DRAWS)
        return cls(
            100 * (average_precision(found, *ground_truth).ap or 0.0),
            100 * resampled_ap(found, *ground_truth, draws),
        )

    def loss_against(self, reference: Scored) -> dict:
        """What is lost against other detections, with a 95 % interval."""
        differences = reference.resampled_ap - self.resampled_ap
        return {
            'ap': reference.ap - self.ap,
            'ap_interval': np.nanquantile(differences, (0.025, 0.975)).tolist(),
        }


def plot(result: dict, file: Path) -> None:
    """One line per policy over the relative deadline, and where the goal is judged."""
    with picture(file) as (axes,):
        axes.axhline(result['full_path']['ap'], color='0.6', label='full path, no deadline')
        for name, words in NAMES.items():
            rows = [row for row in result['rows'] if row['policy'] == name]
            relative = [row['relative_deadline'] for row in rows]
            axes.plot(relative, [row['ap'] for row in rows], 'o-', label=words)
        axes.axvline(result['goal']['relative_deadline'], color='0.6')
        axes.set(xlabel='deadline over the bound of the full path', ylabel='average precision, %')


def print_table(result: dict) -> None:
    """Every policy at every deadline."""
    rows = []
    for row in result['rows']:
        low, high = row['loss']['ap_interval']
        loss = f'{row["loss"]["ap"]:.1f} ({low:.1f} to {high:.1f})'
        known = [row[name] for name in ('policy', 'relative_deadline', 'deadline_ms', 'ap')]
        rows.append((*known, loss, f'{row["missed"]:.1%}'))
    show(
        f'{result["images"]} images of {result["dataset"]}; full path: AP {result["full_path"]["ap"]:.1f}',
        'policy | relative | deadline | AP | loss, 95 % | missed',
        rows,
    )


def main(run: Run) -> None:
    args = run.args
    detector, _ = load_network(str(args.weights), 'cpu', ROOT / 'models')
    print(f'engine {detector.engine.identity}. {detector.engine.notice}', flush=True)
    space = detector.path_space
    quality = PathQuality.load(args.weights.with_suffix('.quality.json'), space)
    quality.check(detector.weights_hash)
    sequence = read_coco(args.data)
    frames = annotated_frames(sequence, QUICK_IMAGES if args.quick else None)
    ground_truths = [
        relabelled(frame.ground_truth, sequence.class_names, detector.class_names)
        for frame in frames
    ]
    images = [frame.load_bgr() for frame in frames]
    profile = measure_profile(
        detector,
        images[:40],
        repeats=12,
        whole_paths=16,
        path_repeats=6,
        time_limit_s=QUICK_PROFILE_S if args.quick else PROFILE_S,
    )
    warm_up(detector, images[0].shape[:2])
    forecast = PathForecast(profile, space)
    factor = math.exp(max(0.0, forecast.residual_quantile(1.0 - MISS)))
    frontier = make_policy('frontier', space, forecast, quality)
    full_ms = forecast.forecast_ms(space.largest)
    full_bound_ms = full_ms * factor
    # the tightest deadline that any path's bound fits, rounded up so that the time of a decision fits too
    cheapest_ms = float(forecast.table(list(space)).min())
    tightest = math.ceil(105 * cheapest_ms * factor / full_bound_ms) / 100
    # half of the full path's median time, unless no path's bound fits that
    judged = max(HALF * full_ms / full_bound_ms, tightest)
    relative = sorted({tightest, judged, *(value for value in RELATIVE if value > tightest)})
    print(
        f'full path bound {full_bound_ms:.1f} ms (factor {factor:.2f}), {len(images)} images',
        flush=True,
    )
    deadlines_ms = [value * full_bound_ms for value in relative]
    cells = {('frontier', deadline_ms): frontier for deadline_ms in deadlines_ms}
    for deadline_ms in deadlines_ms:
        start = largest_that_fits(space, forecast, deadline_ms / factor)
        cells['thresholds', deadline_ms] = ThresholdPolicy(space, forecast, quality, start=start)
    cells['fixed', math.inf] = FixedPath(space.largest, forecast, quality)
    taken = run_all(detector, cells, images, FrameTimes(forecast, 1.0, factor))
    single = taken['fixed', math.inf]
    ground_truth = (ground_truths, detector.class_names)
    full = Scored.of([frame.detections for frame in single], *ground_truth)
    rows = []
    for name in NAMES:
        for value, deadline_ms in zip(relative, deadlines_ms):
            ran = taken.get((name, deadline_ms), single)
            scored = Scored.of([frame.within(deadline_ms) for frame in ran], *ground_truth)
            missed = np.mean([frame.latency_ms > deadline_ms for frame in ran])
            rows.append(
                {
                    'policy': name,
                    'relative_deadline': value,
                    'deadline_ms': deadline_ms,
                    'ap': scored.ap,
                    'loss': scored.loss_against(full),
                    'missed': float(missed),
                }
            )
    at_half = next(
        row for row in rows if row['policy'] == 'frontier' and row['relative_deadline'] == judged
    )
    goal = {name: at_half[name] for name in ('deadline_ms', 'relative_deadline', 'loss')}
    goal['of_full_median'] = at_half['deadline_ms'] / full_ms
    result = {
        'engine': detector.engine.identity,
        'weights_hash': detector.weights_hash,
        'dataset': sequence.name,
        'quality_measured_on': quality.dataset,
        'images': len(images),
        'calibration_factor': factor,
        'full_bound_ms': full_bound_ms,
        'full_path': {'ap': full.ap},
        'rows': rows,
        'goal': goal,
    }
    print_table(result)
    run.goal(
        f'AP lost at {goal["of_full_median"]:.2f} of the full path',
        goal['loss']['ap'],
        most=GOAL_POINTS,
    )
    run.write(**result)
    plot(result, run.file.with_suffix('.png'))


if __name__ == '__main__':
    run_script(
        main,
        {
            '--weights': option(Path('models/street.safetensors'), 'network'),
            '--data': option(Path('../shared/data/carla/val.json'), 'COCO annotations'),
        },
        quick=f'{QUICK_IMAGES} images',
        threads=1,
    )
