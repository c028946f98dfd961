"""Jobs of a schedule that have ended, with the times of a test."""

import math

from deadline_perception.runtime.job import Conditions, Job, Outcome, StampReading


def ended_job(
    outcome=Outcome.DETECTED,
    failure='',
    *,
    release_ms=0.0,
    period_ms=100.0,
    started_ms=0.0,
    ended_ms=5.0,
    bound_ms=20.0,
    level=0,
    planned_level=0,
    path='cheap',
):
    """The record of a job that was released, started and ended then."""
    job = Job(None, release_ms, StampReading(math.nan, ''))
    job.conditions, job.taken_ms = Conditions(period_ms, 1.0, ''), started_ms
    job.bound_ms, job.path = bound_ms, path
    job.level, job.planned_level = level, planned_level
    return job.record(outcome, ended_ms, failure)
