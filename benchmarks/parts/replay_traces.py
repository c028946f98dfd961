"""How long frames take under several conditions, segment by segment, so that any path can be replayed on them.

A recorded frame is two looks at an image, the longest that there is. Of each of its segments the work is known, what it
takes on the idle machine, and the time that it took; so the frame is a course of time over work. A path that is replayed
on it goes through its own work along that course: it is slowed down and interrupted where and as long as the machine
was, whichever segment it was at.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deadline_perception.core.stopwatch import now_ms
from deadline_perception.engines.segment_run import Network
from deadline_perception.extras.contention.load import busy_programs
from deadline_perception.system.priority import Role, ThreadPriority
from deadline_perception.timing.profile import wait_for_frame
from parts.beside_programs import beside_programs
from parts.harness import turns
from parts.replay_recording import LOOKS, OURS, keep_arrays

LONGEST = ('r0.44-s00000-w1.00-p100-h2', 's00000-w1.00-p100-h2')  # both looks of a frame
STALL_MS, STALL_PERIOD_MS = 8.0, 700.0  # some 5 % of frames of 30 ms meet one
_STALLS = """
import os, sys, time
core, busy_s, period_s = int(sys.argv[1]), float(sys.argv[2]) / 1000, float(sys.argv[3]) / 1000
os.sched_setaffinity(0, {core})
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
except PermissionError:
    os.nice(-20)
while True:
    at = time.monotonic()
    begin = (at // period_s + 1) * period_s
    time.sleep(begin - at)
    while time.monotonic() < begin + busy_s:
        pass
"""
_COST_ROUNDS = 40


@dataclass(frozen=True)
class Condition:
    """What starts the programs beside the network, and the mode of its thread's `ThreadPriority`."""

    beside: Callable[[], AbstractContextManager]
    priority: str = 'auto'


def _stalls() -> AbstractContextManager:
    cores = sorted(os.sched_getaffinity(0))
    return beside_programs(
        _STALLS, [(str(core), str(STALL_MS), str(STALL_PERIOD_MS)) for core in cores]
    )


CONDITIONS = {
    'alone': Condition(nullcontext),
    'two busy programs': Condition(lambda: busy_programs(2)),
    'the same without priority': Condition(lambda: busy_programs(2), 'off'),
    'periodic stalls': Condition(_stalls),
}


class Trace:
    """Time over work of recorded frames.

    Args:
        work_ms: of the segments of the longest frame, `[segments]`, each above 0.
        took_ms: what they took, `[frames, segments]`.
        rest_ms: of each frame, beside its segments.
    """

    def __init__(self, work_ms: np.ndarray, took_ms: np.ndarray, rest_ms: np.ndarray) -> None:
        self.ends_ms = np.concatenate([[0.0], np.cumsum(work_ms)])
        self.times_ms = np.concatenate([np.zeros((len(took_ms), 1)), np.cumsum(took_ms, 1)], 1)
        self.rest_ms = rest_ms
        self._ends = self.ends_ms.tolist()
        self._rows = self.times_ms.tolist()

    def __len__(self) -> int:
        return len(self._rows)

    def time_ms(self, frame: int, work_ms: float) -> float:
        """When so much work of a frame is done, from its begin on; beyond the recorded work at the frame's mean pace."""
        ends, row = self._ends, self._rows[frame]
        if work_ms >= ends[-1]:
            return row[-1] * work_ms / ends[-1]
        at = bisect_left(ends, work_ms, 1)
        share = (work_ms - ends[at - 1]) / (ends[at] - ends[at - 1])
        return row[at - 1] + share * (row[at] - row[at - 1])

    def table_ms(self, work_ms: np.ndarray) -> np.ndarray:
        """The same of all frames: float64 `[frames, works]`."""
        table = np.stack([np.interp(work_ms, self.ends_ms, row) for row in self.times_ms])
        beyond = work_ms / self.ends_ms[-1]
        return np.where(beyond > 1.0, self.times_ms[:, -1:] * beyond, table)


def measure_costs(
    networks: Mapping[str, Network], images: Sequence[np.ndarray], file: Path
) -> dict[str, float]:
    """Median time in ms of every segment of the looks by `NETWORK KEY`, all looks in random turn, each after a pause as in
    a profile; kept in a file."""
    if not file.is_file():
        rng = random.Random(0)
        times_ms = {}
        priority = raised('auto')
        for number, (name, path) in turns(LOOKS, _COST_ROUNDS + 1):
            network = networks[name]
            priority.between_frames()  # else the system ends a thread that never waits
            wait_for_frame()
            took_ms = _segments_ms(network, rng.choice(images), network.path_space.parse(path))
            for key, one_ms in took_ms if number else ():
                times_ms.setdefault(f'{name} {key}', []).append(one_ms)
        medians = {key: statistics.median(times) for key, times in times_ms.items()}
        keep_arrays(file, keys=list(medians), ms=list(medians.values()))
    with np.load(file) as kept:
        return dict(zip(kept['keys'].tolist(), kept['ms'].tolist()))


def record_traces(
    load: Callable[[], Network],
    images: Sequence[np.ndarray],
    folder: Path,
    frames: int,
    period_ms: float,
) -> None:
    """Records frames of every condition that was not recorded before, each on a thread of its own.

    Args:
        load: gives the network; called on the thread that runs it.
        period_ms: from frame to frame, as far as they are not longer.
    """
    for name, condition in CONDITIONS.items():
        file = _trace_file(folder, name)
        if not file.is_file():
            print(f'{name}: at least {frames * period_ms / 60_000.0:.1f} min', flush=True)
            rng = random.Random(len(name))
            with ThreadPoolExecutor(1) as worker:
                arguments = load, images, file, condition, frames, period_ms, rng
                worker.submit(_record, *arguments).result()


def _record(load, images, file, condition, frames, period_ms, rng) -> None:
    network = load()
    paths = [network.path_space.parse(path) for path in LONGEST]
    priority = raised(condition.priority)
    took_ms = []
    rest_ms = []
    with condition.beside():
        for number in range(20):  # the load has begun, and caches are warm
            _segments_ms(network, images[number % len(images)], paths[number % 2])
        for _ in range(frames):
            priority.between_frames()
            begun_ms = now_ms()
            image = rng.choice(images)
            times = [one for path in paths for _, one in _segments_ms(network, image, path)]
            took_ms.append(times)
            rest_ms.append(now_ms() - begun_ms - sum(times))
            time.sleep(max(begun_ms + period_ms - now_ms(), 0.001) / 1000.0)
    took = np.array(took_ms, np.float32)
    rest = np.array(rest_ms, np.float32)
    keep_arrays(file, took_ms=took, rest_ms=rest, priority=priority.in_force)
    low, high = np.quantile(took.sum(1), (0.5, 0.99))
    print(f'median {low:.1f} ms, p99 {high:.1f} ms', flush=True)


def raised(mode: str) -> ThreadPriority:
    """Raises the calling thread as the node does its inference thread, under that mode."""
    priority = ThreadPriority(mode, lock_memory=False)
    priority.raise_thread(Role.INFERENCE)
    return priority


def read_traces(
    folder: Path, costs_ms: Mapping[str, float], keys: Sequence[str]
) -> dict[str, Trace]:
    """Those that were recorded, by condition; `keys` are of the segments of a recorded frame, in their order.

    Raises:
        ValueError: a condition has none.
    """
    work_ms, found = np.array([costs_ms[f'{OURS} {key}'] for key in keys]), {}
    for name in CONDITIONS:
        file = _trace_file(folder, name)
        if not file.is_file():
            raise ValueError(f'no frame of {name} is recorded in {folder}: run with --only trace')
        with np.load(file) as kept:
            found[name] = Trace(work_ms, kept['took_ms'], kept['rest_ms'])
    return found


def _trace_file(folder: Path, condition: str) -> Path:
    return folder / f'{condition.replace(" ", "-")}.npz'


def _segments_ms(network: Network, image: np.ndarray, path) -> list[tuple[str, float]]:
    """Key and time of every segment that one look runs."""
    run, found = network.start(image, path), []
    keys = path.keys_by_segment
    while not run.finished:
        key = keys[run.segment]
        took_ms = run.run_segment()
        if key is not None:
            found.append((key, took_ms))
    run.result()
    return found
