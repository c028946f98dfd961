"""Sweeps predicted from four of their values."""

import pytest
from layer_sweep import MeasuredLayers, Sweep
from layers import ConvolutionShape
from step_latency import Line, StepModel
from sweep_result import evaluate_sweep

TRUTH = StepModel(16, 1, 1, Line(0.01, 0.2), Line(0.01, 0.2), 0.0)
SWEEP = Sweep('filters', 'out_channels', ConvolutionShape(8, 8, 3, 1, 9, 9), tuple(range(1, 130)))


def measured(sweep: Sweep, skipped: int = 0) -> MeasuredLayers:
    samples = {shape: [] for shape in sweep.shapes}
    for value, shape in list(zip(sweep.values, sweep.shapes))[skipped:]:
        samples[shape] = [TRUTH.predict(value)] * 3
    return MeasuredLayers(samples)


def test_four_values_predict_the_others():
    result = evaluate_sweep(SWEEP, measured(SWEEP, skipped=20))
    found = (result.model.depth, result.few.depth, len(result.few_values), len(result.values))
    assert found == (16, 16, 4, 109)
    assert result.few_error == pytest.approx(0.0, abs=1e-6)


def test_steps_may_come_from_another_sweep():
    other = StepModel(64, 1, 1, TRUTH.upper, TRUTH.lower, 0.0)
    result = evaluate_sweep(SWEEP, measured(SWEEP), other)
    assert result.few.depth == 64 and result.few_error > 0.05
