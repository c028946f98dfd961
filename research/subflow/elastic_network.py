"""A torchvision network with a user's weights: made elastic by one command, then tuned for minutes by another.

    python research/subflow/elastic_network.py [--model resnet18] [--minutes 10] [--budget-ms 150] [--train-minutes 4]
        [--data ../shared/data/carla/train.json] [--quick]

The user's weights are made here: torchvision's network, trained as a whole for `--train-minutes` on objects cut out of
the driving images (three of four; the others score, as in both commands), and written by `torch.save`. Then
`deadline-perception network elastic` converts and ranks it without training, and `tune.py` beside this script
trains it for `--minutes` with iterations of at most `--budget-ms`. Accuracy on the scored objects at every utilisation
after each step, beside that of the ordinary network. Writes results/elastic_network.json, with --quick below
out/benchmarks.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import torch
import torchvision
from subflow_shapes import CARLA
from torch import Tensor, nn
from torch.nn import functional as F

from deadline_perception.core.device import read_device_facts, use_threads
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.extras.elastic.checkpoint import load_elastic
from deadline_perception.extras.elastic.network import image_batches
from deadline_perception.extras.elastic.source import find_source
from deadline_perception.tools.elastic_data import ElasticData, read_data

sys.path.append(str(Path(__file__).resolve().parents[2] / 'benchmarks'))
from parts.harness import Run, option, run_command, run_script, show

SIZE, THREADS = (64, 64), 1
BATCH, LEARNING_RATE = 32, 1e-3


def ordinary_network(args: argparse.Namespace, data: ElasticData, inputs: Tensor) -> nn.Module:
    """The user's network: trained as a whole, for so many minutes."""
    torch.manual_seed(0)
    network = torchvision.models.get_model(args.model, num_classes=len(data.class_names)).train()
    optimiser = torch.optim.AdamW(network.parameters(), LEARNING_RATE)
    labels, end_ms = torch.from_numpy(data.labels), now_ms() + 60_000.0 * args.train_minutes
    while now_ms() < end_ms:
        rows = torch.randint(len(inputs), (BATCH,))
        pixels = inputs[rows].flip(-1) if torch.rand(()) < 0.5 else inputs[rows]
        optimiser.zero_grad(set_to_none=True)
        F.cross_entropy(network(pixels), labels[rows]).backward()
        optimiser.step()
    return network.eval()


def accuracies(weights: Path) -> dict[float, float]:
    """In %, by utilisation, from the table that a command wrote beside the weights."""
    network = load_elastic(weights)
    found = PathQuality.load(weights.with_suffix('.quality.json'), network.path_space)
    return {path['utilisation']: 100.0 * found.quality(path) for path in network.path_space}


def main(run: Run) -> None:
    """Makes, converts, tunes, prints and writes."""
    args = run.args
    if args.quick:
        args.train_minutes, args.minutes = 0.3, 0.5
    use_threads(THREADS)
    data = read_data(str(args.data), False, SIZE, 200)
    with tempfile.TemporaryDirectory() as place:
        given, made, tuned = (
            Path(place) / name for name in ('user.pth', 'elastic.safetensors', 'tuned.safetensors')
        )
        empty = torchvision.models.get_model(args.model, num_classes=len(data.class_names))
        source = find_source(args.model, empty.state_dict(), data.class_names, SIZE)
        network = ordinary_network(
            args, data, torch.cat(list(image_batches(source, data.learning, BATCH)))
        )
        with torch.inference_mode():
            found = torch.cat(
                [
                    network(batch).argmax(1)
                    for batch in image_batches(source, data.scoring.images, BATCH)
                ]
            )
        whole = 100.0 * (found == torch.from_numpy(data.scoring.labels)).float().mean().item()
        torch.save(network.state_dict(), given)
        words = ('--data', args.data, '--threads', THREADS)
        run_command(
            *('network', 'elastic', args.model, '--weights', given, '--size', *SIZE),
            *('--classes', ','.join(data.class_names), *words, '--out', made),
        )
        before = accuracies(made)
        tune = (sys.executable, Path(__file__).with_name('tune.py'), '--weights', made, *words)
        limits = ('--budget-ms', args.budget_ms, '--minutes', args.minutes)
        subprocess.run([*map(str, (*tune, *limits, '--out', tuned))], check=True)
        after = accuracies(tuned) if tuned.exists() else before
    show(
        f'{args.model}, {len(data.class_names)} classes; accuracy of the ordinary network {whole:.1f} %',
        ('utilisation', 'converted, %', f'after {args.minutes:g} min of tuning, %'),
        [(setting, f'{value:.1f}', f'{after[setting]:.1f}') for setting, value in before.items()],
        words=0,
    )
    record = {
        'model': args.model,
        'size': SIZE,
        'threads': THREADS,
        'device': asdict(read_device_facts()),
        'train_minutes': args.train_minutes,
        'tune_minutes': args.minutes,
        'budget_ms': args.budget_ms,
        'images': [len(data.learning), len(data.scoring)],
        'ordinary_accuracy': round(whole, 1),
        'tuned': before is not after,
        'accuracy': [
            {'utilisation': u, 'converted': round(value, 1), 'tuned': round(after[u], 1)}
            for u, value in before.items()
        ],
    }
    run.write(**record)


if __name__ == '__main__':
    run_script(
        main,
        {
            '--model': option('resnet18', "classifier of torchvision's"),
            '--data': option(CARLA / 'train.json'),
            '--train-minutes': option(4.0, 'of the ordinary network'),
            '--minutes': option(10.0, 'of tuning'),
            '--budget-ms': option(150.0, 'of one iteration of tuning'),
        },
        quick='under a minute of training',
    )
