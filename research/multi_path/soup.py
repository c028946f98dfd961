"""Model soup: the mean of the weights of several training runs that began with the same weights.

    python research/multi_path/soup.py --help

Runs of other seeds end at places around a better one: the mean of their weights finds more than any of them and costs
nothing more when it runs (Wortsman et al. 2022, model soups). Of runs that began apart the mean is worth nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch

from deadline_perception.networks.multi_path.checkpoint import load_detector, save_detector
from deadline_perception.tools.command_line import run_alone
from deadline_perception.tools.recipe import recipe_in
from deadline_perception.tools.support.file_arguments import check_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's options."""
    parser.add_argument('weights', type=Path, nargs='+', help='weights files, at least two')
    parser.add_argument(
        '--out', type=Path, default=Path('out/soup.safetensors'), help='weights to write'
    )


def run(args: argparse.Namespace) -> int:
    """Writes the mean; returns the exit status."""
    if len(args.weights) < 2:
        raise ValueError(
            f'{args.weights[0]} is the only weights file, expected at least two for a soup'
        )
    check_file('--out', args.out, *args.weights)
    mean = load_detector(args.weights[0])
    mean.score_calibration = None  # of one run's scores; `evaluate --calibrate` fits the mean's own
    sums = {name: tensor.double() for name, tensor in mean.state_dict().items()}
    for file in args.weights[1:]:
        other = load_detector(file)
        if (other.network_hash, other.class_names) != (mean.network_hash, mean.class_names):
            raise ValueError(
                f'{file} is a {other.config_name!r} with classes {", ".join(other.class_names)}; '
                f'expected a {mean.config_name!r} with {", ".join(mean.class_names)}'
            )
        for name, tensor in other.state_dict().items():
            sums[name] += tensor
    with torch.no_grad():
        for name, tensor in mean.state_dict().items():
            tensor.copy_(sums[name] / len(args.weights))
    recipes = [recipe_in(file) or file.name for file in args.weights]
    save_detector(mean, args.out, recipe=json.dumps({'mean of': recipes}))
    print(f'wrote {args.out}, the mean of {len(args.weights)} files')
    return 0


if __name__ == '__main__':
    sys.exit(run_alone(sys.modules[__name__]))
