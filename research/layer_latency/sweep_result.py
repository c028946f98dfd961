"""How well a sweep of layers is predicted: from all of its measurements, and from four of them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from layer_sweep import Sweep
from measured_layers import MeasuredLayers
from step_latency import StepModel, fit_step_model

from deadline_perception.core.replaced_file import replace_file

LEAST_MEASURED = 8  # fewer values of a sweep show no steps, and leave too few that four measurements could predict
_COLUMNS = 2


@dataclass(frozen=True)
class SweepResult:
    """A measured sweep and what was predicted for it.

    Attributes:
        values: values of the sweep that were measured.
        latencies_ms: their median latencies.
        model: fitted to all of them.
        few: the same steps, with bounds from four of them.
        few_values: those four.
        few_error: mean absolute percentage error of `few` over the other values, as a share.
    """

    sweep: Sweep
    values: tuple[int, ...]
    latencies_ms: tuple[float, ...]
    model: StepModel
    few: StepModel
    few_values: tuple[int, ...]
    few_error: float


def evaluate_sweep(
    sweep: Sweep, measured: MeasuredLayers, steps: StepModel | None = None
) -> SweepResult:
    """Fits a sweep and predicts it from four of its measurements.

    Args:
        sweep: to predict.
        measured: durations of its layers; values that were not reached are left out.
        steps: depth and period found elsewhere on the same device; those of this sweep when None.

    Raises:
        ValueError: fewer than `LEAST_MEASURED` values were measured.
    """
    reached = {
        value: measured.median_ms(shape)
        for value, shape in zip(sweep.values, sweep.shapes)
        if measured.samples_ms.get(shape)
    }
    if len(reached) < LEAST_MEASURED:
        raise ValueError(
            f'sweep {sweep.name!r} has {len(reached)} measured values, expected at least {LEAST_MEASURED}'
        )
    model = fit_step_model(list(reached), list(reached.values()))
    shape = steps or model
    chosen = shape.choose_values(list(reached))
    few = shape.with_bounds(chosen, [reached[value] for value in chosen])
    errors = [
        abs(few.predict(value) / latency - 1.0)
        for value, latency in reached.items()
        if value not in chosen
    ]
    return SweepResult(
        sweep, tuple(reached), tuple(reached.values()), model, few, chosen, float(np.mean(errors))
    )


def draw_sweeps(results: Sequence[SweepResult], file: Path, title: str) -> None:
    """Writes a PNG with measured latencies and those predicted from four of them, one panel per sweep; at least one."""
    from matplotlib.figure import Figure

    rows = -(-len(results) // _COLUMNS)
    figure = Figure(figsize=(12.0, 1.0 + 3.2 * rows), layout='constrained')
    panels = figure.subplots(rows, _COLUMNS, squeeze=False).ravel()
    figure.suptitle(title)
    for panel, result in zip(panels, results):
        predicted = [result.few.predict(value) for value in result.values]
        panel.plot(
            result.values,
            result.latencies_ms,
            '.',
            markersize=3,
            color='0.45',
            label='measured (median)',
        )
        panel.plot(result.values, predicted, linewidth=1.2, color='C0', label='predicted from four')
        panel.plot(
            result.few_values,
            [result.latencies_ms[result.values.index(value)] for value in result.few_values],
            'o',
            color='C3',
            label='the four',
        )
        panel.set_title(f'{result.few}; error {result.few_error:.1%}', fontsize=9)
        panel.set_xlabel(result.sweep.name)
        panel.set_ylabel('ms')
        panel.set_ylim(bottom=0.0)
        panel.grid(True, linewidth=0.4)
    panels[0].legend(fontsize=8)
    for panel in panels[len(results) :]:
        panel.set_visible(False)
    picture = io.BytesIO()
    figure.savefig(picture, dpi=110, format='png')
    replace_file(file, picture.getvalue())
