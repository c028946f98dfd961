"""The schedule of the tasks of one device: level and period of each under the present conditions. Free of ROS."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deadline_perception.core.stopwatch import ms_from_ns
from deadline_perception.extras.several_networks.nested_task import NestedTask
from deadline_perception.extras.several_networks.network_scheduler import TaskPlan
from deadline_perception.extras.several_networks.scheduling.allocation import (
    Allocation,
    Method,
    allocate,
)
from deadline_perception.extras.several_networks.scheduling.choices import Infeasible, Option
from deadline_perception.extras.several_networks.scheduling.feasibility import (
    Analysis,
    analyse,
    whole_ns,
)

# A new selection is worth its time when bounds have grown or shrunk by so much, or the speed has changed.
GROWN, SHRUNK = 1.03, 0.9
SPEED_STEP_MPS, SPEED_SHARE = 1.0, 0.1


@dataclass(frozen=True)
class NetworkSchedule:
    """What the tasks of one device do until there is another schedule.

    Attributes:
        names: of the tasks, in the order of the options.
        allocation: their options.
        plans: what the executor follows, by name.
        speed_mps: that the qualities hold for.
        bounds_ms: of each task's levels.
        segments_ms: of the longest segments of each task's levels.
        refusal: why no selection is schedulable, and the lowest options are in force all the same; empty otherwise.
    """

    names: tuple[str, ...]
    allocation: Allocation
    plans: Mapping[str, TaskPlan]
    speed_mps: float
    bounds_ms: tuple[tuple[float, ...], ...]
    segments_ms: tuple[tuple[float, ...], ...]
    refusal: str = ''

    @property
    def blocking_ms(self) -> float:
        """The longest time for which a job waits for one of a later deadline, while bounds are kept."""
        return max(option.segment_ms for option in self.allocation.options)

    def holds(self, tasks: Sequence[NestedTask], speed_mps: float) -> bool:
        """Whether tasks and conditions are still nearly those that it was made for."""
        if tuple(task.name for task in tasks) != self.names:
            return False
        if abs(speed_mps - self.speed_mps) > max(SPEED_STEP_MPS, SPEED_SHARE * self.speed_mps):
            return False
        now = [bounds for task in tasks for bounds in (task.bounds_ms(), task.segments_ms())]
        then = [bounds for pair in zip(self.bounds_ms, self.segments_ms) for bounds in pair]
        return all(
            SHRUNK <= now_ms / then_ms <= GROWN
            for mine, before in zip(now, then)
            for now_ms, then_ms in zip(mine, before)
        )


def make_schedule(tasks: Sequence[NestedTask], speed_mps: float) -> NetworkSchedule:
    """Selects level and period of each task.

    Where nothing is schedulable, each task gets its cheapest level at its longest period, and the schedule says why.

    Args:
        tasks: of one device, with the slowdown in force; at least one.
        speed_mps: of the vehicle.

    Raises:
        ValueError: there is no task, or the speed is negative.
    """
    bounds_ms = tuple(task.bounds_ms() for task in tasks)
    segments_ms = tuple(task.segments_ms() for task in tasks)
    options = [
        task.options(speed_mps, bounds, segments)
        for task, bounds, segments in zip(tasks, bounds_ms, segments_ms)
    ]
    refusal = ''
    try:
        allocation = allocate(options, Method.GREEDY_NEXT, names=[task.name for task in tasks])
    except Infeasible as error:
        refusal = str(error)
        allocation = Allocation(tuple(max(row, key=_ease) for row in options), False)
    plans = {
        task.name: TaskPlan(
            option.level,
            option.period_ms,
            bounds,
            option.deadline_ms,
            _highest(option.level, segments, tolerated_ms),
        )
        for task, option, bounds, segments, tolerated_ms in zip(
            tasks, allocation.options, bounds_ms, segments_ms, tolerated_segments_ms(allocation)
        )
    }
    return NetworkSchedule(
        tuple(plans), allocation, plans, speed_mps, bounds_ms, segments_ms, refusal
    )


def analysis_of(allocation: Allocation) -> Analysis:
    """Whether its jobs meet their deadlines, and where the least time is left."""
    options = allocation.options
    return analyse(
        whole_ns([option.execution_time_ms for option in options], 'execution time'),
        whole_ns([option.period_ms for option in options], 'period'),
        whole_ns([option.segment_ms for option in options], 'segment'),
        whole_ns([option.deadline_ms for option in options], 'deadline'),
    )


def tolerated_segments_ms(allocation: Allocation) -> list[float]:
    """How long a segment of each task may be with nobody late for it (Baruah 2005); 0 of a selection that is not
    schedulable."""
    options, analysis = allocation.options, analysis_of(allocation)
    if not analysis.schedulable:
        return [0.0] * len(options)
    tolerated_ms = [math.inf] * len(options)  # what is due first of all makes nobody late
    for condition in analysis.tightest:
        at = condition.blocker
        tolerated_ms[at] = options[at].segment_ms + ms_from_ns(condition.slack)
    return tolerated_ms


def _highest(level: int, segments_ms: Sequence[float], tolerated_ms: float) -> int:
    """The highest level to which jobs of a planned level may be raised."""
    return max(level, bisect.bisect_right(segments_ms, tolerated_ms) - 1)


def _ease(option: Option) -> tuple[float, float]:
    return option.period_ms, -option.execution_time_ms
