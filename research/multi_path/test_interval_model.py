"""The interval analysis against sums made by hand from the paper's equations."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interval_model import CoveringModel, IntervalModel, LayerCounts, Processor, read_cpu_lanes
from layers import ConvolutionShape, GroupNormShape

from deadline_perception.core.device import DeviceFacts

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
positive = st.floats(0.1, 1e4)


def test_memory_delay_is_the_larger_of_two_queues() -> None:
    assert PROCESSOR.mshr_delay(3) == 150.0
    assert PROCESSOR.dram_delay(3) == 6.0
    assert PROCESSOR.bank_delay(5) == 40.0
    assert PROCESSOR.bank_delay(0) == 0.0
    assert PROCESSOR.memory_delay(3, 5) == 156.0
    assert PROCESSOR.memory_delay(3, 21) == 200.0


@given(st.integers(1, 8), st.integers(1, 64), positive, st.floats(0, 1e3), st.integers(1, 50))
def test_model_is_the_sum_over_intervals_that_are_alike(
    warps: int, blocks: int, execution: float, requests: float, count: int
) -> None:
    loads = blocks * count * requests
    counts = replace(
        COUNTS, computations=blocks * count * warps, memory_loads=loads, memory_stores=0
    )
    model = IntervalModel(PROCESSOR, execution=(execution, 0, 0, 0), missing=1.0)
    # C_exec + C_stall + D_proc is N_warp * C_exec, whatever the stall.
    cycles = blocks / 4 * count * (warps * execution + PROCESSOR.memory_delay(requests, 0.0))
    assert model.wcet_ms(counts) == pytest.approx(PROCESSOR.ms(cycles), rel=1e-9)


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


def test_processor_of_a_cpu_and_of_a_gpu() -> None:
    facts = DeviceFacts('CPU', 'cpu', 4, 2, clock_mhz=3000.0, cache_line_bytes=64)
    cpu = Processor.of(facts, 20.0, cpu_lanes=8)
    assert (cpu.processors, cpu.lanes, cpu.line_bytes, cpu.miss_latency_cycles) == (2, 8, 64, 600.0)
    unread = Processor.of(DeviceFacts('CPU', 'cpu', 4, 2), 20.0)
    assert (unread.clock_mhz, unread.lanes) == (1000.0, 4)
    facts = DeviceFacts('GPU', 'cuda', 4, 2, multiprocessors=30, clock_mhz=1500.0)
    gpu = Processor.of(facts, 500.0)
    assert (gpu.processors, gpu.lanes, gpu.line_bytes) == (30, 32, 128)


def test_covering_model_takes_the_largest_bound() -> None:
    by_operations = IntervalModel(PROCESSOR, (4.0, 0.0, 0.0, 0.0), calibration_factor=1.5)
    constant = IntervalModel(PROCESSOR, (0.0, 0.0, 0.0, 1000.0))
    model = CoveringModel((by_operations, constant))
    assert model.calibration_factor == 1.5
    assert model.wcet_ms(COUNTS) == constant.wcet_ms(COUNTS)
    assert model.wcet_ms(replace(COUNTS, computations=1000)) == PROCESSOR.ms(1.5 * 4000 / 4)


@pytest.mark.parametrize(
    ('flags', 'lanes'), [('sse2 avx avx2 avx512f', 16), ('sse2 avx avx2', 8), ('fp asimd', 4)]
)
def test_lanes_of_a_cpu(tmp_path, flags: str, lanes: int) -> None:
    file = tmp_path / 'cpuinfo'
    file.write_text(f'processor : 0\nflags : {flags}\n', encoding='utf-8')
    assert read_cpu_lanes(file) == lanes
