"""Worst-case execution time of a layer from the interval analysis (multi-path paper, section IV).

Warps of a thread block take turns on a processor. An *interval* of a warp is what it executes until it stalls, and the
stall. With N_block blocks on N_proc processors a layer takes

    C_total = N_block / N_proc * sum over intervals of (C_exec + C_stall + D_proc + D_mem)

    D_proc = (N_warp - 1) * C_exec - C_stall         other warps execute while this one waits
    D_mem  = max(D_mshr + D_dram, D_bank)            memory requests queue
    D_mshr = L_M * R_M / NUM_MSHR                    for registers that track misses
    D_dram = CORE_FREQ * CACHE_LINE / MEM_BAND * R_M / 2     for the bandwidth of the memory
    D_bank = L_S * (R_S - 1)                         for a bank of the shared memory

The sum of execution over warps is linear in computations, loads and stores (assumption 1); so are the requests to the
memory, R_M, in global loads and stores (assumption 2), and those to the shared memory, R_S, in shared ones
(assumption 3). `interval_fit` finds the coefficients of assumption 1.

**Requests follow from counts.** Every line that a layer loads or stores is at most one request, so that assumptions 2
and 3 have alpha = beta = a share of at most 1, and gamma = 0: D_mem is the share times a delay that counts and device
alone decide. The share is fitted, since what the caches and their prefetching save is not published; where it reaches 1
the bound is the paper's worst case. A larger L_M then raises the bound of a fitted model.

**The same form for a CPU.** A processor is a core, a warp an instruction of its vector unit, whose lanes are the
threads of the warp; a block is the share of a layer that a thread takes. R_M counts cache lines that pass between
memory and core, the MSHRs are the core's line-fill buffers, L_M the latency of a miss in every cache. The shared memory
of a block is the core's own cache: R_S counts the vectors that instructions take from it, L_S is its latency. From
geometry these are as many as the computations, and the lines as many as the loads and stores up to a factor: times
alone then tell the two terms of a pair apart only by the larger of the two delays.

Loads PyTorch when the bandwidth is measured, not before.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from deadline_perception.core.device import DeviceFacts
from deadline_perception.core.stopwatch import now_ms, synchronise

sys.path.append(str(Path(__file__).resolve().parents[1] / 'layer_latency'))
from layers import FLOAT_BYTES, LayerShape

# Worst cases, by kind of device. Too high a value lowers the fitted share of requests, too low a value ends at a share
# of 1. Assumed: a row of the memory to open and a page walk that misses, about twice the latency of a loaded server's
# memory; on a GPU the upper end of what microbenchmarks report.
_MISS_LATENCY_NS = {'cpu': 200.0, 'cuda': 700.0}
# Second-level cache: load to use by the optimisation guides of Zen 4 and of Skylake servers. Shared memory: 19 to 30 by
# microbenchmarks of Volta to Hopper.
_NEAR_LATENCY_CYCLES = {'cpu': 14.0, 'cuda': 30.0}
# Line-fill buffers of a Skylake core by its optimisation manual; later cores have more. Of GPUs unpublished: assumed.
_MSHRS = {'cpu': 12, 'cuda': 64}
_GPU_LANES = 32
_FEWEST_CPU_LANES = 4  # 128 bits: SSE2, NEON
_GPU_LINE_BYTES = 128
_CPU_LINE_BYTES = 64
_COPY_BYTES = 2**28
_COPIES = 5
_LANES = {'avx512f': 16, 'avx2': 8, 'avx': 8}  # flag of the CPU: 32-bit values in a vector
_UNREAD_CLOCK_MHZ = 1000.0  # the fit is in cycles of this length then


@dataclass(frozen=True)
class Processor:
    """What a device can do at once, and its latencies at their worst.

    Attributes:
        processors: multiprocessors of a GPU, or cores that a layer is spread over: N_proc.
        lanes: values that one instruction works on.
        clock_mhz: CORE_FREQ.
        line_bytes: CACHE_LINE.
        bandwidth_gb_s: MEM_BAND, measured.
        mshrs: NUM_MSHR of one processor.
        miss_latency_cycles: L_M.
        near_latency_cycles: L_S.
    """

    processors: int
    lanes: int
    clock_mhz: float
    line_bytes: int
    bandwidth_gb_s: float
    mshrs: int
    miss_latency_cycles: float
    near_latency_cycles: float

    @classmethod
    def of(cls, facts: DeviceFacts, bandwidth_gb_s: float) -> Processor:
        """The processor of a device, whose memory has a bandwidth as `measure_bandwidth_gb_s` finds it."""
        on_gpu = facts.kind == 'cuda'
        clock_mhz = facts.clock_mhz or _UNREAD_CLOCK_MHZ
        return cls(
            processors=facts.multiprocessors if on_gpu else facts.threads,
            lanes=_GPU_LANES if on_gpu else read_cpu_lanes(),
            clock_mhz=clock_mhz,
            line_bytes=_GPU_LINE_BYTES if on_gpu else facts.cache_line_bytes or _CPU_LINE_BYTES,
            bandwidth_gb_s=bandwidth_gb_s,
            mshrs=_MSHRS[facts.kind],
            miss_latency_cycles=_MISS_LATENCY_NS[facts.kind] * clock_mhz / 1000.0,
            near_latency_cycles=_NEAR_LATENCY_CYCLES[facts.kind],
        )

    def mshr_delay(self, memory_requests: float) -> float:
        """D_mshr in cycles, the worst case L_M * R_M / NUM_MSHR."""
        return self.miss_latency_cycles * memory_requests / self.mshrs

    def dram_delay(self, memory_requests: float) -> float:
        """D_dram in cycles: on average half of the requests are served before one."""
        # GHz * B / (GB/s).
        cycles_per_line = self.clock_mhz / 1000.0 * self.line_bytes / self.bandwidth_gb_s
        return cycles_per_line * memory_requests / 2.0

    def bank_delay(self, near_requests: float) -> float:
        """D_bank in cycles: all threads want the same bank; the latency of the first is part of its stall."""
        return self.near_latency_cycles * max(0.0, near_requests - 1.0)

    def memory_delay(self, memory_requests: float, near_requests: float) -> float:
        """D_mem in cycles."""
        return max(
            self.mshr_delay(memory_requests) + self.dram_delay(memory_requests),
            self.bank_delay(near_requests),
        )

    def ms(self, cycles: float) -> float:
        """Converts cycles of the core clock to ms."""
        return cycles / (self.clock_mhz * 1000.0)


@dataclass(frozen=True)
class LayerCounts:
    """Instructions of a layer, over all its warps and blocks.

    Attributes:
        computations, loads, stores: N_comp, N_load, N_store of assumption 1.
        memory_loads, memory_stores: global ones, assumption 2; on a CPU lines from and to memory.
        near_loads, near_stores: shared ones, assumption 3; on a CPU vectors from and to the core's own cache.
    """

    computations: float
    loads: float
    stores: float
    memory_loads: float
    memory_stores: float
    near_loads: float
    near_stores: float

    @classmethod
    def of(cls, shape: LayerShape, processor: Processor) -> LayerCounts:
        """Counts from geometry: full vectors, every byte moved once, one operand of each computation from nearby."""
        vector_bytes = FLOAT_BYTES * processor.lanes
        vectors = shape.operations / processor.lanes
        return cls(
            computations=vectors,
            loads=shape.load_bytes / vector_bytes,
            stores=shape.store_bytes / vector_bytes,
            memory_loads=shape.load_bytes / processor.line_bytes,
            memory_stores=shape.store_bytes / processor.line_bytes,
            near_loads=vectors,
            near_stores=shape.store_bytes / vector_bytes,
        )


@dataclass(frozen=True)
class IntervalModel:
    """Bound on the execution time of the layers of one family on one processor in one state of contention.

    Assumes that the intervals of a layer are alike, as those of a loop, so that the larger of the two memory delays is
    the same one throughout.

    Attributes:
        processor: runs the layers.
        execution: alpha, beta, gamma, delta of assumption 1, cycles >= 0.
        missing: requests to the memory for each line loaded or stored, 0 to 1: alpha and beta of assumption 2.
        conflicting: requests to one bank of the shared memory for each shared load or store, 0 to 1: those of
            assumption 3.
        calibration_factor: factor by which a layer that took no part in the fit exceeded it, at least 1.
    """

    processor: Processor
    execution: tuple[float, float, float, float]
    missing: float = 0.0
    conflicting: float = 0.0
    calibration_factor: float = 1.0

    def execution_cycles(self, counts: LayerCounts) -> float:
        """Assumption 1: N_block times the sum of N_warp * C_exec."""
        alpha, beta, gamma, delta = self.execution
        return alpha * counts.computations + beta * counts.loads + gamma * counts.stores + delta

    def memory_cycles(self, counts: LayerCounts) -> float:
        """N_block times the sum of D_mem, by assumptions 2 and 3."""
        memory_requests = self.missing * (counts.memory_loads + counts.memory_stores)
        near_requests = self.conflicting * (counts.near_loads + counts.near_stores)
        # R_S - 1 is per interval, and how many there are is unknown: leaving out the 1 only raises the bound.
        return self.processor.memory_delay(memory_requests, near_requests + 1.0)

    def wcet_ms(self, counts: LayerCounts) -> float:
        """The bound of a layer, ms."""
        cycles = (
            self.execution_cycles(counts) + self.memory_cycles(counts)
        ) / self.processor.processors
        return self.calibration_factor * self.processor.ms(cycles)


@dataclass(frozen=True)
class CoveringModel:
    """Bound by several fits of one family: the largest of theirs.

    Attributes:
        fits: the first was fitted to all measured layers, every other to all but one, raised until it covers that one.
    """

    fits: tuple[IntervalModel, ...]

    def wcet_ms(self, counts: LayerCounts) -> float:
        """The bound of a layer, ms."""
        return max(fit.wcet_ms(counts) for fit in self.fits)


def read_cpu_lanes() -> int:
    """32-bit values in a vector of the CPU; as few as any has where it names no wider ones."""
    words = set(Path('/proc/cpuinfo').read_text(encoding='utf-8').split())
    found = (lanes for flag, lanes in _LANES.items() if flag in words)
    return max(found, default=_FEWEST_CPU_LANES)


def measure_bandwidth_gb_s(device: str) -> float:
    """Bandwidth of the device's memory, GB/s: the fastest of a few copies, read and written."""
    import torch

    source = torch.ones(_COPY_BYTES // 4, device=device)
    target = torch.empty_like(source)
    times_ms = []
    for _ in range(_COPIES):
        synchronise(device)
        started = now_ms()
        target.copy_(source)
        synchronise(device)
        times_ms.append(now_ms() - started)
    return 2 * _COPY_BYTES / min(times_ms) / 1e6
