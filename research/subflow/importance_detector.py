"""The detector's channels ranked anew, without training: average precision at every width.

    python research/subflow/importance_detector.py [--weights models/compact.safetensors] [--data ../shared/data/carla]
        [--every 2] [--calibration 24] [--seeds 3] [--quick]

The weights were trained nested: every width of them, in the order in which their channels lie. That is `trained`. In
the other rows channels come in the order of Optimal Brain Surgeon (on images of the training data), magnitude or
chance, or stay (`given`), and nothing is trained: norms of the narrower widths take the scales and shifts of the whole
width and statistics that are measured on the training data, as a network's that was never narrowed before. The whole
width computes the same in every row. AP is the mean over the classes with objects enough to rank by, 0 to 100, on every
`--every`-th image of val.json, on the largest path with the named width. `trained` and `given` differ only in
the norms that training left for each width. No figure here depends on time. Writes
results/importance_detector.json, with --quick below out/benchmarks.
"""
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from rankings import Ranking
from subflow_shapes import CARLA

from deadline_perception.core.device import use_threads
from deadline_perception.core.execution_path import WIDTH, ExecutionPath
from deadline_perception.datasets.class_names import relabelled
from deadline_perception.datasets.coco import read_coco
from deadline_perception.evaluation.path_accuracy import annotated_frames, measure_paths, ranking_classes
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.networks.multi_path.network import MultiPathDetector
from deadline_perception.networks.multi_path.operators import SlicedFrozenNorm
from deadline_perception.training.norm_statistics import measure_statistics
from deadline_perception.training.samples import SampleSource
from detector_order import channel_orders, reorder

sys.path.append(str(Path(__file__).resolve().parents[2] / 'benchmarks'))
from parts.harness import ROOT, Run, run_script, show

TRAINED = 'trained'


def paths_of(network: MultiPathDetector) -> dict[str, ExecutionPath]:
    """By what they narrow: the largest path, and those with one width set to each smaller setting."""
    largest = network.path_space.largest
    found = {'whole': largest}
    for operator in network.path_space.of_kind(WIDTH):
        for setting in reversed(operator.settings[:-1]):
            found[f'{operator.name} {setting}'] = largest.replace(**{operator.name: setting})
    return found


@torch.no_grad()
def settle_narrow_norms(network: MultiPathDetector, source: SampleSource) -> None:
    """Measures what norms receive at every width but the whole, whose statistics stay."""
    norms = [module for module in network.modules() if isinstance(module, SlicedFrozenNorm)]
    kept = [(norm.mean.clone(), norm.deviation.clone()) for norm in norms]
    measure_statistics(network, source)
    for norm, (mean, deviation) in zip(norms, kept):
        whole = norm.rows[norm.weight.shape[1]]
        norm.mean[whole], norm.deviation[whole] = mean[whole], deviation[whole]
    network.eval()


def main(run: Run) -> None:
    """Measures and writes."""
    args = run.args
    if args.quick:
        args.every, args.calibration, args.seeds = 40, 4, 1
    use_threads(args.threads)
    training, validation = read_coco(args.data / 'train.json'), read_coco(args.data / 'val.json')
    network = load_detector(args.weights)
    if network.config.norm != 'frozen':
        raise ValueError(f'norms of {args.weights} are {network.config.norm}, expected frozen ones')
    everything = annotated_frames(validation)
    frames = everything[::args.every]
    ranked_by = list(ranking_classes([relabelled(frame.ground_truth, validation.class_names, network.class_names)
                                      for frame in everything], network.class_names) or network.class_names)
    images = [frame.load_bgr() for frame in annotated_frames(training, args.calibration)]
    source = SampleSource([training], [1.0], network.input_size, network.class_names)
    paths = paths_of(network)

    def score(detector: MultiPathDetector) -> list[float]:
        measured = measure_paths(detector, validation, frames, list(paths.values()), ranked_by=ranked_by)
        return [100.0 * measured[path].pooled for path in paths.values()]

    runs = [(ranking, seed) for ranking in Ranking
            for seed in range(args.seeds if ranking is Ranking.RANDOM else 1)]
    found = {TRAINED: [score(network)]}
    for ranking, seed in runs:
        detector = load_detector(args.weights)
        reorder(detector, channel_orders(detector, ranking, images, seed))
        settle_narrow_norms(detector, source)
        found.setdefault(ranking.value, []).append(score(detector))
        print(ranking.value, ' '.join(f'{value:.1f}' for value in found[ranking.value][-1]), flush=True)
    rows = {name: np.mean(values, 0).tolist() for name, values in found.items()}
    show(f'AP of {", ".join(ranked_by)} on {len(frames)} images, 0 to 100', ('order', *paths),
         [(name, *(f'{value:.1f}' for value in values)) for name, values in rows.items()])
    run.write(weights=args.weights.name, weights_hash=network.weights_hash, images=len(frames),
              calibration_images=len(images), random_orders=args.seeds, ranked_by=ranked_by,
              paths={name: str(path) for name, path in paths.items()},
              ap={name: dict(zip(paths, values)) for name, values in rows.items()})


if __name__ == '__main__':
    run_script(main, {
        '--weights': {'type': Path, 'default': ROOT / 'models' / 'compact.safetensors', 'help': 'of a detector'},
        '--data': {'type': Path, 'default': CARLA, 'help': 'folder with train.json and val.json'},
        '--every': {'type': int, 'default': 2, 'least': 1, 'help': 'of the images to score on'},
        '--calibration': {'type': int, 'default': 24, 'least': 1, 'help': 'training images that rank channels'},
        '--seeds': {'type': int, 'default': 3, 'least': 1, 'help': 'random orders'},
        '--threads': {'type': int, 'default': 1, 'help': 'CPU threads'}}, quick='few images')
