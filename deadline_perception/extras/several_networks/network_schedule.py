"""The schedule of the tasks of one device: level and period of each under the present conditions. Free of ROS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deadline_perception.extras.several_networks.nested_task import NestedTask
from deadline_perception.extras.several_networks.network_scheduler import TaskPlan
from deadline_perception.extras.several_networks.scheduling.allocation import (
    Allocation,
    Method,
    allocate,
)
from deadline_perception.extras.several_networks.scheduling.choices import Infeasible, Option

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
        refusal: why no selection is schedulable, and the lowest options are in force all the same; empty otherwise.
    """

    names: tuple[str, ...]
    allocation: Allocation
    plans: Mapping[str, TaskPlan]
    speed_mps: float
    bounds_ms: tuple[tuple[float, ...], ...]
    refusal: str = ''

    def holds(self, tasks: Sequence[NestedTask], speed_mps: float) -> bool:
        """Whether tasks and conditions are still nearly those that it was made for."""
        if tuple(task.name for task in tasks) != self.names:
            return False
        if abs(speed_mps - self.speed_mps) > max(SPEED_STEP_MPS, SPEED_SHARE * self.speed_mps):
            return False
        return all(
            SHRUNK <= now_ms / then_ms <= GROWN
            for task, bounds_ms in zip(tasks, self.bounds_ms)
            for now_ms, then_ms in zip(task.bounds_ms(), bounds_ms)
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
    options = [task.options(speed_mps, bounds) for task, bounds in zip(tasks, bounds_ms)]
    refusal = ''
    try:
        allocation = allocate(options, Method.GREEDY_NEXT, names=[task.name for task in tasks])
    except Infeasible as error:
        refusal = str(error)
        allocation = Allocation(tuple(max(row, key=_ease) for row in options), False)
    plans = {
        task.name: TaskPlan(option.level, option.period_ms, bounds)
        for task, option, bounds in zip(tasks, allocation.options, bounds_ms)
    }
    return NetworkSchedule(tuple(plans), allocation, plans, speed_mps, bounds_ms, refusal)


def _ease(option: Option) -> tuple[float, float]:
    return option.period_ms, -option.execution_time_ms
