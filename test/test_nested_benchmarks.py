"""What the benchmarks of several networks compute, on a few made-up numbers."""
from __future__ import annotations

from types import SimpleNamespace

import pytest
from scheduled_jobs import ended_job

from deadline_perception.nested.quality import DetectedInTime
from deadline_perception.runtime.tracks import Outcome


def test_quality_is_measured_at_the_intervals_that_passed(load_benchmark):
    execution = load_benchmark('nested_execution')
    task = SimpleNamespace(name='front', quality=DetectedInTime((0.5,), execution.SPEED_MPS * 0.2, correlation=1e-7))
    records = [ended_job(outcome, release_ms=start, started_ms=start, ended_ms=start + 10.0)
               for start, outcome in ((0.0, Outcome.DETECTED), (100.0, Outcome.ABORTED), (200.0, Outcome.DETECTED),
                                      (300.0, Outcome.DETECTED))]
    found = execution.summarise(task, records)
    assert (found['jobs'], found['misses'], found['overruns']) == (4, 1, 0) and found['mean_period_ms'] == 100.0
    assert found['promised'] == pytest.approx(1 - 0.5 ** 2, abs=1e-6)  # two looks within the distance
    assert found['measured'] == pytest.approx((200.0 * 0.5 + 100.0 * 0.75) / 300.0, abs=1e-6)


def test_the_third_network_reads_what_the_first_has_found(load_benchmark):
    tasks = load_benchmark('nested_execution').default_tasks()
    assert [(task.name, task.crops_of) for task in tasks] == [('front', ''), ('rear', ''), ('signs', 'front')]
