"""Layers timed in the middle of three, in turns, until their medians are known; sweeps predicted from four values."""

import math
import random
from dataclasses import replace

import pytest
from layer_sweep import (
    LayerTimer,
    Repetition,
    Sweep,
    evaluate_sweep,
    measure_layers,
    median_uncertainty,
)
from layers import ConvolutionShape
from step_latency import Line, StepModel

LAYER = ConvolutionShape(in_channels=4, out_channels=6, kernel=3, stride=2, height=9, width=7)


def test_uncertainty_of_the_median_by_hand():
    assert median_uncertainty([1.0] * 5) == math.inf
    # first to last, median 3.5
    assert median_uncertainty([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == pytest.approx(5.0 / 7.0)
    # 25 samples: rank floor((24 - 9.8) / 2) = 7, so from the 8th smallest to the 8th largest: 8 to 18 around 13.
    samples = [float(value) for value in range(1, 26)]
    assert median_uncertainty(samples) == pytest.approx(10.0 / 26.0)


class TimerOfKnownLayers:
    """Says what it was told."""

    def __init__(self, noise: dict[ConvolutionShape, float]) -> None:
        self.rng = random.Random(1)
        self.noise = noise

    def time_layer(self, shape: ConvolutionShape, runs: int) -> list[float]:
        share = self.noise[shape]
        return [
            shape.in_channels * (1.0 + share * self.rng.uniform(-1.0, 1.0)) for _ in range(runs)
        ]


def test_unsteady_layers_run_more_often():
    steady = replace(LAYER, in_channels=1)
    unsteady = replace(LAYER, in_channels=2)
    timer = TimerOfKnownLayers({steady: 0.0, unsteady: 0.2})
    repetition = Repetition(accuracy=0.01, least=6, most=40)
    found = measure_layers([steady, unsteady], timer, repetition, math.inf)
    assert (len(found[steady]), len(found[unsteady])) == (6, 40)


def test_times_the_middle_layer():
    assert min(LayerTimer().time_layer(LAYER, 3)) > 0.0


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
