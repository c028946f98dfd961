"""Rankings of neurons compared: Optimal Brain Surgeon, magnitude, random, and the order that training left.

    python research/subflow/importance.py [--shapes LeNet-5 KWS] [--seeds 3] [--iterations 300] [--threads 1] [--quick]

For each seed a network of the SubFlow paper's shapes is trained whole, ranked each way, and trained nested from there
with the same batches and sub-networks; the order that training left, trained nested, is plain nested training. Accuracy
on test samples at every utilisation, before and after nested training, on average over seeds, with the standard error
of the difference to plain nested training over seeds. No figure here depends on time. Writes results/importance.json,
with --quick below out/benchmarks.
"""
from __future__ import annotations

import argparse
import sys
from collections import defaultdict

import numpy as np
from rankings import Ranking
from rich.console import Console
from rich.table import Table
from subflow_shapes import (SHAPES, SHAPE_NAMES, THREADS, Shape, accuracy, made_elastic, nested_training, quick,
                            run_command, trained, write_result)

from deadline_perception.latency.device import use_threads
from deadline_perception.subnetwork.elastic import SETTINGS


def accuracies(shape: Shape, args: argparse.Namespace) -> dict[str, dict[str, np.ndarray]]:
    """By ranking and stage, accuracy in %, `[seeds, settings]`."""
    data, found = shape.data(), defaultdict(lambda: defaultdict(list))
    for seed in range(args.seeds):
        module = trained(shape, data, args, seed)
        for ranking in Ranking:
            network = made_elastic(module, data, ranking=ranking, seed=seed)
            for stage in ('untrained', 'nested'):
                if stage == 'nested':
                    nested_training(network, data, args.iterations, seed)
                found[ranking.value][stage].append([accuracy(lambda x: network(x, utilisation=u), data)
                                                    for u in SETTINGS])
    return {ranking: {stage: np.array(rows) for stage, rows in stages.items()} for ranking, stages in found.items()}


def summary(found: dict[str, dict[str, np.ndarray]]) -> dict:
    """Means over seeds, and each ranking's gain on plain nested training with its standard error over seeds."""
    plain, rows = found[Ranking.GIVEN.value]['nested'], {}
    for ranking, stages in found.items():
        gain = stages['nested'] - plain
        error = gain.std(0, ddof=1) / len(gain) ** 0.5 if len(gain) > 1 else np.full(gain.shape[1], np.nan)
        rows[ranking] = {**{stage: values.mean(0).tolist() for stage, values in stages.items()},
                         'gain': gain.mean(0).tolist(),
                         'gain_error': [None if np.isnan(e) else float(e) for e in error]}
    return rows


def run(args: argparse.Namespace) -> int:
    """Compares and writes; returns the exit status."""
    if args.seeds < 1:
        raise ValueError(f'--seeds is {args.seeds}, expected at least 1')
    use_threads(args.threads)
    result = {'seeds': args.seeds, 'iterations': args.iterations, 'settings': SETTINGS, 'shapes': {}}
    console = Console(width=130)
    for shape in SHAPES:
        if shape.name not in args.shapes:
            continue
        rows = result['shapes'][shape.name] = summary(accuracies(shape, args))
        table = Table(title=f'{shape.name}: accuracy, %, mean of {args.seeds} seeds')
        for title in ('ranking', '', *(f'u {setting}' for setting in SETTINGS), 'mean'):
            table.add_column(title, justify='right')
        for ranking, row in rows.items():
            for stage in ('untrained', 'nested', 'gain'):
                table.add_row(ranking, stage, *(f'{value:.1f}' for value in (*row[stage], np.mean(row[stage]))))
        console.print(table)
        file = write_result('importance', result, args)
    print(f'wrote {file}')
    return 0


if __name__ == '__main__':
    sys.exit(run_command(
        'importance', __doc__, run,
        ('--shapes', {'nargs': '+', 'choices': SHAPE_NAMES, 'default': ['LeNet-5', 'KWS']}),
        ('--seeds', {'type': int, 'default': 3, 'help': 'networks of each shape'}),
        ('--iterations', {'type': int, 'default': 300, 'help': 'of nested training'}),
        THREADS, ('--quick', quick('one epoch'))))
