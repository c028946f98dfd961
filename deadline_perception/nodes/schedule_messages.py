"""What is published about a schedule and about the jobs that follow it."""
from __future__ import annotations

from collections.abc import Sequence

from builtin_interfaces.msg import Time
from std_msgs.msg import Header

from deadline_perception.latency.stopwatch import NS_PER_MS
from deadline_perception.msg import JobReport, Schedule, TaskSchedule
from deadline_perception.runtime.scheduled_job import JobOutcome, ScheduledJobRecord
from deadline_perception.runtime.nested_task import NestedTask
from deadline_perception.runtime.network_schedule import NetworkSchedule

_OUTCOMES = {JobOutcome.DONE: JobReport.DONE, JobOutcome.LATE: JobReport.LATE, JobOutcome.CUT: JobReport.CUT,
             JobOutcome.FAILED: JobReport.FAILED, JobOutcome.HUNG: JobReport.HUNG}


def schedule_message(schedule: NetworkSchedule, tasks: Sequence[NestedTask], device: str, stamp: Time) -> Schedule:
    """A schedule; the quality of each task is without its weight, the sum with it.

    Args:
        schedule: of some tasks.
        tasks: these, in its order.
        device: that they share, as the frame of the header.
        stamp: when it was made.
    """
    allocation = schedule.allocation
    message = Schedule(feasible=allocation.schedulable, utilisation=allocation.utilisation,
                       total_quality=allocation.quality, tasks=[
                           TaskSchedule(task=task.name, level=option.level, period_ms=option.period_ms,
                                        execution_time_ms=option.execution_time_ms,
                                        quality=option.quality / task.request.weight)
                           for task, option in zip(tasks, allocation.options)])
    message.header.frame_id, message.header.stamp = device, stamp
    return message


def job_report(record: ScheduledJobRecord, task: NestedTask, header: Header) -> JobReport:
    """What became of a job of a task.

    Args:
        record: of the job.
        task: that it is of.
        header: frame of its image, and when it ended by the node's clock.
    """
    release_ns, deadline_ns, started_ns, finished_ns = (round(time_ms * NS_PER_MS) for time_ms in (
        record.release_ms, record.deadline_ms, record.started_ms, record.finished_ms))
    return JobReport(
        header=header, task=record.task, path=str(task.paths[record.level]), outcome=_OUTCOMES[record.outcome],
        planned_level=record.planned_level, level=record.level, release_ns=release_ns, deadline_ns=deadline_ns,
        started_ns=started_ns, finished_ns=finished_ns, bound_ms=record.bound_ms, reason=record.failure)
