"""The interval analysis against sums made by hand from the paper's equations, and what the constrained regression
promises: it covers what was measured, and is tight where the model is right."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interval_fit import MeasuredLayer, fit_interval_model
from interval_model import IntervalModel, LayerCounts, Processor
from layers import ConvolutionShape, GroupNormShape

# A miss costs 400 / 8 = 50 cycles in the queue for a register; a line 2 GHz * 64 B / 32 GB/s / 2 = 2 cycles.
PROCESSOR = Processor(
    processors=4,
    lanes=8,
    clock_mhz=2000.0,
    line_bytes=64,
    bandwidth_gb_s=32.0,
    mshrs=8,
    miss_latency_cycles=400.0,
    near_latency_cycles=10.0,
)
SIZES = (
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
COUNTS = [LayerCounts.of(ConvolutionShape(c, o, 1, 1, s, 2 * s), PROCESSOR) for c, o, s in SIZES]


def test_bound_of_a_layer() -> None:
    counts = LayerCounts(
        computations=100,
        loads=20,
        stores=10,
        memory_loads=6,
        memory_stores=4,
        near_loads=30,
        near_stores=10,
    )
    shares = {'missing': 0.5, 'conflicting': 0.75}
    model = IntervalModel(PROCESSOR, (2.0, 1.0, 3.0, 50.0), **shares, calibration_factor=1.5)
    assert model.execution_cycles(counts) == 200 + 20 + 30 + 50
    assert model.memory_cycles(counts) == max(0.5 * (6 + 4) * 52, 0.75 * (30 + 10) * 10) == 300
    # 600 cycles over 4 processors at 2 GHz.
    assert model.wcet_ms(counts) == pytest.approx(1.5 * (300 + 300) / 4 / 2e6)
    assert replace(model, missing=1.0).memory_cycles(counts) == 520


def test_counts_from_geometry() -> None:
    layer = ConvolutionShape(in_channels=8, out_channels=16, kernel=1, stride=1, height=4, width=4)
    counts = LayerCounts.of(layer, PROCESSOR)
    assert counts.computations == counts.near_loads == 16 * 128 / 8
    assert counts.loads == 4 * (128 + 128) / 32
    assert counts.memory_loads == 4 * (128 + 128) / 64
    assert counts.stores == counts.near_stores == 4 * 256 / 32
    assert counts.memory_stores == 4 * 256 / 64
    norm = GroupNormShape(channels=8, groups=4, height=3, width=5)
    assert (norm.operations, norm.load_bytes, norm.store_bytes) == (360, 4 * (240 + 16), 480)


def measured(model: IntervalModel, noise: list[float]) -> list[MeasuredLayer]:
    """Layers whose worst times are those of a model, times a factor."""
    times_ms = [model.wcet_ms(counts) * factor for counts, factor in zip(COUNTS, noise)]
    return [MeasuredLayer(counts, 0.8 * ms, ms) for counts, ms in zip(COUNTS, times_ms)]


noises = st.lists(st.floats(1.0, 2.0), min_size=len(COUNTS), max_size=len(COUNTS))


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(noises, st.floats(0.0, 1.0))
def test_covers_every_observation(noise: list[float], traffic: float) -> None:
    ground_truth = IntervalModel(PROCESSOR, (0.9, 0.2, 0.1, 1000.0), missing=traffic)
    layers = measured(ground_truth, noise)
    model = fit_interval_model(layers, PROCESSOR)
    for layer in layers:
        assert model.wcet_ms(layer.counts) >= layer.worst_ms * (1 - 1e-9)


@pytest.mark.slow
def test_finds_a_model_that_is_right_without_calibration() -> None:
    ground_truth = IntervalModel(PROCESSOR, (0.9, 0.2, 0.1, 3e5), missing=0.05)
    model = fit_interval_model(measured(ground_truth, [1.0] * len(COUNTS)), PROCESSOR)
    factors = [fit.calibration_factor for fit in model.fits]
    assert max(factors) == pytest.approx(1.0, abs=0.02)
    held_out = LayerCounts.of(ConvolutionShape(192, 224, 1, 1, 33, 57), PROCESSOR)
    assert model.wcet_ms(held_out) == pytest.approx(ground_truth.wcet_ms(held_out), rel=0.02)
