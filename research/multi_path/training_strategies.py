"""The multi-path paper's Table IV for our network: average precision after training by each strategy at equal compute.

    python research/multi_path/training_strategies.py [--data FOLDER] [--steps 23] [--config compact] [--quick]
        [--device cuda --batch 16]

Compute is counted in multiplications and additions of convolutions and matrices, three times those of the forward pass,
on the paths that a strategy draws; finding regions and drawing images are not counted. Every run may use those of
`--steps` steps of the full path with one head. Counting is free of noise, where time on a shared machine is not; but
cheap paths take more time per operation, so seconds are shown.

Runs begin with random weights, as in the paper: minutes on a CPU teach little, hours on a GPU do. Those of
results/training_strategies_compact_amd-epyc.json began with trained ones, which no longer ship. Ours is judged against
the paper's strategies that switch heads at random, on the longest path and on the mean of the paths measured: it is
better where it gains more than the larger spread of the seeds. Writes
results/training_strategies_CONFIG_scratch_DEVICE.json.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from deadline_perception.core.device import read_device_facts
from deadline_perception.core.execution_path import SKIP, ExecutionPath, PathSpace
from deadline_perception.extras.configuration_file import find_configuration
from deadline_perception.extras.data.class_names import relabelled
from deadline_perception.extras.data.coco import read_coco
from deadline_perception.extras.data.records import Sequence
from deadline_perception.extras.evaluation.path_accuracy import (
    annotated_frames,
    measure_paths,
    ranking_classes,
)
from deadline_perception.extras.faster_rcnn.network import FasterRcnn
from deadline_perception.extras.training.losses import REGIONS_PER_IMAGE
from deadline_perception.extras.training.pyramid_features import pyramid_features
from deadline_perception.extras.training.samples import SampleSource
from deadline_perception.extras.training.strategies import STRATEGIES, Strategy
from deadline_perception.extras.training.trainer import Trainer
from deadline_perception.extras.training.training_plan import TrainingPlan
from deadline_perception.extras.weights_writer import build_detector
from deadline_perception.networks.multi_path.heads import BINS

sys.path.append(str(Path(__file__).resolve().parents[2] / 'benchmarks'))
from parts.harness import ROOT, Run, option, run_script, show

BACKWARD = 3  # a backward pass takes two products of the forward pass's size, one for inputs and one for weights
DRAWN_STEPS = 400  # over which the operations of a strategy's steps are averaged
LEARNING_RATE = 6e-4
OURS = 'sandwich'
RIVALS = ('ns-rs', 'rs-rs')  # the best two of the paper's table IV, on its longest path
COMPARED = (OURS, *RIVALS)


def measured_paths(space: PathSpace) -> dict[str, ExecutionPath]:
    """A handful of paths: the full one, each operator at its smallest alone, one in the middle, and the cheapest."""
    full = space.largest
    skips = [skip.name for skip in space.of_kind(SKIP)]
    middle = {
        operator.name: operator.settings[len(operator.settings) // 2]
        for operator in space.operators
        if operator.name in ('proposals', 'head')
    }
    widest_first = space.operator('width').settings[::-1]
    widths = {
        'width': widest_first[len(widest_first) // 2],
        'pyramid_width': space.smallest['pyramid_width'],
    }
    return {
        'full': full,
        'head 0': full.replace(head='0'),
        'skipped': full.replace(**dict.fromkeys(skips, 'skip')),
        'narrow': full.replace(width=space.smallest['width']),
        'mid': full.replace(**dict.fromkeys(skips[::2], 'skip'), **middle, **widths),
        'cheapest': space.smallest,
    }


class StepCost:
    """Operations of training steps of networks of this shape, counted on tensors without data."""

    def __init__(self, network: FasterRcnn) -> None:
        self._network = FasterRcnn(network.config, network.class_names).to('meta').train()
        self._counted: dict[tuple, int] = {}

    def mean(self, strategy: Strategy) -> float:
        """Operations per image of a strategy's step, on average over its schedule."""
        draws = np.random.default_rng(0)
        space = self._network.path_space
        return statistics.fmean(
            sum(
                self._of(one.path, head)
                for one in strategy.paths(space, step / DRAWN_STEPS, draws)
                for head in (None, *one.heads)
            )
            for step in range(DRAWN_STEPS)
        )

    def _of(self, path: ExecutionPath, head: int | None) -> int:
        """Operations of a path up to the regions' scores, or of one head on the path's regions."""
        regions = min(REGIONS_PER_IMAGE, path['proposals'])
        pyramid_width = path['pyramid_width']
        fewest = path.space.smallest['proposals']
        key = (
            path.replace(proposals=fewest, head='0')
            if head is None
            else (head, pyramid_width, regions)
        )
        if key not in self._counted:
            with torch.no_grad(), FlopCounterMode(display=False) as counter:
                if head is None:
                    image = torch.empty(1, 3, *self._network.input_size_on(path), device='meta')
                    self._network.rpn(pyramid_features(self._network, image, path))
                else:
                    channels = round(self._network.config.pyramid_channels * pyramid_width)
                    self._network.heads.subnets[head](
                        torch.empty(regions, BINS * BINS * channels, device='meta')
                    )
            self._counted[key] = BACKWARD * counter.get_total_flops()
        return self._counted[key]


def fresh_network(args: argparse.Namespace, class_names: tuple[str, ...], seed: int) -> FasterRcnn:
    """What a run starts from; frozen norms would have no statistics yet."""
    config = replace(find_configuration(args.config), norm='group')
    return build_detector(config, class_names, seed=seed, device=args.device)


def train(
    args: argparse.Namespace, source: SampleSource, strategy: str, seed: int, steps: int
) -> tuple[FasterRcnn, float]:
    """Trains by one strategy; the network, and seconds."""
    trainer = Trainer(
        fresh_network(args, source.class_names, seed),
        source,
        TrainingPlan(steps=steps, batch=args.batch, learning_rate=LEARNING_RATE, seed=seed),
        STRATEGIES[strategy],
    )
    began = time.monotonic()
    trainer.run()
    trainer.network.load_state_dict(trainer.average)
    return trainer.network.eval(), time.monotonic() - began


def verdicts(runs: list[dict]) -> list[dict]:
    """Ours against each rival, in points of ranking AP, on the longest path and on the mean of the measured ones.

    `better` is None with one seed: there is no spread to judge by.
    """
    rows = []
    for what in ('longest path', 'mean of paths'):
        values = {name: [] for name in COMPARED}
        for run in runs:
            scores = [100 * path['pooled_ap'] for path in run['paths'].values()]
            of_run = scores[0] if what == 'longest path' else statistics.fmean(scores)
            values[run['strategy']].append(of_run)
        for rival in RIVALS:
            pair = values[OURS], values[rival]
            spread = max(max(scores) - min(scores) for scores in pair)
            gain = statistics.fmean(values[OURS]) - statistics.fmean(values[rival])
            several = len(values[OURS]) > 1
            rows.append(
                {
                    'on': what,
                    'rival': rival,
                    'gain_points': gain,
                    'spread_of_seeds': spread if several else None,
                    'better': gain > spread if several else None,
                }
            )
    return rows


def show_runs(runs: list[dict], paths: dict[str, ExecutionPath], title: str) -> None:
    """Mean over the seeds, and half the range."""
    rows = []
    for strategy in COMPARED:
        own = [run for run in runs if run['strategy'] == strategy]
        cells = []
        for name in paths:
            values = [100 * run['paths'][name]['pooled_ap'] for run in own]
            half_range = (max(values) - min(values)) / 2
            cells.append(f'{statistics.fmean(values):.1f} ±{half_range:.1f}')
        seconds = statistics.fmean(run['seconds'] for run in own)
        rows.append((strategy, *cells, own[0]['steps'], seconds, len(own)))
    show(
        f'{title}; mean over seeds ± half their range',
        ('strategy', *paths, 'steps', 'seconds', 'seeds'),
        rows,
    )


def main(run: Run) -> None:
    args = run.args
    if run.quick:
        args.seeds = 1
        args.steps = 2
        args.batch = 1
    training = read_coco(args.data / 'train.json')
    validation = read_coco(args.data / 'val.json')
    if run.quick:
        training = Sequence(training.name, training.class_names, training.frames[:20])
    network = fresh_network(args, training.class_names, 0)
    source = SampleSource([training], [1.0], network.input_size, network.class_names)
    frames = annotated_frames(validation, 6 if run.quick else None)
    ground_truths = [
        relabelled(frame.ground_truth, validation.class_names, network.class_names)
        for frame in frames
    ]
    ranked_by = list(ranking_classes(ground_truths, network.class_names) or network.class_names)
    paths = measured_paths(network.path_space)
    cost = StepCost(network)
    reference = cost.mean(STRATEGIES['ns-rs'])
    runs = []
    for seed in range(args.seeds):
        for strategy in COMPARED:
            steps = max(1, round(args.steps * reference / cost.mean(STRATEGIES[strategy])))
            print(f'{strategy}, seed {seed}: {steps} steps', flush=True)
            trained, seconds = train(args, source, strategy, seed, steps)
            measured = measure_paths(
                trained, validation, frames, list(paths.values()), ranked_by=ranked_by
            )
            runs.append(
                {
                    'strategy': strategy,
                    'seed': seed,
                    'steps': steps,
                    'seconds': round(seconds, 1),
                    'paths': {
                        name: {'pooled_ap': measured[path].pooled} for name, path in paths.items()
                    },
                }
            )
    show_runs(runs, paths, f'AP of {", ".join(ranked_by)}, 0 to 100')
    found = verdicts(runs)
    show(
        f'{OURS} less its rivals',
        ' | '.join(found[0]),
        [row.values() for row in found],
        words=2,
    )
    facts = read_device_facts(args.device)
    run.name = f'training_strategies_{args.config}_scratch_{facts.slug}'
    run.write(
        device=facts,
        start='random weights',
        batch=args.batch,
        learning_rate=LEARNING_RATE,
        steps_of_the_full_path=args.steps,
        operations_per_image_and_step={
            name: round(cost.mean(STRATEGIES[name])) for name in COMPARED
        },
        images=len(frames),
        paths={name: str(path) for name, path in paths.items()},
        verdicts=found,
        runs=runs,
    )


if __name__ == '__main__':
    run_script(
        main,
        {
            '--data': option(
                ROOT.parent / 'shared' / 'data' / 'carla', 'folder with train.json and val.json'
            ),
            '--config': option('compact', 'shape of the networks'),
            '--steps': option(23, 'compute of a run in steps of the full path', least=1),
            '--seeds': option(2, least=1),
            '--batch': option(4, least=1),
            '--device': option('cpu'),
        },
        quick='one seed, two steps, six images',
    )
