"""The scheduler with real, tiny networks: order, levels, aborts, failures and hangs; times are only ever compared
loosely."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from invented_networks import make_classifier, make_magnifier
from plain_images import noise
from scheduled_jobs import ended_job
from waiting import WAIT_S, wait

from deadline_perception.extras.several_networks.network_scheduler import (
    NetworkScheduler,
    TaskCount,
    TaskPlan,
)
from deadline_perception.runtime.executor import Executor
from deadline_perception.runtime.job import Outcome
from deadline_perception.runtime.pipeline import FrameClient
from deadline_perception.system.priority import ThreadPriority

IMAGE = noise(48, 64)


class Bench:
    """A scheduler, what its tasks gave, and what became of the jobs; a task is given by what starts its network."""

    def __init__(self, starts, **options):
        self.records, self.errors = [], []
        self.clients = {name: Client(self) for name in starts}
        executor = Executor()
        executor.start(ThreadPriority('off'), self.errors.append)
        tasks = {
            name: SimpleNamespace(network=SimpleNamespace(start=start), paths=range(9))
            for name, start in starts.items()
        }
        pairs = {name: (task, self.clients[name]) for name, task in tasks.items()}
        self.scheduler = NetworkScheduler(executor, pairs, **options)
        self.counts = self.scheduler.counts

    def follow(self, **plans):
        """Each plan by level, period in ms, times in ms and what further there is of it."""
        self.scheduler.follow({name: TaskPlan(*plan) for name, plan in plans.items()})

    def submit(self, *names, image=IMAGE):
        for name in names:
            self.scheduler.submit(name, image)

    def wait_for(self, count):
        wait(lambda: len(self.records) == count, f'job {count}')

    def results(self, name):
        return self.clients[name].results

    def outcomes(self, name):
        return [record.outcome for record in self.clients[name].records]


class Client(FrameClient):
    def __init__(self, bench):
        self.results, self.records, self.bench = [], [], bench

    def convert(self, job):
        return None if isinstance(job.message, str) else job.message

    def publish(self, job, result):
        self.results.append(result)

    def on_record(self, record):
        self.records.append(record)
        self.bench.records.append(record)

    def on_failure(self, error):
        self.bench.errors.append(error)


@pytest.fixture
def bench():
    made = []

    def make(starts, **options):
        made.append(Bench(starts, **options))
        return made[-1]

    yield make
    for one in made:
        one.scheduler.stop()


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
        return 0.0

    def result(self):
        return self.done


def nothing():
    pass


def starts(*steps, note=lambda image, level: None):
    """What starts a run of these steps, of one without work if there are none, and notes image and level."""

    def start(image, level):
        note(image, level)
        return Steps(*steps or [nothing])

    return start


QUICK = starts()


def test_releases_are_a_period_apart_and_the_newest_image_is_used(bench):
    images = []
    found = bench({'task': starts(note=lambda image, level: images.append(image))})
    found.follow(task=(0, 1000.0, (5.0,)))
    found.submit('task', image=0)
    found.wait_for(1)
    for number in (1, 2, 3):
        found.submit('task', image=number)
    found.wait_for(2)
    assert images == [0, 3] and found.counts['task'].replaced == 2
    first, second = found.records
    assert second.arrived_ms == pytest.approx(first.arrived_ms + 1000.0)
    assert second.started_ms >= second.arrived_ms and second.conditions.budget_ms == 1000.0


@pytest.mark.parametrize('others, level', [({}, 2), ({'other': (0, 80_000.0, (30_000.0,))}, 1)])
def test_unused_time_raises_levels_only_where_nobody_is_made_late(bench, others, level):
    """The last level takes longer than the period; of the others, one that another task leaves room for, which may be
    released at any moment with 30 s of work that is due 80 s later."""
    levels = []
    start = starts(note=lambda image, level: levels.append(level))
    found = bench({'alone': start, 'other': start})
    found.follow(alone=(0, 100_000.0, (1000.0, 30_000.0, 70_000.0, 110_000.0)), **others)
    found.submit('alone')
    found.wait_for(1)
    assert levels == [level] and found.counts['alone'].raised == 1


def test_a_job_that_overruns_is_aborted_at_its_next_segment_and_counted(bench):
    done = []
    long = starts(lambda: time.sleep(0.5), lambda: done.append('second segment'))
    found = bench({'long': long, 'short': QUICK})
    found.follow(long=(0, 400.0, (10.0,)), short=(0, 10_000.0, (1.0,)))
    found.submit('long', 'short')
    found.wait_for(2)
    expected = ([Outcome.ABORTED], [Outcome.DETECTED])
    assert (found.outcomes('long'), found.outcomes('short')) == expected
    assert not done and not found.results('long')
    count = found.counts['long']
    assert (count.jobs, count.misses) == (1, 1) and found.records[0].overran


def test_a_task_that_dies_does_not_take_the_others_down(bench):
    def die(image, level):
        raise RuntimeError('no memory')

    found = bench({'dying': die, 'well': QUICK})
    found.follow(dying=(0, 100.0, (1.0,)), well=(0, 10_000.0, (1.0,)))
    for number in range(3):
        found.submit('dying')
        wait(lambda: len(found.outcomes('dying')) > number, 'a job')
    found.submit('well')
    wait(lambda: found.results('well'), 'the other task')
    assert found.outcomes('dying') == [Outcome.FAILED] * 3 and len(found.errors) == 3
    assert found.counts['dying'].last_failure == 'RuntimeError: no memory'


def test_an_image_that_waited_behind_a_job_that_hangs_makes_no_other_thread_hang(bench):
    gate, begun = threading.Event(), []
    hang = starts(lambda: gate.wait(WAIT_S), nothing, note=lambda image, _: begun.append(image))
    found = bench({'hanging': hang, 'well': QUICK}, hanging_ms=50.0)
    found.follow(hanging=(0, 60.0, (5.0,)), well=(0, 200.0, (1.0,)))
    found.submit('hanging')
    wait(lambda: begun, 'the job that will hang')
    found.submit('hanging')
    wait(lambda: found.scheduler.hanging == ('hanging',), 'the hang to be seen')
    for number in range(3):
        found.submit('well')
        wait(lambda: len(found.results('well')) > number, 'the other task')
    assert len(begun) == 1 and found.outcomes('hanging') == [Outcome.HUNG]
    found.submit('hanging')  # in the place of the one that waits
    gate.set()
    wait(lambda: len(begun) == 2, 'the image that waited')
    wait(lambda: not found.scheduler.hanging, 'the network to come back')
    wait(lambda: len(found.outcomes('hanging')) == 2, 'its end')


def test_plans_change_without_disturbing_the_job_at_work(bench):
    gate, levels = threading.Event(), []
    start = starts(lambda: gate.wait(WAIT_S), nothing, note=lambda _, level: levels.append(level))
    found = bench({'task': start}, raises_levels=False)
    found.follow(task=(0, 30_000.0, (9.0, 10.0)))
    found.submit('task')
    wait(lambda: levels == [0], 'the job')  # not raised
    found.follow(task=(1, 1000.0, (9.0, 10.0)))
    gate.set()
    wait(lambda: found.records, 'its end')
    assert found.records[0].outcome is Outcome.DETECTED and found.records[0].planned_level == 0
    found.submit('task')
    wait(lambda: len(levels) == 2, 'the next job')
    assert levels == [0, 1]
    found.follow()
    found.submit('task')
    time.sleep(0.05)
    assert len(levels) == 2, 'a task without a plan rests'


class Traced:
    """A real run that tells each of its segments, waits after the first, and runs beside no other."""

    one_at_a_time = threading.Lock()

    def __init__(self, run, name, trace, gate):
        self.run, self.name, self.trace, self.gate = run, name, trace, gate

    def __getattr__(self, name):
        return getattr(self.run, name)

    def run_segment(self):
        assert self.one_at_a_time.acquire(blocking=False), 'two networks at once'
        self.trace.append((self.name, self.run.segment))
        took_ms = self.run.run_segment()
        if self.run.segment == 1:
            assert self.gate.wait(WAIT_S)
        self.one_at_a_time.release()
        return took_ms


@pytest.fixture
def traced(bench):
    """A bench of real networks: these, a gate after the first segment of each job, and segments as they start."""
    networks = {'slow': make_magnifier(), 'medium': make_classifier(), 'quick': make_magnifier()}
    gates, trace = {name: threading.Event() for name in networks}, []

    def begin(name):
        network = networks[name]
        path = network.path_space.largest
        return lambda image, level: Traced(network.start(image, path), name, trace, gates[name])

    def make(starts=None, **options):
        return bench({**{name: begin(name) for name in networks}, **(starts or {})}, **options)

    return SimpleNamespace(networks=networks, gates=gates, trace=trace, bench=make)


def test_jobs_are_preempted_between_segments_and_go_on_where_they_were(traced):
    found, gates, trace = traced.bench(), traced.gates, traced.trace
    periods_ms = {'slow': 60_000.0, 'medium': 40_000.0, 'quick': 20_000.0}
    found.follow(**{name: (0, ms, (10_000.0,)) for name, ms in periods_ms.items()})
    found.submit('slow')
    wait(lambda: len(trace) == 1, 'its first segment')
    found.submit('medium')
    gates['slow'].set()
    wait(lambda: len(trace) == 2, 'the first preemption')
    found.submit('quick')
    gates['medium'].set()
    wait(lambda: len(trace) == 3, 'the second preemption')
    time.sleep(0.02)
    gates['quick'].set()
    found.wait_for(3)
    counts = {name: len(one.path_space.segments) for name, one in traced.networks.items()}
    rest = [
        (name, at)
        for name, begin in (('quick', 0), ('medium', 1), ('slow', 1))
        for at in range(begin, counts[name])
    ]
    assert trace == [('slow', 0), ('medium', 0), *rest] and not found.errors
    assert [record.outcome for record in found.records] == [Outcome.DETECTED] * 3
    counts = found.counts
    assert [counts[name].preemptions for name in periods_ms] == [1, 1, 0]
    assert counts['quick'].longest_blocking_ms > 0.0 == counts['slow'].longest_blocking_ms
    quick, medium, slow = found.records
    assert slow.preempted_ms > medium.preempted_ms >= quick.took_ms and quick.preempted_ms == 0.0
    assert slow.took_ms == pytest.approx(slow.answered_ms - slow.started_ms - slow.preempted_ms)
    for name, network in traced.networks.items():
        alone = network.start(IMAGE, network.path_space.largest).finish()
        for field, value in vars(alone).items():
            assert np.array_equal(value, getattr(found.results(name)[0], field))


def test_a_job_that_preempts_and_hangs_leaves_the_preempted_one_to_the_next_thread(traced):
    stuck = threading.Event()
    quick = starts(lambda: stuck.wait(WAIT_S), nothing)
    found = traced.bench({'quick': quick}, hanging_ms=50.0)
    found.follow(slow=(0, 60_000.0, (10.0,)), quick=(0, 1000.0, (5.0,)))
    found.submit('slow')
    wait(lambda: traced.trace, 'its first segment')
    found.submit('quick')
    traced.gates['slow'].set()
    wait(lambda: found.results('slow') and found.outcomes('quick'), 'both jobs')
    assert found.outcomes('quick') == [Outcome.HUNG] and found.scheduler.hanging == ('quick',)
    stuck.set()


def test_rejected_images_are_no_jobs_and_plans_of_other_tasks_are_refused(bench):
    found = bench({'task': QUICK})
    found.follow(task=(0, 500.0, (1.0,)))
    found.submit('task', image='broken')
    time.sleep(0.05)
    found.submit('task')
    wait(lambda: found.counts['task'].jobs, 'the good image')
    assert found.counts['task'].jobs == 1
    with pytest.raises(ValueError, match='plan is of other, expected tasks among task'):
        bench({'task': QUICK}).follow(other=(0, 1.0, (1.0,)))


def test_counts_state_their_limit():
    count = TaskCount()
    assert (count.misses, count.miss_ratio_upper_95) == (0, 1.0)
    for outcome in [Outcome.DETECTED] * 99 + [Outcome.LATE]:
        count.note(ended_job(outcome))
    assert (count.jobs, count.misses) == (100, 1) and 0.04 < count.miss_ratio_upper_95 < 0.05
