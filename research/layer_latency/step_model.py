"""Error of layer times predicted from few measurements: over channels, and on sparse sweeps.

    python research/layer_latency/step_model.py [--quick]

Beside every model stands latency linear in operations, learnt from four values spread evenly.

1. Sweeps of channels, filters and input width: the steps are found in the whole sweep, the bounds from four of its
   values; error on the others.
2. Held-out sparse sweeps (Jetson paper, section 3.4.3): nine other numbers of filters, steps from the first sweep,
   bounds from four values each.
All layers are measured in turns. Prints a table and writes results/step_model.json.
"""

from __future__ import annotations

import statistics
import sys
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
from step_latency import fit_line

from deadline_perception.core.device import read_device_facts

sys.path.append(str(Path(__file__).resolve().parents[2] / 'benchmarks'))
from parts.harness import Run, run_script, show

SIDE = 28  # height and width of the swept layers' input in px, where they are not swept
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


def latencies_of(shapes: list[ConvolutionShape], measured: Samples) -> np.ndarray:
    """Median latencies in ms."""
    return np.array([statistics.median(measured[shape]) for shape in shapes])


def linear_error(sweep: Sweep, measured: Samples) -> float:
    """Mean absolute error, as a share, of a line over operations that was learnt from four values spread evenly."""
    reached = [shape for shape in sweep.shapes if measured[shape]]
    places = np.linspace(0, len(reached) - 1, 4)
    four = [reached[round(place)] for place in places]
    others = [shape for shape in reached if shape not in four]
    line = fit_line(operations_of(four), latencies_of(four, measured))
    predicted = line.slope_ms * operations_of(others) + line.intercept_ms
    return float(np.mean(np.abs(predicted / latencies_of(others, measured) - 1.0)))


def operations_of(shapes: list[ConvolutionShape]) -> np.ndarray:
    """How many each layer has."""
    return np.array([shape.operations for shape in shapes], float)


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


def sweep_record(result: SweepResult, measured: Samples) -> dict:
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
        'linear_error': linear_error(result.sweep, measured),
    }


def judge(run: Run, report: dict) -> None:
    """Holds the errors against what was to be reached on this kind of device."""
    channels = report['sweeps'][0]
    sparse = report['sparse']
    for name, errors in (
        ('channel sweep from four', channels),
        ('sparse sweeps from four', sparse),
    ):
        relative = errors['four_error'] / errors['linear_error']
        run.goal(f'{name}, relative to linear in operations', relative, most=1.0 / 3.0)


def print_report(report: dict, results: list[SweepResult], device: str) -> None:
    """The table of errors."""
    rows = []
    for result, record in zip(results, report['sweeps']):
        what = f'{result.sweep.name}, from four values'
        rows.append((what, str(result.model), result.few_error))
        rows.append((what, 'linear in operations', record['linear_error']))
    what = f'{len(report["sweeps"]) - len(results)} held-out sparse sweeps, from four values each'
    rows.append((what, 'the same steps', report['sparse']['four_error']))
    rows.append((what, 'linear in operations', report['sparse']['linear_error']))
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
    records = [sweep_record(result, measured) for result in (*results, *sparse)]
    held_out_records = records[len(results) :]
    report = {
        'device': facts,
        'quick': run.quick,
        'layers': len(measured),
        'visits_per_layer': statistics.median(map(len, measured.values())),
        'uncertainty_of_medians': statistics.median(map(median_uncertainty, measured.values())),
        'sweeps': records,
        'sparse': {
            name: statistics.fmean(record[name] for record in held_out_records)
            for name in ('four_error', 'linear_error')
        },
    }
    print_report(report, results, str(facts))
    judge(run, report)
    run.write(**report)


if __name__ == '__main__':
    run_script(main, quick='fewer layers, whose errors are larger', threads=1)
