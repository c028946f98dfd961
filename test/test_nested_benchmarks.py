"""What the benchmarks of several networks compute, on a few made-up numbers."""
from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

from deadline_perception.nested.allocation import Method, allocate
from deadline_perception.nested.quality import DetectedInTime
from deadline_perception.runtime.job_record import JobOutcome, JobRecord


@pytest.fixture(scope='module')
def load(repository):
    def load_one(name):
        spec = importlib.util.spec_from_file_location(name, repository / 'benchmarks' / f'{name}.py')
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    return load_one


def test_made_up_networks_gain_by_level_and_all_methods_are_compared(load, tmp_path):
    scheduling = load('nested_scheduling')
    rng = np.random.default_rng(0)
    tasks = scheduling.made_up_set(rng, (14.0, 110.0))
    assert len(tasks) == 10 and all(len(options) == 60 for options in tasks)
    times_ms = [option.execution_time_ms for option in tasks[0][::6]]
    assert times_ms == sorted(times_ms) and times_ms[0] > 0.1 * times_ms[-1]
    row = scheduling.compare(tasks, 0)
    assert row['worst'] < row['random'] < row['greedy'] <= row['greedy_next'] <= row['exact'] + 1e-9
    assert row['exact'] <= row['maximum'] + 1e-9
    assert row['exact'] == pytest.approx(allocate(tasks, Method.EXACT).quality)
    found = scheduling.summarise([row, {**row, 'greedy': 0.5 * row['exact']}])
    assert found['exact']['mean'] == 1.0 and found['greedy']['least'] == pytest.approx(0.5)
    scheduling.draw({'one': [row], 'two': [row]}, tmp_path / 'drawn.png')
    assert cv2.imread(str(tmp_path / 'drawn.png')).std() > 10


def test_quality_is_measured_at_the_intervals_that_passed(load):
    execution = load('nested_execution')
    task = SimpleNamespace(name='front', quality=DetectedInTime((0.5,), distance_m=execution.SPEED_MPS * 0.2))
    records = [JobRecord('front', 0, 0, start, start + 100.0, start, start + 10.0, 20.0, outcome)
               for start, outcome in ((0.0, JobOutcome.DONE), (100.0, JobOutcome.CUT), (200.0, JobOutcome.DONE),
                                      (300.0, JobOutcome.DONE))]
    found = execution.summarise(task, records)
    assert (found['jobs'], found['misses'], found['overruns']) == (4, 1, 0) and found['mean_period_ms'] == 100.0
    assert found['promised'] == pytest.approx(1 - 0.5 ** 2)  # two looks within the distance
    assert found['measured'] == pytest.approx((200.0 * 0.5 + 100.0 * 0.75) / 300.0)


def test_the_third_network_reads_what_the_first_has_found(load):
    tasks = load('nested_execution').default_tasks()
    assert [(task.name, task.crops_of) for task in tasks] == [('front', ''), ('rear', ''), ('signs', 'front')]
