"""Non-preemptive EDF of sporadic tasks on one processor, simulated: millions of jobs, by the executor's rule."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Jobs:
    """What became of all jobs, in the order in which they ran.

    Attributes:
        task: int64 `[J]`, index of the task.
        release, deadline, start, finish: int64 `[J]`, in the unit of the times.
    """

    task: np.ndarray
    release: np.ndarray
    deadline: np.ndarray
    start: np.ndarray
    finish: np.ndarray

    @property
    def missed(self) -> np.ndarray:
        """Jobs that finished after their deadline: bool `[J]`."""
        return self.finish > self.deadline

    def __len__(self) -> int:
        return len(self.task)


def simulate(
    releases: Sequence[np.ndarray], times: Sequence[int | np.ndarray], deadlines: Sequence[int]
) -> Jobs:
    """Runs jobs: whenever the processor is free, the released one of the earliest deadline, to its end.

    Of equal deadlines the task with the lower index goes first. The processor never idles while a job waits.

    Args:
        releases: int64 `[J_i]`, ascending, of each task.
        times: execution time of each task's jobs: one for all, or one for each.
        deadlines: from a release to its deadline.

    Raises:
        ValueError: the lengths differ, releases descend, or a time is below 1.
    """
    if not len(releases) == len(times) == len(deadlines):
        raise ValueError(
            f'{len(releases)} rows of releases, {len(times)} times and {len(deadlines)} deadlines, '
            f'expected one of each per task'
        )
    took = [
        np.broadcast_to(np.asarray(time, dtype=np.int64), len(row))
        for row, time in zip(releases, times)
    ]
    for row, time in zip(releases, took):
        if len(row) and (time.min() < 1 or (np.diff(row) < 0).any()):
            raise ValueError('execution times below 1 or releases that descend, expected neither')
    task = np.repeat(np.arange(len(releases)), [len(row) for row in releases])
    release = np.concatenate([np.asarray(row, dtype=np.int64) for row in releases])
    order = np.lexsort((task, release))
    task, release = task[order], release[order]
    time = np.concatenate(took)[order]
    deadline = release + np.array(deadlines, dtype=np.int64)[task]
    start, ran = (
        np.array(column, dtype=np.int64)
        for column in _run(release.tolist(), deadline.tolist(), task.tolist(), time.tolist())
    )
    return Jobs(task[ran], release[ran], deadline[ran], start, start + time[ran])


def _run(
    release: list[int], deadline: list[int], task: list[int], time: list[int]
) -> tuple[list[int], list[int]]:
    """Starts and numbers of jobs, in the order in which they run."""
    waiting: list[tuple[int, int, int]] = []
    start, ran, now, at, count = [], [], 0, 0, len(release)
    while at < count or waiting:
        if not waiting and release[at] > now:
            now = release[at]
        while at < count and release[at] <= now:
            heapq.heappush(waiting, (deadline[at], task[at], at))
            at += 1
        number = heapq.heappop(waiting)[2]
        start.append(now)
        ran.append(number)
        now += time[number]
    return start, ran
