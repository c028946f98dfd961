"""What the constrained regression promises: it covers what was measured, and is tight where the model is right."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interval_fit import MeasuredLayer, fit_interval_model
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
    factors = [fit.calibration_factor for fit in model.fits]
    assert max(factors) == pytest.approx(1.0, abs=0.02)
    held_out = LayerCounts.of(ConvolutionShape(192, 224, 1, 1, 33, 57), PROCESSOR)
    assert model.wcet_ms(held_out) == pytest.approx(ground_truth.wcet_ms(held_out), rel=0.02)
