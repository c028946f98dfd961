"""What the constrained regression promises: it covers what was measured, and is tight where the model is right."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interval_fit import MeasuredLayer, fit_interval_model, fit_oblivious_model
from interval_model import IntervalModel, LayerCounts, Processor
from layers import ConvolutionShape

pytestmark = pytest.mark.slow

PROCESSOR = Processor(
    processors=1,
    lanes=16,
    clock_mhz=3000.0,
    line_bytes=64,
    bandwidth_gb_s=20.0,
    mshrs=12,
    miss_latency_cycles=600.0,
    near_latency_cycles=14.0,
)
COUNTS = [
    LayerCounts.of(ConvolutionShape(c, o, 1, 1, s, 2 * s), PROCESSOR)
    for c, o, s in (
        (32, 64, 40),
        (64, 64, 80),
        (128, 32, 60),
        (256, 256, 20),
        (64, 256, 40),
        (512, 64, 30),
        (96, 160, 50),
        (160, 96, 25),
        (128, 128, 70),
        (48, 512, 16),
        (320, 80, 45),
        (80, 320, 35),
    )
]


def measured(model: IntervalModel, noise: list[float]) -> list[MeasuredLayer]:
    """Layers whose worst times are those of a model, times a factor."""
    times_ms = [model.wcet_ms(counts) * factor for counts, factor in zip(COUNTS, noise)]
    return [MeasuredLayer(counts, 0.8 * ms, ms) for counts, ms in zip(COUNTS, times_ms)]


noises = st.lists(st.floats(1.0, 2.0), min_size=len(COUNTS), max_size=len(COUNTS))


@settings(max_examples=4, deadline=None)
@given(noises, st.floats(0.0, 1.0))
def test_covers_every_observation(noise: list[float], traffic: float) -> None:
    ground_truth = IntervalModel(PROCESSOR, (0.9, 0.2, 0.1, 1000.0), missing=traffic)
    layers = measured(ground_truth, noise)
    model = fit_interval_model(layers, PROCESSOR)
    for layer in layers:
        assert model.wcet_ms(layer.counts) >= layer.worst_ms * (1 - 1e-9)


def test_finds_a_model_that_is_right_without_calibration() -> None:
    ground_truth = IntervalModel(PROCESSOR, (0.9, 0.2, 0.1, 3e5), missing=0.05)
    model = fit_interval_model(measured(ground_truth, [1.0] * len(COUNTS)), PROCESSOR)
    assert model.calibration_factor == pytest.approx(1.0, abs=0.02)
    held_out = LayerCounts.of(ConvolutionShape(192, 224, 1, 1, 33, 57), PROCESSOR)
    assert model.wcet_ms(held_out) == pytest.approx(ground_truth.wcet_ms(held_out), rel=0.02)


def test_finds_both_sides_of_the_larger_memory_delay() -> None:
    ground_truth = IntervalModel(PROCESSOR, (0.0, 0.0, 0.0, 1e4), missing=0.2, conflicting=0.02)
    larger = set()
    for c in COUNTS:
        memory = PROCESSOR.memory_delay(0.2 * (c.memory_loads + c.memory_stores), 0)
        larger.add(memory > PROCESSOR.memory_delay(0, 0.02 * (c.near_loads + c.near_stores)))
    assert larger == {True, False}
    layers = measured(ground_truth, [1.0] * len(COUNTS))
    model = fit_interval_model(layers, PROCESSOR)
    excess = [model.fits[0].wcet_ms(layer.counts) / layer.worst_ms for layer in layers]
    assert min(excess) >= 1 - 1e-9
    assert np.mean(excess) < 1.05


def test_an_odd_layer_counts_once() -> None:
    """Layers of equal counts, one twice as slow: the others bound it at half, calibrated they give its own time."""
    counts = COUNTS[0]
    layers = [MeasuredLayer(counts, time_ms, time_ms) for time_ms in (1.0, 1.0, 2.0)]
    model = fit_interval_model(layers, PROCESSOR)
    assert model.calibration_factor == pytest.approx(2.0)
    assert model.wcet_ms(counts) == pytest.approx(2.0)


def test_oblivious_baseline_fits_means_and_no_contention() -> None:
    ground_truth = IntervalModel(PROCESSOR, (0.9, 0.2, 0.1, 1000.0))
    model = fit_oblivious_model(measured(ground_truth, [1.0] * len(COUNTS)), PROCESSOR)
    assert model.missing == model.conflicting == 0.0
    for counts in COUNTS:
        assert model.wcet_ms(counts) == pytest.approx(0.8 * ground_truth.wcet_ms(counts), rel=1e-6)
