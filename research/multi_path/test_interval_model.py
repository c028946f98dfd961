"""The interval analysis against sums made by hand from the paper's equations."""

from dataclasses import replace

import pytest
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
COUNTS = LayerCounts(
    computations=100,
    loads=20,
    stores=10,
    memory_loads=6,
    memory_stores=4,
    near_loads=30,
    near_stores=10,
)


def test_bound_of_a_layer() -> None:
    shares = {'missing': 0.5, 'conflicting': 0.75}
    model = IntervalModel(PROCESSOR, (2.0, 1.0, 3.0, 50.0), **shares, calibration_factor=1.5)
    assert model.execution_cycles(COUNTS) == 200 + 20 + 30 + 50
    assert model.memory_cycles(COUNTS) == max(0.5 * (6 + 4) * 52, 0.75 * (30 + 10) * 10) == 300
    # 600 cycles over 4 processors at 2 GHz.
    assert model.wcet_ms(COUNTS) == pytest.approx(1.5 * (300 + 300) / 4 / 2e6)
    assert replace(model, missing=1.0).memory_cycles(COUNTS) == 520


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
