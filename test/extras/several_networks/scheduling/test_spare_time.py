"""What a job may take of the time that others left: nobody is late when it is taken."""

import math

import numpy as np
import pytest

from deadline_perception.extras.several_networks.scheduling.feasibility import analyse
from deadline_perception.extras.several_networks.scheduling.spare_time import (
    Coming,
    Waiting,
    latest_finish_ms,
)

FAR = Coming(50.0, 50.0, 50.0, 5.0)


@pytest.mark.parametrize(
    'waiting, coming, latest_ms',
    [
        ([], FAR, 20.0),  # alone until its deadline
        ([Waiting(10.0, 3.0)], FAR, 17.0),  # beside a job of 3 due before it
        ([Waiting(22.0, 3.0)], FAR, 19.0),  # or after it
        ([Waiting(22.0, 3.0)], Coming(6.0, 10.0, 10.0, 4.0), 15.0),  # one of 4 released at 6
        ([], Coming(6.0, 20.0, 15.0, 4.0), 17.0),
    ],
)
def test_hand_computed(waiting, coming, latest_ms):
    assert latest_finish_ms(20.0, waiting, [coming]) == latest_ms


def test_a_processor_used_to_the_last_share_has_no_known_end():
    half, more = Coming(0.0, 10.0, 10.0, 5.0), Coming(0.0, 10.0, 10.0, 6.0)
    assert latest_finish_ms(1e6, [], [half, half]) in (0.0, -math.inf)
    assert latest_finish_ms(1e6, [], [more, more]) == -math.inf


class Job:
    """A job of the simulation: what it claims of the processor, and what it has had."""

    def __init__(self, task, release, due, time):
        self.task, self.deadline, self.given = task, release + due, time
        self.claim, self.used, self.total = time, 0, 0


def released(last, pending, periods, now, rng, chance):
    """Releases as early as they may be, mostly."""
    for task, period in enumerate(periods):
        if pending[task] is None and now >= last[task] + period and rng.random() < chance:
            pending[task] = now


@pytest.mark.parametrize('seed', range(2))
def test_jobs_that_take_all_that_is_left_and_are_preempted_between_segments_never_miss(seed):
    """EDF of jobs that mostly end early, each of which may take what it is told at every turn; in whole numbers."""
    rng = np.random.default_rng(seed)
    checked = longer = preempted = 0
    while checked < 1000:
        count = int(rng.integers(2, 5))
        periods = rng.integers(6, 50, count).tolist()
        times = [max(1, int(period * rng.uniform(0.1, 1.4 / count))) for period in periods]
        segments = [int(rng.integers(1, time + 1)) for time in times]
        dues = [
            int(rng.integers(max(time, period // 2), period + 1))
            for time, period in zip(times, periods)
        ]
        if not analyse(times, periods, segments, dues).schedulable:
            continue
        last, pending, stack, now = [-math.inf] * count, [None] * count, [], 0
        for _ in range(300):
            released(last, pending, periods, now, rng, 0.9)
            jobs = stack + [
                Job(task, at, dues[task], times[task])
                for task, at in enumerate(pending)
                if at is not None and all(job.task != task for job in stack)
            ]
            if not jobs:
                now += 1
                continue
            job = min(jobs, key=lambda job: job.deadline)
            if job in stack:
                stack.remove(job)
                preempted += 1
            else:
                last[job.task], pending[job.task] = pending[job.task], None
            waiting = [Waiting(other.deadline, max(0, other.claim - other.used)) for other in stack]
            coming = []
            for task in range(count):
                if pending[task] is not None:
                    waiting.append(Waiting(pending[task] + dues[task], times[task]))
                before = last[task] if pending[task] is None else pending[task]
                first = max(now, before + periods[task])
                coming.append(Coming(first, periods[task], dues[task], times[task]))
            latest = latest_finish_ms(job.deadline, waiting, coming)
            allowed = max(
                job.given - job.used, math.floor(latest - now) if latest > -math.inf else 0
            )
            if allowed <= 0:  # it took what nobody else had claimed, and is aborted
                continue
            if not job.total or rng.random() < 0.3:
                takes_all = rng.random() < 0.5
                job.total = job.used + (allowed if takes_all else int(rng.integers(1, allowed + 1)))
                job.claim = max(job.total, job.given) if takes_all else job.claim
            job.total = min(job.total, job.used + allowed)  # aborted there
            longer += job.total > job.given
            while job.used < job.total:
                length = min(int(rng.integers(1, segments[job.task] + 1)), job.total - job.used)
                for now in range(now + 1, now + length + 1):
                    released(last, pending, periods, now, rng, 0.9)
                job.used += length
                assert now <= job.deadline, (times, periods, segments, dues)
                if job.used < job.total and any(
                    at is not None
                    and task != job.task
                    and at + dues[task] < job.deadline
                    and all(other.task != task for other in stack)
                    for task, at in enumerate(pending)
                ):
                    stack.append(job)
                    break
            checked += 1
    assert longer > 100 and preempted > 100
