"""How well a sweep of layers is predicted: from all of its measurements, and from four of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from layer_sweep import MeasuredLayers, Sweep
from step_latency import StepModel, fit_step_model

LEAST_MEASURED = 8  # fewer values of a sweep show no steps, and leave too few that four measurements could predict


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
