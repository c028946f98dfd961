"""Layers timed in the middle of three, in turns, until their medians are known."""

import math
import random
from dataclasses import replace

import pytest
import torch
from layer_sweep import (
    LayerTimer,
    MeasuredLayers,
    Repetition,
    measure_layers,
    median_uncertainty,
)
from layers import ConvolutionShape

LAYER = ConvolutionShape(in_channels=4, out_channels=6, kernel=3, stride=2, height=9, width=7)


class TimerOfKnownLayers:
    """Says what it was told, and remembers in which order it was asked."""

    def __init__(self, rng: random.Random, spread: dict[ConvolutionShape, float]) -> None:
        self.rng = rng
        self.spread = spread
        self.asked = []

    def time_layer(self, shape: ConvolutionShape, runs: int) -> list[float]:
        self.asked.append((shape, runs))
        factors = [1.0 + self.spread[shape] * self.rng.uniform(-1.0, 1.0) for _ in range(runs)]
        return [shape.in_channels * factor for factor in factors]


def test_uncertainty_of_the_median_by_hand():
    assert median_uncertainty([1.0] * 5) == math.inf
    # first to last, median 3.5
    assert median_uncertainty([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) == pytest.approx(5.0 / 7.0)
    # 25 samples: rank floor((24 - 9.8) / 2) = 7, so from the 8th smallest to the 8th largest: 8 to 18 around 13.
    samples = [float(value) for value in range(1, 26)]
    assert median_uncertainty(samples) == pytest.approx(10.0 / 26.0)


def test_runs_unsteady_layers_more_often_and_in_turns():
    steady = replace(LAYER, in_channels=1)
    unsteady = replace(LAYER, in_channels=2)
    timer = TimerOfKnownLayers(random.Random(1), {steady: 0.0, unsteady: 0.2})
    samples = {steady: [], unsteady: []}
    repetition = Repetition(accuracy=0.01, least=6, most=40)
    done = list(measure_layers(samples, timer, repetition, random.Random(2)))
    assert (len(samples[steady]), len(samples[unsteady])) == (6, 40)
    assert done[-1] == 2 and done == sorted(done)
    first = [shape for shape, _ in timer.asked[:12]]
    assert all({steady, unsteady} == set(first[turn : turn + 2]) for turn in range(0, 12, 2))
    # 4 ms of a layer that takes 1
    assert {runs for shape, runs in timer.asked[2:] if shape == steady} == {4}


def test_goes_on_where_it_was_left():
    samples = {LAYER: [1.0] * 5}
    timer = TimerOfKnownLayers(random.Random(1), {LAYER: 0.0})
    repetition = Repetition(accuracy=10.0, least=6, most=6)
    list(measure_layers(samples, timer, repetition, random.Random(2)))
    assert len(samples[LAYER]) == 6 and len(timer.asked) == 1
    assert list(measure_layers(samples, timer, repetition, random.Random(2))) == []


def test_an_unmeasured_layer_is_refused():
    measured = MeasuredLayers({LAYER: [1.0, 3.0, 2.0]})
    assert measured.median_ms(LAYER) == 2.0
    with pytest.raises(ValueError, match='was not measured'):
        measured.median_ms(replace(LAYER, height=3))


@pytest.mark.parametrize(
    'device',
    [
        'cpu',
        pytest.param(
            'cuda', marks=pytest.mark.skipif(not torch.cuda.is_available(), reason='no CUDA device')
        ),
    ],
)
def test_times_the_middle_layer(device):
    timer = LayerTimer(device)
    large = ConvolutionShape(256, 256, kernel=3, stride=1, height=32, width=32, batch=2)
    small = timer.time_layer(LAYER, 3)
    longer = timer.time_layer(large, 3)
    assert len(small) == len(longer) == 3
    assert min(small + longer) > 0.0
