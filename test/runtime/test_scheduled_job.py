from __future__ import annotations

from deadline_perception.runtime.scheduled_job import JobOutcome, ScheduledJobRecord, TaskCount


def record(outcome=JobOutcome.DONE, level=0, finished_ms=5.0, failure=''):
    return ScheduledJobRecord('task', 0, level, 0.0, 10.0, 1.0, finished_ms, 6.0, outcome, failure)


def test_counts_state_their_limit():
    count = TaskCount()
    assert (count.miss_ratio, count.miss_ratio_upper_95) == (0.0, 1.0)
    for outcome in [JobOutcome.DONE] * 99 + [JobOutcome.LATE]:
        count.note(record(outcome))
    assert count.miss_ratio == 0.01 and 0.04 < count.miss_ratio_upper_95 < 0.05


def test_every_kind_of_trouble_is_counted():
    count = TaskCount()
    for job in (record(), record(level=2), record(JobOutcome.CUT, finished_ms=8.0),
                record(JobOutcome.FAILED, failure='why')):
        count.note(job)
    assert (count.jobs, count.misses, count.overruns, count.raised, count.last_failure) == (4, 2, 1, 1, 'why')
    assert record(finished_ms=8.0).overran and record(finished_ms=8.0).took_ms == 7.0 and not record().overran
