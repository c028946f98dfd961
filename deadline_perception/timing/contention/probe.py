"""A small fixed workload whose time shows how much the machine's other programs take away.

Follows the contention impact profiler of the contention paper (section 4.1.1: run a sample of the application and
watch its delay), made small enough to run all the time, and without the neural network.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable

import numpy as np

from deadline_perception.core.stopwatch import now_ms

_ROUNDS = 8  # of the work that are timed: 1 to 3 ms on a current core
PROBE_SHARE = 0.006  # of one core, that probes take at most; measured: benchmarks/monitor_cost.py of commit a7507dff
_WINDOW = 200  # latest times that the quantile is taken of
_QUANTILE = (
    0.05  # low enough to hold on a mostly busy machine, high enough not to hang on one lucky time
)
_ENOUGH = 21  # times whose quantile no single one decides
PAUSES_BESIDE_FRAMES = (
    3  # times as long as without: one probe then weighs a twentieth of what the frames do
)


def probe_pause_ms(taken_ms: float, *, beside_frames: bool) -> float:
    """Least time from the begin of a probe to that of the next.

    Args:
        taken_ms: that the probe took; a slow one makes the next one wait longer.
        beside_frames: frames came meanwhile, which say more than probes.
    """
    return taken_ms / PROBE_SHARE * (PAUSES_BESIDE_FRAMES if beside_frames else 1)


class IdleTime:
    """What a repeated task takes when nothing disturbs it: the smallest low quantile that was ever seen.

    It never rises again, so a load that stays is not taken for the idle machine. That holds from the first quantile
    that no single time can decide; until then the smallest time so far stands in, and one lucky time among them is left
    behind.

    Attributes:
        idle_ms: the time found so far, NaN before the first one.
    """

    def __init__(self) -> None:
        self._recent: deque[float] = deque()
        self._ordered: list[float] = []
        self.idle_ms = math.nan

    def observe(self, taken_ms: float) -> None:
        """Takes in one time, finite and above 0."""
        self._recent.append(taken_ms)
        insort(self._ordered, taken_ms)
        if len(self._recent) > _WINDOW:
            del self._ordered[bisect_left(self._ordered, self._recent.popleft())]
        low_ms = self._ordered[int(_QUANTILE * (len(self._ordered) - 1))]
        self.idle_ms = low_ms if len(self._ordered) <= _ENOUGH else min(self.idle_ms, low_ms)


class Probe:
    """Fixed numpy work on one thread: arithmetic within the cache, then a walk through memory beyond it.

    Half as many rounds go before those that are timed. The first round after a pause takes 2.4 times as long as the
    eighth, for caches and clock have to wake up (x86 virtual machine), so an idle time learnt between frames would make
    an idle machine without frames look slow.

    Args:
        clock_ms: monotonic clock.
    """

    def __init__(self, *, clock_ms: Callable[[], float] = now_ms) -> None:
        self._clock_ms = clock_ms
        self._idle = IdleTime()
        self._cached = np.linspace(0.5, 1.5, 32_768, dtype=np.float32)  # 128 KiB
        self._scratch = np.empty_like(self._cached)
        self._memory = np.ones(1_048_576, dtype=np.float32)  # 4 MiB
        self._copy = np.empty_like(self._memory)
        self._work(1)  # touches every page, so that the first probe is like the others

    @property
    def idle_ms(self) -> float:
        """Time of a probe on the idle machine; NaN before the first `run`."""
        return self._idle.idle_ms

    def run(self) -> float:
        """Does the work and returns how long it took in ms, at least the clock's resolution; blocks half as long
        again."""
        self._work(_ROUNDS // 2)
        begun_ms = self._clock_ms()
        self._work(_ROUNDS)
        taken_ms = max(self._clock_ms() - begun_ms, 1e-6)
        self._idle.observe(taken_ms)
        return taken_ms

    def _work(self, rounds: int) -> None:
        for _ in range(rounds):
            for _ in range(8):
                np.multiply(self._cached, self._cached, out=self._scratch)
                np.add(self._scratch, self._cached, out=self._scratch)
                np.sqrt(self._scratch, out=self._scratch)
            np.copyto(self._copy, self._memory)
