"""How long a job may run before any deadline is in danger: what earlier jobs left is its to use."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

_MOST_DEADLINES = (
    1000  # looked at; with a processor used to the last share there may be no end of them
)


@dataclass(frozen=True)
class Waiting:
    """A released job that has not started, or was preempted.

    Attributes:
        deadline_ms: when it is due.
        time_ms: what is left of its bound.
    """

    deadline_ms: float
    time_ms: float


@dataclass(frozen=True)
class Coming:
    """The jobs of a task that are still to be released, as early and as often as they may be.

    Attributes:
        release_ms: of the first one.
        period_ms: from one to the next.
        due_ms: from each to its deadline, at most the period.
        time_ms: bound of each.
    """

    release_ms: float
    period_ms: float
    due_ms: float
    time_ms: float


def latest_finish_ms(
    deadline_ms: float, waiting: Sequence[Waiting], coming: Sequence[Coming]
) -> float:
    """When a job that is given the processor now must have finished, were it not preempted, so that it and all that
    follow still meet their deadlines.

    Until a deadline D, its own or a later one, the processor has to do what is left of it, and at most what waits and is
    due by D, and what is released from now on and due by D. An earlier deadline loses at most a segment to it, and one
    with a later deadline that is started after it is allowed for likewise: that is what the conditions of `feasibility`
    are for, so blocking need not be counted here.

    Args:
        deadline_ms: of the job itself, the earliest of those released.
        waiting: the other released jobs.
        coming: of every task, the one of the job included, that together are schedulable.

    Returns:
        The time, at most the deadline; -inf when so many deadlines had to be looked at that none is known.
    """
    latest_ms, work_ms = deadline_ms, 0.0
    due = [(job.deadline_ms, job.time_ms, math.inf) for job in waiting]
    due += [(task.release_ms + task.due_ms, task.time_ms, task.period_ms) for task in coming]
    heapq.heapify(due)
    left_ms = math.fsum(job.time_ms for job in waiting)
    share = math.fsum(task.time_ms / task.period_ms for task in coming)
    for _ in range(_MOST_DEADLINES):
        if not due:
            return latest_ms
        at_ms, time_ms, period_ms = heapq.heappop(due)
        # By a later D at most all that waits is due, and of each task its share of the time since its first release,
        # and of what its deadlines are before the ends of its periods.
        most_ms = left_ms + sum(
            max(0.0, at_ms - task.release_ms + task.period_ms - task.due_ms)
            * task.time_ms
            / task.period_ms
            for task in coming
        )
        if share <= 1.0 and at_ms - most_ms >= latest_ms:
            return latest_ms
        work_ms += time_ms
        latest_ms = min(latest_ms, max(at_ms, deadline_ms) - work_ms)
        if period_ms < math.inf:
            heapq.heappush(due, (at_ms + period_ms, time_ms, period_ms))
    return -math.inf
