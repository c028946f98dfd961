"""What is published about a schedule and about the jobs that follow it."""

from __future__ import annotations

from collections.abc import Sequence

from builtin_interfaces.msg import Time
from std_msgs.msg import Header

from deadline_perception.core.stopwatch import NS_PER_MS
from deadline_perception.extras.several_networks.nested_task import NestedTask
from deadline_perception.extras.several_networks.network_schedule import NetworkSchedule
from deadline_perception.msg import JobReport, Schedule, TaskSchedule
from deadline_perception.nodes.messages import bounded
from deadline_perception.runtime.job import JobRecord, Outcome

_OUTCOMES = {
    Outcome.DETECTED: JobReport.DONE,
    Outcome.LATE: JobReport.LATE,
    Outcome.ABORTED: JobReport.CUT,
    Outcome.FAILED: JobReport.FAILED,
    Outcome.HUNG: JobReport.HUNG,
}


def schedule_message(
    schedule: NetworkSchedule, tasks: Sequence[NestedTask], device: str, stamp: Time
) -> Schedule:
    """A schedule of some tasks; the quality of each is without its weight, the sum with it.

    Args:
        tasks: in the order of the schedule.
        device: that they share, as the frame of the header.
    """
    allocation = schedule.allocation
    message = Schedule(
        feasible=allocation.schedulable,
        utilisation=allocation.utilisation,
        total_quality=allocation.quality,
        tasks=[
            TaskSchedule(
                task=bounded(task.name),
                level=option.level,
                period_ms=option.period_ms,
                execution_time_ms=option.execution_time_ms,
                quality=option.quality / task.request.weight,
            )
            for task, option in zip(tasks, allocation.options)
        ],
    )
    message.header.frame_id, message.header.stamp = device, stamp
    return message


def job_report(record: JobRecord, task: NestedTask, header: Header) -> JobReport:
    """What became of a job; the header has the frame of its image, and when it ended by the node's clock."""
    release_ns, deadline_ns, started_ns, finished_ns = (
        round(time_ms * NS_PER_MS)
        for time_ms in (
            record.arrived_ms,
            record.arrived_ms + record.conditions.budget_ms,
            record.started_ms,
            record.answered_ms,
        )
    )
    return JobReport(
        header=header,
        task=bounded(task.name),
        path=bounded(record.path),
        outcome=_OUTCOMES[record.outcome],
        planned_level=record.planned_level,
        level=record.level,
        release_ns=release_ns,
        deadline_ns=deadline_ns,
        started_ns=started_ns,
        finished_ns=finished_ns,
        bound_ms=record.bound_ms,
        reason=bounded(record.failure),
    )
