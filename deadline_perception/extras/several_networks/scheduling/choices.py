"""The options of which each task gets one, as records and as arrays that selections are judged with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.stopwatch import NS_PER_MS
from deadline_perception.extras.several_networks.scheduling.demand_table import (
    DemandTable,
    fits_processor,
)
from deadline_perception.extras.several_networks.scheduling.feasibility import (
    overloaded_length,
    whole_ns,
)


class Infeasible(DeadlinePerceptionError):
    """No selection of options meets all deadlines; the message says which conditions fail, and what would fit."""


@dataclass(frozen=True)
class Option:
    """One way to run a task.

    Attributes:
        level: 0 is the cheapest.
        period_ms: time between two jobs, > 0.
        execution_time_ms: bound of one job, > 0.
        quality: any finite number; in [0, 1] times the weight of the task.
        segment_ms: bound of the longest part of a job that nobody preempts, > 0; a job runs whole where it is longer.
        deadline_ms: from the release of a job to its deadline, > 0; the period where it is longer.

    Raises:
        ValueError: a value lies outside its range.
    """

    level: int
    period_ms: float
    execution_time_ms: float
    quality: float
    segment_ms: float = math.inf
    deadline_ms: float = math.inf

    def __post_init__(self) -> None:
        if self.level < 0:
            raise ValueError(f'level is {self.level}, expected at least 0')
        whole_ns((self.period_ms,), 'period')
        whole_ns((self.execution_time_ms,), 'execution time')
        object.__setattr__(self, 'segment_ms', min(self.segment_ms, self.execution_time_ms))
        object.__setattr__(self, 'deadline_ms', min(self.deadline_ms, self.period_ms))
        whole_ns((self.segment_ms,), 'segment')
        whole_ns((self.deadline_ms,), 'deadline')
        if not math.isfinite(self.quality):
            raise ValueError(f'quality is {self.quality}, expected a finite number')

    @property
    def utilisation(self) -> float:
        """Share of the processor."""
        return self.execution_time_ms / self.period_ms


class Choices:
    """The options of all tasks as numbers, without those that are longer than their deadline.

    Args:
        tasks: the options of each task.
        names: of the tasks.

    Attributes:
        options: of all tasks, one after the other.
        begins: int64 `[n + 1]`, where each task's options begin among them.
        task: int64 `[N]`, index of the task of each option.
        times, periods, segments, deadlines: int64 `[N]`, ns.
        places: int64 `[N]`, of periods and deadlines in the table.
        utilisations, qualities: float64 `[N]`.
        are_due_early: a deadline lies before the end of its period.
        table: demand of all periods and deadlines.

    Raises:
        ValueError: there is no task, or one has no option.
        Infeasible: every option of a task is longer than its deadline.
    """

    def __init__(self, tasks: Sequence[Sequence[Option]], names: Sequence[str]) -> None:
        if not len(tasks):
            raise ValueError('set of tasks is empty, expected at least one task')
        sizes = [len(options) for options in tasks]
        if 0 in sizes:
            raise ValueError(f'task {names[sizes.index(0)]} has no option, expected at least one')
        options = [option for found in tasks for option in found]
        values = np.array(
            [
                (
                    option.execution_time_ms,
                    option.period_ms,
                    option.segment_ms,
                    option.deadline_ms,
                    option.quality,
                )
                for option in options
            ]
        )
        task = np.repeat(np.arange(len(tasks)), sizes)
        kept = values[:, 0] <= values[:, 3]
        if not kept.all():
            options = [option for option, stays in zip(options, kept.tolist()) if stays]
            left = np.bincount(task[kept], minlength=len(tasks))
            if not left.all():
                at = int(np.argmin(left))
                raise Infeasible(
                    f'no option of task {names[at]} fits its own deadline: its jobs take '
                    f'{values[task == at, 0].min():.2f} ms at least and its longest deadline is '
                    f'{values[task == at, 3].max():.2f} ms; a longer one or a cheaper level would fit'
                )
            values, task = values[kept], task[kept]
        self.options, self.task = options, task
        self.begins = np.searchsorted(task, np.arange(len(tasks) + 1))
        self.times, self.periods, self.segments, self.deadlines = np.rint(
            values[:, :4].T * NS_PER_MS
        ).astype(np.int64)
        self.utilisations, self.qualities = self.times / self.periods, values[:, 4]
        self.are_due_early = bool((self.deadlines < self.periods).any())
        self.table = DemandTable(self.periods, self.deadlines)
        self.places = self.table.places

    def __len__(self) -> int:
        return len(self.begins) - 1

    def fits(self, selection: np.ndarray) -> bool:
        """Whether a selection, int64 `[n]`, the place of an option for each task, is schedulable."""
        times, periods, segments, places = (
            self.times[selection],
            self.periods[selection],
            self.segments[selection],
            self.places[selection],
        )
        if not fits_processor(times, periods, float(self.utilisations[selection].sum())):
            return False
        demand = self.table.demand(times, places)
        if not self.table.holds(segments[None], places[None], demand[None])[0]:
            return False
        try:
            return self.overloaded_length(selection) is None
        except ValueError:  # too near to a utilisation of 1 to be known
            return False

    def overloaded_length(self, selection: np.ndarray) -> int | None:
        """See `feasibility.overloaded_length`, of a selection."""
        if not self.are_due_early:
            return None
        return overloaded_length(
            self.times[selection].tolist(),
            self.periods[selection].tolist(),
            self.deadlines[selection].tolist(),
        )

    def quality(self, selection: np.ndarray) -> float:
        """Sum over the tasks."""
        return math.fsum(self.qualities[selection].tolist())
