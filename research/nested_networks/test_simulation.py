"""The simulator against hand-computed schedules."""

import numpy as np
import pytest
from simulation import simulate


def test_the_earliest_deadline_goes_first_and_nothing_is_interrupted():
    jobs = simulate([np.array([0]), np.array([1, 11]), np.array([2])], [5, 2, 3], [40, 10, 6])
    assert jobs.task.tolist() == [0, 2, 1, 1]
    assert jobs.start.tolist() == [0, 5, 8, 11] and jobs.finish.tolist() == [5, 8, 10, 13]
    assert jobs.deadline.tolist() == [40, 8, 11, 21] and not jobs.missed.any()


def test_equal_deadlines_go_by_index_and_late_jobs_are_missed():
    jobs = simulate([np.array([0]), np.array([0])], [3, 3], [5, 5])
    assert jobs.task.tolist() == [0, 1] and jobs.missed.tolist() == [False, True]


def test_jobs_of_one_task_may_differ_in_time():
    jobs = simulate([np.arange(0, 30, 10)], [np.array([2, 12, 3])], [10])
    assert jobs.start.tolist() == [0, 10, 22] and jobs.missed.tolist() == [False, True, False]


def test_refuses_what_cannot_run():
    with pytest.raises(ValueError, match='releases that descend'):
        simulate([np.array([3, 1])], [1], [5])
    with pytest.raises(ValueError, match='execution times below 1'):
        simulate([np.array([1])], [0], [5])
    with pytest.raises(ValueError, match='2 times'):
        simulate([np.array([1])], [1, 1], [5])
