"""The executor with real, tiny networks: order, levels, cuts, failures and hangs; times are only ever compared
loosely."""
from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from invented_networks import make_classifier, make_magnifier

from deadline_perception.runtime.scheduled_job import JobOutcome
from deadline_perception.runtime.network_executor import Jobber, NetworkExecutor, TaskPlan

WAIT_S = 20.0
IMAGE = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)


def wait(condition, what):
    until = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < until, f'waited {WAIT_S:.0f} s for {what}'
        time.sleep(0.005)


class Bench:
    """An executor, what its tasks gave, and what became of the jobs."""

    def __init__(self, starts, **options):
        self.results, self.records, self.errors = {name: [] for name in starts}, [], []
        self.running, self.most_running = 0, 0
        jobbers = {name: Jobber(begin, lambda image, result, name=name: self.results[name].append(result),
                                self.records.append) for name, begin in starts.items()}
        self.executor = NetworkExecutor(jobbers, failed=self.errors.append, **options)

    def outcomes(self, name):
        return [record.outcome for record in self.records if record.task == name]


@pytest.fixture
def bench():
    made = []

    def make(starts, **options):
        made.append(Bench(starts, **options))
        return made[-1]

    yield make
    for one in made:
        one.executor.stop()


class Steps:
    """A run of a few steps, each a call that may wait or fail."""

    def __init__(self, *steps):
        self.steps, self.done = list(steps), 0

    @property
    def finished(self):
        return self.done == len(self.steps)

    def run_segment(self):
        self.steps[self.done]()
        self.done += 1

    def result(self):
        return self.done


def nothing():
    pass


def test_the_earliest_deadline_goes_first_and_one_network_at_a_time(bench):
    gate, order, busy = threading.Event(), [], []

    def begin(name):
        def start(image, level):
            order.append(name)

            def step():
                busy.append(1)
                assert len(busy) == 1, 'two networks at once'
                if name == 'first':
                    assert gate.wait(WAIT_S)
                busy.pop()
            return Steps(step)
        return start

    found = bench({name: begin(name) for name in ('first', 'slow', 'quick')})
    found.executor.follow({'first': TaskPlan(0, 60_000.0, (1000.0,)), 'slow': TaskPlan(0, 60_000.0, (10.0,)),
                           'quick': TaskPlan(0, 30_000.0, (10.0,))})
    found.executor.submit('first', IMAGE)
    wait(lambda: order == ['first'], 'the first job')
    found.executor.submit('slow', IMAGE)
    found.executor.submit('quick', IMAGE)
    gate.set()
    wait(lambda: len(found.records) == 3, 'three jobs')
    assert order == ['first', 'quick', 'slow'] and not found.errors
    assert {record.outcome for record in found.records} == {JobOutcome.DONE}


def test_releases_are_a_period_apart_and_the_newest_image_is_used(bench):
    images = []
    found = bench({'task': lambda image, level: images.append(image) or Steps(nothing)})
    found.executor.follow({'task': TaskPlan(0, 200.0, (5.0,))})
    for number in range(4):
        found.executor.submit('task', number)
        if number == 0:
            wait(lambda: len(found.records) == 1, 'the first job')
    wait(lambda: len(found.records) == 2, 'the second job')
    assert images == [0, 3] and found.executor.counts['task'].replaced == 2
    first, second = found.records
    assert second.release_ms == pytest.approx(first.release_ms + 200.0)
    assert second.started_ms >= second.release_ms and second.deadline_ms == pytest.approx(second.release_ms + 200.0)


def test_unused_time_raises_levels_only_where_nobody_is_made_late(bench):
    levels = []
    found = bench({name: lambda image, level: levels.append(level) or Steps(nothing) for name in ('alone', 'other')})
    found.executor.follow({'alone': TaskPlan(0, 1000.0, (10.0, 300.0, 700.0, 1100.0))})
    found.executor.submit('alone', IMAGE)
    wait(lambda: len(found.records) == 1, 'a job')
    assert levels == [2]  # the last one would take longer than the period
    # Now another task may be released at any moment, due 800 ms later with 300 ms of work.
    found.executor.follow({'alone': TaskPlan(0, 1000.0, (10.0, 300.0, 700.0, 1100.0)),
                           'other': TaskPlan(0, 800.0, (300.0,))})
    found.executor.submit('alone', IMAGE)
    wait(lambda: len(found.records) == 2, 'the next job')
    assert levels == [2, 1] and found.executor.counts['alone'].raised == 2


def test_levels_are_not_raised_where_that_is_not_wanted(bench):
    levels = []
    found = bench({'task': lambda image, level: levels.append(level) or Steps(nothing)}, raises_levels=False)
    found.executor.follow({'task': TaskPlan(1, 5000.0, (10.0, 20.0, 30.0))})
    found.executor.submit('task', IMAGE)
    wait(lambda: found.records, 'a job')
    assert levels == [1]


def test_a_job_that_overruns_is_cut_at_its_next_segment_and_counted(bench):
    done = []
    found = bench({'long': lambda image, level: Steps(lambda: time.sleep(0.12), lambda: done.append('second segment')),
                   'short': lambda image, level: Steps(nothing)})
    found.executor.follow({'long': TaskPlan(0, 100.0, (10.0,)), 'short': TaskPlan(0, 10_000.0, (1.0,))})
    found.executor.submit('long', IMAGE)
    found.executor.submit('short', IMAGE)
    wait(lambda: len(found.records) == 2, 'both jobs')
    assert (found.outcomes('long'), found.outcomes('short')) == ([JobOutcome.CUT], [JobOutcome.DONE])
    assert not done and not found.results['long']
    count = found.executor.counts['long']
    assert (count.jobs, count.misses, count.overruns, count.miss_ratio) == (1, 1, 1, 1.0)


def test_a_task_that_dies_does_not_take_the_others_down(bench):
    def die(image, level):
        raise RuntimeError('no memory')

    found = bench({'dying': die, 'well': lambda image, level: Steps(nothing)})
    found.executor.follow({'dying': TaskPlan(0, 100.0, (1.0,)), 'well': TaskPlan(0, 10_000.0, (1.0,))})
    for number in range(3):
        found.executor.submit('dying', IMAGE)
        wait(lambda: len(found.outcomes('dying')) > number, 'a job')
    found.executor.submit('well', IMAGE)
    wait(lambda: found.results['well'], 'the other task')
    assert found.outcomes('dying') == [JobOutcome.FAILED] * 3 and len(found.errors) == 3
    assert found.executor.counts['dying'].last_failure == 'RuntimeError: no memory'


def test_a_task_that_hangs_is_left_to_its_thread_and_comes_back_when_it_does(bench):
    gate = threading.Event()
    found = bench({'hanging': lambda image, level: Steps(lambda: gate.wait(WAIT_S), nothing),
                   'well': lambda image, level: Steps(nothing)}, hanging_ms=50.0)
    found.executor.follow({'hanging': TaskPlan(0, 60.0, (5.0,)), 'well': TaskPlan(0, 200.0, (1.0,))})
    found.executor.submit('hanging', IMAGE)
    wait(lambda: found.executor.hanging == ('hanging',), 'the hang to be seen')
    for number in range(3):
        found.executor.submit('well', IMAGE)
        wait(lambda: len(found.results['well']) > number, 'the other task')
    found.executor.submit('hanging', IMAGE)  # waits
    assert found.outcomes('hanging') == [JobOutcome.HUNG]
    gate.set()
    wait(lambda: not found.executor.hanging, 'the network to come back')
    wait(lambda: found.results['hanging'], 'a job of it')
    assert found.outcomes('hanging')[0] is JobOutcome.HUNG


def test_plans_change_without_disturbing_the_job_at_work(bench):
    gate, levels = threading.Event(), []
    found = bench({'task': lambda image, level: levels.append(level) or Steps(lambda: gate.wait(WAIT_S), nothing)},
                  raises_levels=False)
    found.executor.follow({'task': TaskPlan(0, 30_000.0, (9.0, 10.0))})
    found.executor.submit('task', IMAGE)
    wait(lambda: levels == [0], 'the job')
    found.executor.follow({'task': TaskPlan(1, 1000.0, (9.0, 10.0))})
    gate.set()
    wait(lambda: found.records, 'its end')
    assert found.records[0].outcome is JobOutcome.DONE and found.records[0].planned_level == 0
    found.executor.submit('task', IMAGE)
    wait(lambda: len(levels) == 2, 'the next job')
    assert levels == [0, 1]
    found.executor.follow({})
    found.executor.submit('task', IMAGE)
    time.sleep(0.05)
    assert len(levels) == 2, 'a task without a plan rests'


@pytest.mark.parametrize('make', [make_classifier, make_magnifier])
def test_a_network_whose_level_changes_gives_the_outputs_of_a_fixed_one(bench, make):
    network = make()
    paths, seen = list(network.path_space), []

    def begin(image, level):
        run = network.start(image, paths[level])
        seen.append((level, run))
        return run

    found = bench({'task': begin}, raises_levels=False)
    for number, level in enumerate((0, 3, 1, 3, 0)):
        found.executor.follow({'task': TaskPlan(level, 1000.0, (1.0,) * len(paths))})
        found.executor.submit('task', IMAGE)
        wait(lambda: len(found.records) > number, 'a job')
    assert [level for level, _ in seen] == [0, 3, 1, 3, 0]
    for (level, run), result in zip(seen, found.results['task']):
        fixed = network.start(IMAGE, paths[level])
        while not fixed.finished:
            fixed.run_segment()
        assert run.keys == fixed.keys
        for name, value in vars(fixed.result()).items():
            assert np.array_equal(value, getattr(result, name))


def test_stopping_cuts_the_job_at_work(bench):
    begun = threading.Event()
    found = bench({'task': lambda image, level: Steps(begun.set, *[lambda: time.sleep(0.01)] * 10_000)})
    found.executor.follow({'task': TaskPlan(0, 60_000.0, (50_000.0,))})
    found.executor.submit('task', IMAGE)
    assert begun.wait(WAIT_S)
    assert found.executor.stop()


def test_rejected_images_are_no_jobs(bench):
    found = bench({'task': lambda image, level: None if isinstance(image, str) else Steps(nothing)})
    found.executor.follow({'task': TaskPlan(0, 500.0, (1.0,))})
    found.executor.submit('task', 'broken')
    time.sleep(0.05)
    found.executor.submit('task', IMAGE)
    wait(lambda: found.results['task'], 'the good image')
    assert found.executor.counts['task'].jobs == 1


@pytest.mark.parametrize('values', [(1, 10.0, (1.0,)), (0, 0.0, (1.0,)), (0, 10.0, (0.0,)), (0, 10.0, ())])
def test_refuses_plans_that_are_none(values):
    with pytest.raises(ValueError, match='expected'):
        TaskPlan(*values)


def test_refuses_plans_of_other_tasks(bench):
    found = bench({'task': lambda image, level: Steps(nothing)})
    with pytest.raises(ValueError, match='plan is of other, expected tasks among task'):
        found.executor.follow({'other': TaskPlan(0, 1.0, (1.0,))})
