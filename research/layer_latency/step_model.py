"""Error of layer times predicted from few measurements: over channels, and on sparse sweeps.

    python research/layer_latency/step_model.py [--quick]

Beside every model stand latency linear in operations and a random forest, which predicts the time of an operation.

1. Sweeps of channels, filters and input width: the steps are found in the whole sweep, the bounds from four of its
   values; error on the others. Linear and forest learn from four values spread evenly.
2. Held-out sparse sweeps (Jetson paper, section 3.4.3): nine other numbers of filters, steps from the first sweep,
   bounds from four values each. Linear learns from four, spread evenly; the forest from those and the first sweep, too.
All layers are measured in turns. Prints a table and writes results/step_model.json.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from layer_sweep import (
    Samples,
    Sweep,
    SweepResult,
    evaluate_sweep,
    measure_layers,
    median_uncertainty,
)
from layers import ConvolutionShape
from sklearn.ensemble import RandomForestRegressor
from step_latency import fit_line

from deadline_perception.core.device import read_device_facts

sys.path.append(str(Path(__file__).resolve().parents[2] / 'benchmarks'))
from parts.harness import Run, run_script, show

SEED = 11  # of the forest
SIDE = 28  # height and width of the swept layers' input in px, where they are not swept
TREES = 300
LONGEST_MS = 300_000.0  # to measure


@dataclass(frozen=True)
class Plan:
    """Values of the sweeps, sides of the input's width in px, and filters of the held-out sweeps."""

    channels: range
    filters: range
    sides: range
    sparse_filters: range


CPU = Plan(range(10, 267), range(1, 131), range(10, 75), range(100, 244, 16))
QUICK = Plan(range(10, 75), range(1, 67), range(10, 43), range(100, 244, 72))


def features(shapes: list[ConvolutionShape]) -> np.ndarray:
    """What the forest sees: the dimensions, and what follows from them."""
    names = 'in_channels out_channels kernel stride height width operations load_bytes store_bytes'
    rows = [[getattr(shape, name) for name in names.split()] for shape in shapes]
    return np.array(rows, float)


def predict_simply(
    asked: list[ConvolutionShape],
    linear_from: list[ConvolutionShape],
    forest_from: list[ConvolutionShape],
    measured: Samples,
) -> dict[str, np.ndarray]:
    """What the two baselines say of the layers asked for, ms, having learned from others."""

    def operations(shapes: list[ConvolutionShape]) -> np.ndarray:
        return np.array([shape.operations for shape in shapes], float)

    line = fit_line(operations(linear_from), latencies_of(linear_from, measured))
    costs = latencies_of(forest_from, measured) / operations(forest_from)
    forest = RandomForestRegressor(TREES, random_state=SEED).fit(
        features(forest_from), np.log(costs)
    )
    return {
        'linear in operations': line.slope_ms * operations(asked) + line.intercept_ms,
        'random forest': operations(asked) * np.exp(forest.predict(features(asked))),
    }


def latencies_of(shapes: list[ConvolutionShape], measured: Samples) -> np.ndarray:
    """Median latencies in ms."""
    return np.array([statistics.median(measured[shape]) for shape in shapes])


def errors_of_sweep(
    sweep: Sweep, measured: Samples, known: Sequence[ConvolutionShape] = ()
) -> dict[str, float]:
    """Mean absolute error per baseline, as shares, learned from four values spread evenly; the forest from `known`,
    too."""
    reached = [shape for shape in sweep.shapes if measured[shape]]
    places = np.linspace(0, len(reached) - 1, 4)
    four = [reached[round(place)] for place in places]
    others = [shape for shape in reached if shape not in four]
    observed = latencies_of(others, measured)
    return {
        name: float(np.mean(np.abs(predicted / observed - 1.0)))
        for name, predicted in predict_simply(others, four, [*four, *known], measured).items()
    }


def sweeps_of(plan: Plan) -> tuple[list[Sweep], list[Sweep]]:
    """The sweeps in which steps are found, and those that are held out."""
    layer = ConvolutionShape(
        in_channels=128, out_channels=128, kernel=3, stride=1, height=SIDE, width=SIDE
    )
    found_in = [
        Sweep('input channels', 'in_channels', layer, tuple(plan.channels)),
        Sweep('filters', 'out_channels', layer, tuple(plan.filters)),
        Sweep('input width', 'width', replace(layer, in_channels=64), tuple(plan.sides)),
    ]
    held_out = [
        Sweep(
            f'sparse, {filters} filters',
            'in_channels',
            replace(layer, out_channels=filters),
            tuple(range(120, 220, 3)),
        )
        for filters in plan.sparse_filters
    ]
    return found_in, held_out


def sweep_record(result: SweepResult, baselines: dict[str, float]) -> dict:
    """What the result file says of a sweep; errors are shares."""
    return {
        'name': result.sweep.name,
        'values': result.count,
        'depth': result.few.depth,
        'period': result.few.period,
        'upper_values': result.few.upper_values,
        'fitted_error': result.model.error,
        'four_values': result.few_values,
        'four_error': result.few_error,
        'baselines': baselines,
    }


def judge(run: Run, report: dict) -> None:
    """Holds the errors against what was to be reached on this kind of device."""
    channels = report['sweeps'][0]
    sparse = report['sparse']
    linear = 'linear in operations'
    for name, error, other in (
        ('channel sweep from four', channels['four_error'], channels['baselines'][linear]),
        ('sparse sweeps from four', sparse['four_error'], sparse['baselines'][linear]),
    ):
        run.goal(f'{name}, relative to {linear}', error / other, most=1.0 / 3.0)


def print_report(report: dict, results: list[SweepResult], device: str) -> None:
    """The table of errors."""
    rows = []
    for result, record in zip(results, report['sweeps']):
        what = f'{result.sweep.name}, from four values'
        rows.append((what, str(result.model), result.few_error))
        rows += [(what, *item) for item in record['baselines'].items()]
    what = f'{len(report["sweeps"]) - len(results)} held-out sparse sweeps, from four values each'
    rows.append((what, 'the same steps', report['sparse']['four_error']))
    rows += [(what, *item) for item in report['sparse']['baselines'].items()]
    show(
        f'mean error of predicted layer times on {device}',
        ('what', 'model', 'error'),
        [(what, model, f'{error:.1%}') for what, model, error in rows],
        words=2,
    )
    print(
        f'{report["layers"]} layers, visited {report["visits_per_layer"]:.0f} times (median) and known to '
        f'{report["uncertainty_of_medians"]:.1%} (95 %)'
    )


def main(run: Run) -> None:
    facts = read_device_facts()
    plan = QUICK if run.quick else CPU
    swept, held_out = sweeps_of(plan)
    layers = [shape for sweep in (*swept, *held_out) for shape in sweep.shapes]
    measured = measure_layers(layers, 15_000.0 if run.quick else LONGEST_MS)
    results = [evaluate_sweep(sweep, measured) for sweep in swept]
    sparse = [evaluate_sweep(sweep, measured, results[0].model) for sweep in held_out]
    first = [shape for shape in swept[0].shapes if measured[shape]]
    records = [
        *(sweep_record(result, errors_of_sweep(result.sweep, measured)) for result in results),
        *(
            sweep_record(result, errors_of_sweep(result.sweep, measured, first))
            for result in sparse
        ),
    ]
    held_out_records = records[len(results) :]
    report = {
        'device': facts,
        'quick': run.quick,
        'layers': len(measured),
        'visits_per_layer': statistics.median(map(len, measured.values())),
        'uncertainty_of_medians': statistics.median(map(median_uncertainty, measured.values())),
        'sweeps': records,
        'sparse': {
            'four_error': statistics.fmean(record['four_error'] for record in held_out_records),
            'baselines': {
                model: statistics.fmean(record['baselines'][model] for record in held_out_records)
                for model in held_out_records[0]['baselines']
            },
        },
    }
    print_report(report, results, str(facts))
    judge(run, report)
    run.write(**report)


if __name__ == '__main__':
    run_script(main, quick='fewer layers, whose errors are larger', threads=1)
