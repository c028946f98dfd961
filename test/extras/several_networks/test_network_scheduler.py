"""The scheduler with real, tiny networks: order, levels, aborts, failures and hangs; times are only ever compared
loosely."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from invented_networks import make_classifier, make_magnifier
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

IMAGE = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)


class Bench:
    """A scheduler, what its tasks gave, and what became of the jobs."""

    def __init__(self, starts, **options):
        self.records, self.errors = [], []
        self.clients = {name: Client(self) for name in starts}
        executor = Executor()
        executor.start(ThreadPriority('off'), self.errors.append)
        self.scheduler = NetworkScheduler(
            executor,
            {
                name: (
                    SimpleNamespace(network=SimpleNamespace(start=start), paths=range(9)),
                    self.clients[name],
                )
                for name, start in starts.items()
            },
            **options,
        )

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
    found.scheduler.follow(
        {
            'first': TaskPlan(0, 60_000.0, (1000.0,)),
            'slow': TaskPlan(0, 60_000.0, (10.0,)),
            'quick': TaskPlan(0, 30_000.0, (10.0,)),
        }
    )
    found.scheduler.submit('first', IMAGE)
    wait(lambda: order == ['first'], 'the first job')
    found.scheduler.submit('slow', IMAGE)
    found.scheduler.submit('quick', IMAGE)
    gate.set()
    found.wait_for(3)
    assert order == ['first', 'quick', 'slow'] and not found.errors
    assert {record.outcome for record in found.records} == {Outcome.DETECTED}


def test_releases_are_a_period_apart_and_the_newest_image_is_used(bench):
    images = []
    found = bench({'task': lambda image, level: images.append(image) or Steps(nothing)})
    found.scheduler.follow({'task': TaskPlan(0, 1000.0, (5.0,))})
    found.scheduler.submit('task', 0)
    found.wait_for(1)
    for number in (1, 2, 3):
        found.scheduler.submit('task', number)
    found.wait_for(2)
    assert images == [0, 3] and found.scheduler.counts['task'].replaced == 2
    first, second = found.records
    assert second.arrived_ms == pytest.approx(first.arrived_ms + 1000.0)
    assert second.started_ms >= second.arrived_ms and second.conditions.budget_ms == 1000.0


@pytest.mark.parametrize(('others', 'level'), [({}, 2), ({'other': (80_000.0, (30_000.0,))}, 1)])
def test_unused_time_raises_levels_only_where_nobody_is_made_late(bench, others, level):
    """The last level takes longer than the period; of the others, one that another task leaves room for, which may be
    released at any moment with 30 s of work that is due 80 s later."""
    levels = []
    start = lambda image, level: levels.append(level) or Steps(nothing)  # noqa: E731
    found = bench({'alone': start, 'other': start})
    plans = {'alone': (100_000.0, (1000.0, 30_000.0, 70_000.0, 110_000.0)), **others}
    found.scheduler.follow({name: TaskPlan(0, *plan) for name, plan in plans.items()})
    found.scheduler.submit('alone', IMAGE)
    found.wait_for(1)
    assert levels == [level] and found.scheduler.counts['alone'].raised == 1


def test_a_job_that_overruns_is_aborted_at_its_next_segment_and_counted(bench):
    done = []
    found = bench(
        {
            'long': lambda image, level: Steps(
                lambda: time.sleep(0.5), lambda: done.append('second segment')
            ),
            'short': lambda image, level: Steps(nothing),
        }
    )
    found.scheduler.follow(
        {'long': TaskPlan(0, 400.0, (10.0,)), 'short': TaskPlan(0, 10_000.0, (1.0,))}
    )
    found.scheduler.submit('long', IMAGE)
    found.scheduler.submit('short', IMAGE)
    found.wait_for(2)
    expected = ([Outcome.ABORTED], [Outcome.DETECTED])
    assert (found.outcomes('long'), found.outcomes('short')) == expected
    assert not done and not found.results('long')
    count = found.scheduler.counts['long']
    assert (count.jobs, count.misses) == (1, 1) and found.records[0].overran


def test_a_task_that_dies_does_not_take_the_others_down(bench):
    def die(image, level):
        raise RuntimeError('no memory')

    found = bench({'dying': die, 'well': lambda image, level: Steps(nothing)})
    found.scheduler.follow(
        {'dying': TaskPlan(0, 100.0, (1.0,)), 'well': TaskPlan(0, 10_000.0, (1.0,))}
    )
    for number in range(3):
        found.scheduler.submit('dying', IMAGE)
        wait(lambda: len(found.outcomes('dying')) > number, 'a job')
    found.scheduler.submit('well', IMAGE)
    wait(lambda: found.results('well'), 'the other task')
    assert found.outcomes('dying') == [Outcome.FAILED] * 3 and len(found.errors) == 3
    assert found.scheduler.counts['dying'].last_failure == 'RuntimeError: no memory'


def test_an_image_that_waited_behind_a_job_that_hangs_makes_no_other_thread_hang(bench):
    gate, begun = threading.Event(), []
    found = bench(
        {
            'hanging': lambda image, level: (
                begun.append(image) or Steps(lambda: gate.wait(WAIT_S), nothing)
            ),
            'well': lambda image, level: Steps(nothing),
        },
        hanging_ms=50.0,
    )
    found.scheduler.follow(
        {'hanging': TaskPlan(0, 60.0, (5.0,)), 'well': TaskPlan(0, 200.0, (1.0,))}
    )
    found.scheduler.submit('hanging', IMAGE)
    wait(lambda: begun, 'the job that will hang')
    found.scheduler.submit('hanging', IMAGE)
    wait(lambda: found.scheduler.hanging == ('hanging',), 'the hang to be seen')
    for number in range(3):
        found.scheduler.submit('well', IMAGE)
        wait(lambda: len(found.results('well')) > number, 'the other task')
    assert len(begun) == 1 and found.outcomes('hanging') == [Outcome.HUNG]
    found.scheduler.submit('hanging', IMAGE)  # in the place of the one that waits
    gate.set()
    wait(lambda: len(begun) == 2, 'the image that waited')
    wait(lambda: not found.scheduler.hanging, 'the network to come back')
    wait(lambda: len(found.outcomes('hanging')) == 2, 'its end')


def test_plans_change_without_disturbing_the_job_at_work(bench):
    gate, levels = threading.Event(), []
    found = bench(
        {
            'task': lambda image, level: (
                levels.append(level) or Steps(lambda: gate.wait(WAIT_S), nothing)
            )
        },
        raises_levels=False,
    )
    found.scheduler.follow({'task': TaskPlan(0, 30_000.0, (9.0, 10.0))})
    found.scheduler.submit('task', IMAGE)
    wait(lambda: levels == [0], 'the job')  # not raised
    found.scheduler.follow({'task': TaskPlan(1, 1000.0, (9.0, 10.0))})
    gate.set()
    wait(lambda: found.records, 'its end')
    assert found.records[0].outcome is Outcome.DETECTED and found.records[0].planned_level == 0
    found.scheduler.submit('task', IMAGE)
    wait(lambda: len(levels) == 2, 'the next job')
    assert levels == [0, 1]
    found.scheduler.follow({})
    found.scheduler.submit('task', IMAGE)
    time.sleep(0.05)
    assert len(levels) == 2, 'a task without a plan rests'


class Traced:
    """A real run that tells each of its segments, and waits after the first."""

    def __init__(self, run, name, trace, gate):
        self.run, self.name, self.trace, self.gate = run, name, trace, gate

    def __getattr__(self, name):
        return getattr(self.run, name)

    def run_segment(self):
        self.trace.append((self.name, self.run.segment))
        took_ms = self.run.run_segment()
        if self.run.segment == 1:
            assert self.gate.wait(WAIT_S)
        return took_ms


def traced_networks():
    """Real networks by name, a gate after the first segment of each job, and the segments in the order of their start."""
    networks = {'slow': make_magnifier(), 'medium': make_classifier(), 'quick': make_magnifier()}
    gates, trace = {name: threading.Event() for name in networks}, []

    def begin(name):
        network = networks[name]
        path = network.path_space.largest
        return lambda image, level: Traced(network.start(image, path), name, trace, gates[name])

    return networks, gates, trace, {name: begin(name) for name in networks}


def segments_of(name, networks, begin=0):
    return [(name, at) for at in range(begin, len(networks[name].path_space.segments))]


def test_jobs_are_preempted_between_segments_and_go_on_where_they_were(bench):
    networks, gates, trace, starts = traced_networks()
    found = bench(starts)
    periods_ms = {'slow': 60_000.0, 'medium': 40_000.0, 'quick': 20_000.0}
    found.scheduler.follow({name: TaskPlan(0, ms, (10_000.0,)) for name, ms in periods_ms.items()})
    found.scheduler.submit('slow', IMAGE)
    wait(lambda: len(trace) == 1, 'its first segment')
    found.scheduler.submit('medium', IMAGE)
    gates['slow'].set()
    wait(lambda: len(trace) == 2, 'the first preemption')
    found.scheduler.submit('quick', IMAGE)
    gates['medium'].set()
    wait(lambda: len(trace) == 3, 'the second preemption')
    time.sleep(0.02)
    gates['quick'].set()
    found.wait_for(3)
    assert trace == [
        ('slow', 0),
        ('medium', 0),
        *segments_of('quick', networks),
        *segments_of('medium', networks, 1),
        *segments_of('slow', networks, 1),
    ]
    assert [record.outcome for record in found.records] == [Outcome.DETECTED] * 3
    counts = found.scheduler.counts
    assert [counts[name].preemptions for name in periods_ms] == [1, 1, 0]
    assert counts['quick'].longest_blocking_ms > 0.0 == counts['slow'].longest_blocking_ms
    quick, medium, slow = found.records
    assert slow.preempted_ms > medium.preempted_ms >= quick.took_ms and quick.preempted_ms == 0.0
    assert slow.took_ms == pytest.approx(slow.answered_ms - slow.started_ms - slow.preempted_ms)
    for name, network in networks.items():
        alone = network.start(IMAGE, network.path_space.largest).finish()
        for field, value in vars(alone).items():
            assert np.array_equal(value, getattr(found.results(name)[0], field))


def test_a_job_that_preempts_and_hangs_leaves_the_preempted_one_to_the_next_thread(bench):
    networks, gates, trace, starts = traced_networks()
    stuck = threading.Event()
    starts['quick'] = lambda image, level: Steps(lambda: stuck.wait(WAIT_S), nothing)
    found = bench(starts, hanging_ms=50.0)
    found.scheduler.follow(
        {'slow': TaskPlan(0, 60_000.0, (10.0,)), 'quick': TaskPlan(0, 1000.0, (5.0,))}
    )
    found.scheduler.submit('slow', IMAGE)
    wait(lambda: trace, 'its first segment')
    found.scheduler.submit('quick', IMAGE)
    gates['slow'].set()
    wait(lambda: found.results('slow'), 'the job that was preempted')
    assert found.outcomes('quick') == [Outcome.HUNG] and found.scheduler.hanging == ('quick',)
    stuck.set()


def test_a_job_that_is_preempted_when_the_scheduler_stops_is_aborted(bench):
    networks, gates, trace, starts = traced_networks()
    found = bench(starts)
    found.scheduler.follow(
        {name: TaskPlan(0, ms, (1e4,)) for name, ms in (('slow', 6e4), ('quick', 2e4))}
    )
    found.scheduler.submit('slow', IMAGE)
    wait(lambda: trace, 'its first segment')
    found.scheduler.submit('quick', IMAGE)
    gates['slow'].set()
    wait(lambda: len(trace) == 2, 'the preemption')
    threading.Timer(0.05, gates['quick'].set).start()
    assert found.scheduler.stop()
    assert found.outcomes('slow') == found.outcomes('quick') == [Outcome.ABORTED]


def test_deadlines_before_the_ends_of_periods_are_those_of_jobs(bench):
    plans = [TaskPlan(0, 800.0, (20.0, 200.0, 600.0), 400.0)] * 2
    plans += [TaskPlan(0, 800.0, (20.0, 200.0, 600.0), highest=0)]
    found = bench({'task': lambda image, level: Steps(nothing)})
    for number, plan in enumerate(plans):
        found.scheduler.follow({'task': plan})
        found.scheduler.submit('task', IMAGE)
        found.wait_for(number + 1)
    first, second, third = found.records
    assert second.arrived_ms == pytest.approx(first.arrived_ms + 800.0)
    assert second.conditions.budget_ms == 400.0
    assert [first.level, second.level, third.level] == [1, 1, 0]


def test_rejected_images_are_no_jobs(bench):
    found = bench({'task': lambda image, level: Steps(nothing)})
    found.scheduler.follow({'task': TaskPlan(0, 500.0, (1.0,))})
    found.scheduler.submit('task', 'broken')
    time.sleep(0.05)
    found.scheduler.submit('task', IMAGE)
    wait(lambda: found.results('task'), 'the good image')
    assert found.scheduler.counts['task'].jobs == 1


@pytest.mark.parametrize(
    'values',
    [
        (1, 10.0, (1.0,)),
        (0, 0.0, (1.0,)),
        (0, 10.0, (0.0,)),
        (0, 10.0, ()),
        (0, 10.0, (1.0,), 0.0),
        (0, 10.0, (1.0,), 5.0, 1),
    ],
)
def test_refuses_plans_that_are_none(values):
    with pytest.raises(ValueError, match='expected'):
        TaskPlan(*values)


def test_refuses_plans_of_other_tasks(bench):
    found = bench({'task': lambda image, level: Steps(nothing)})
    with pytest.raises(ValueError, match='plan is of other, expected tasks among task'):
        found.scheduler.follow({'other': TaskPlan(0, 1.0, (1.0,))})


def test_counts_state_their_limit():
    count = TaskCount()
    assert (count.misses, count.miss_ratio_upper_95) == (0, 1.0)
    for outcome in [Outcome.DETECTED] * 99 + [Outcome.LATE]:
        count.note(ended_job(outcome))
    assert (count.jobs, count.misses) == (100, 1) and 0.04 < count.miss_ratio_upper_95 < 0.05


def test_every_kind_of_trouble_is_counted():
    count, long = TaskCount(), ended_job(Outcome.ABORTED, started_ms=1.0, ended_ms=28.0)
    for job in (ended_job(), ended_job(level=2), long, ended_job(Outcome.FAILED, 'why')):
        count.note(job)
    assert (count.jobs, count.misses, count.raised, count.last_failure) == (4, 2, 1, 'why')
    assert long.overran and long.took_ms == 27.0 and not ended_job().overran
