"""Rankings of neurons compared: Optimal Brain Surgeon, magnitude, random, and the order that training left.

    python research/subflow/importance.py [--shapes LeNet-5 KWS] [--seeds 3] [--iterations 300] [--quick]

For each seed a network of the SubFlow paper's shapes is trained whole, ranked each way, and trained nested from there
with the same batches and sub-networks; the order that training left, trained nested, is plain nested training. Accuracy
on test samples at every utilisation, before and after nested training, on average over seeds, with the standard error
of the difference to plain nested training over seeds. No figure here depends on time. Writes results/importance.json.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from rankings import Ranking
from subflow_shapes import (
    SHAPES,
    Shape,
    accuracy_by_setting,
    made_elastic,
    nested_training,
    trained,
)

from deadline_perception.extras.elastic.elastic import SETTINGS

sys.path.append(str(Path(__file__).resolve().parents[2] / 'benchmarks'))
from parts.harness import Run, option, run_script, show


def measure(shape: Shape, run: Run) -> dict[str, dict[str, np.ndarray]]:
    """By ranking and stage, accuracy in %, `[seeds, settings]`."""
    data = shape.data()
    found = defaultdict(lambda: defaultdict(list))
    for seed in range(run.args.seeds):
        module = trained(shape, data, run.quick, seed)
        for ranking in Ranking:
            network = made_elastic(module, data, ranking=ranking, seed=seed)
            for stage in ('untrained', 'nested'):
                if stage == 'nested':
                    nested_training(network, data, run.args.iterations, seed)
                accuracies = accuracy_by_setting(network, data)
                found[ranking.value][stage].append(list(accuracies.values()))
    return {
        ranking: {stage: np.array(rows) for stage, rows in stages.items()}
        for ranking, stages in found.items()
    }


def summary(found: dict[str, dict[str, np.ndarray]]) -> dict:
    """Means over seeds, and each ranking's gain on plain nested training with its standard error over seeds."""
    plain = found[Ranking.GIVEN.value]['nested']
    rows = {}
    for ranking, stages in found.items():
        gain = stages['nested'] - plain
        error = None
        if len(gain) > 1:
            error = (gain.std(0, ddof=1) / len(gain) ** 0.5).tolist()
        rows[ranking] = {
            **{stage: values.mean(0).tolist() for stage, values in stages.items()},
            'gain': gain.mean(0).tolist(),
            'gain_error': error,
        }
    return rows


def main(run: Run) -> None:
    args = run.args
    result = {
        'seeds': args.seeds,
        'iterations': args.iterations,
        'settings': SETTINGS,
        'shapes': {},
    }
    for name in args.shapes:
        rows = result['shapes'][name] = summary(measure(SHAPES[name], run))
        cells = []
        for ranking, row in rows.items():
            for stage in ('untrained', 'nested', 'gain'):
                values = [*row[stage], np.mean(row[stage])]
                cells.append((ranking, stage, *(f'{value:.1f}' for value in values)))
        show(
            f'{name}: accuracy, %, mean of {args.seeds} seeds',
            ('ranking', '', *(f'u {setting}' for setting in SETTINGS), 'mean'),
            cells,
            words=0,
        )
        run.write(**result)


if __name__ == '__main__':
    run_script(
        main,
        {
            '--shapes': option(['LeNet-5', 'KWS'], nargs='+', choices=SHAPES),
            '--seeds': option(4, 'networks of each shape', least=1),
            '--iterations': option(200, 'of nested training'),
        },
        quick='one epoch',
        threads=1,
    )
