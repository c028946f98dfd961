"""Layers timed in the middle of three, in turns, until their medians are known; sweeps predicted from four values."""

import pytest
from layer_sweep import (
    Sweep,
    evaluate_sweep,
)
from layers import ConvolutionShape
from step_latency import Line, StepModel

TRUTH = StepModel(16, 1, 1, Line(0.01, 0.2), Line(0.01, 0.2), 0.0)
SWEEP = Sweep('filters', 'out_channels', ConvolutionShape(8, 8, 3, 1, 9, 9), tuple(range(1, 130)))
TIMES = {shape: [TRUTH.predict(value)] * 3 for value, shape in zip(SWEEP.values, SWEEP.shapes)}


def test_four_values_predict_the_others():
    measured = TIMES | {shape: [] for shape in SWEEP.shapes[:20]}
    result = evaluate_sweep(SWEEP, measured)
    found = (result.model.depth, result.few.depth, len(result.few_values), result.count)
    assert found == (16, 16, 4, 109)
    assert result.few_error == pytest.approx(0.0, abs=1e-6)
    other = StepModel(64, 1, 1, TRUTH.upper, TRUTH.lower, 0.0)
    result = evaluate_sweep(SWEEP, TIMES, other)
    assert result.few.depth == 64 and result.few_error > 0.05
