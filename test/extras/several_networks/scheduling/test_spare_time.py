"""What a job may take of the time that others left: nobody is late when it is taken."""

from __future__ import annotations

import math

import numpy as np
import pytest

from deadline_perception.extras.several_networks.scheduling.feasibility import analyse
from deadline_perception.extras.several_networks.scheduling.spare_time import (
    Coming,
    Waiting,
    latest_finish_ms,
)


def test_hand_computed():
    # Alone until its deadline; before that, a job of 3 due at 10; and one of 4 released at 6, due at 16.
    assert latest_finish_ms(20.0, [], [Coming(50.0, 50.0, 5.0)]) == 20.0
    assert latest_finish_ms(20.0, [Waiting(10.0, 3.0)], [Coming(50.0, 50.0, 5.0)]) == 7.0
    assert latest_finish_ms(20.0, [Waiting(10.0, 3.0)], [Coming(6.0, 10.0, 4.0)]) == 7.0
    assert latest_finish_ms(20.0, [], [Coming(6.0, 10.0, 7.0)]) == 9.0


def test_a_processor_used_to_the_last_share_has_no_known_end():
    assert latest_finish_ms(1e9, [], [Coming(0.0, 10.0, 5.0), Coming(0.0, 10.0, 5.0)]) in (
        0.0,
        -math.inf,
    )
    assert latest_finish_ms(1e9, [], [Coming(0.0, 10.0, 6.0), Coming(0.0, 10.0, 6.0)]) == -math.inf


@pytest.mark.parametrize('seed', range(4))
def test_schedule_of_jobs_that_take_all_that_is_left_never_misses(seed):
    """EDF of jobs that mostly end early, each of which may take what it is told; in whole numbers."""
    rng = np.random.default_rng(seed)
    checked = longer = 0
    while checked < 3000:
        count = int(rng.integers(2, 5))
        periods = rng.integers(6, 50, count).tolist()
        times = [max(1, int(period * rng.uniform(0.1, 1.4 / count))) for period in periods]
        if not analyse(times, periods).schedulable:
            continue
        last, pending, now = [-math.inf] * count, [None] * count, 0
        for _ in range(300):
            for task in range(count):  # sporadic: mostly at once when the period has passed
                if (
                    pending[task] is None
                    and now >= last[task] + periods[task]
                    and rng.random() < 0.9
                ):
                    pending[task] = now
            ready = [
                (pending[task] + periods[task], task)
                for task in range(count)
                if pending[task] is not None
            ]
            if not ready:
                now += 1
                continue
            deadline, task = min(ready)
            last[task], pending[task] = pending[task], None
            waiting = [
                Waiting(pending[other] + periods[other], times[other])
                for other in range(count)
                if pending[other] is not None
            ]
            coming = [
                Coming(
                    max(
                        now,
                        (pending[other] if pending[other] is not None else last[other])
                        + periods[other],
                    ),
                    periods[other],
                    times[other],
                )
                for other in range(count)
            ]
            latest = latest_finish_ms(deadline, waiting, coming)
            allowed = max(times[task], math.floor(latest - now) if latest > -math.inf else 0)
            assert now + times[task] <= deadline, 'a schedulable set'
            took = allowed if rng.random() < 0.5 else int(rng.integers(1, times[task] + 1))
            longer += took > times[task]
            # Releases while it runs are as early as they may be.
            begin, now = now, now + took
            for other in range(count):
                earliest = (
                    max(begin + 1, last[other] + periods[other])
                    if last[other] > -math.inf
                    else begin + 1
                )
                if pending[other] is None and earliest <= now:
                    pending[other] = earliest
            assert now <= deadline, (times, periods)
            checked += 1
    assert longer > 300
