import itertools
import math
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fresh_bounds import fresh_bound
from hand_clock import Clock
from path_spaces import space_of
from plain_images import grey
from waiting import WAIT_S, wait

from deadline_perception.core.detections import Classification, Detections
from deadline_perception.core.execution_path import PathSpace, Segment
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.decision.policy import Choice
from deadline_perception.engines.segment_run import SegmentRun
from deadline_perception.runtime import job as job_module
from deadline_perception.runtime import pipeline as pipeline_module
from deadline_perception.runtime.executor import serve
from deadline_perception.runtime.job import (
    Conditions,
    Job,
    LatePolicy,
    Outcome,
    Stage,
    StampReading,
)
from deadline_perception.runtime.mailbox import Mailbox
from deadline_perception.runtime.pipeline import HOPELESS_MS, FrameClient, FramePipeline, FrameRules
from deadline_perception.runtime.task import Task
from deadline_perception.runtime.watchdog import Watchdog
from deadline_perception.timing.time_model import Reserve, TimeModel

SPACE = space_of(1)
PATH = SPACE.largest
IMAGE = grey(40, 60)
FOUND = Detections([[1, 1, 9, 9]], [0.8], [0])
STAMPS_NS = itertools.count(10**18, 10**8)


LOOKS = PathSpace((), (Segment('first', 'coarse', result='coarse'), Segment('closer', 'conv')))
COARSE = Detections([[2, 2, 20, 20]], [0.6], [0])


class Network:
    """Finds one object; before its second segment it waits, where told to, for an event."""

    result_type = Detections

    def __init__(self, path_space=SPACE, fails_at=0):
        self.path_space, self.fails_at = path_space, fails_at
        self.gate, self.error = None, None
        self.found, self.so_far = FOUND, COARSE
        self.segment_ms = 0.1
        self.begun, self.segments, self.holds = [], 0, False

    def start(self, image, path):
        self.begun.append(image)
        return Run(self, path)


class Run(SegmentRun):
    compute = None  # a segment takes the time that it is said to

    def __init__(self, network, path):
        super().__init__(network.path_space, path)
        self.network = network

    def run_segment(self, begun_ms):
        if self.network.error is not None and self.segment == self.network.fails_at:
            raise self.network.error
        if self.segment == 1 and self.network.gate is not None:
            self.network.holds = True
            assert self.network.gate.wait(WAIT_S)
        self.segment += 1
        self.network.segments += 1
        return self.network.segment_ms

    def result_so_far(self):
        return self.network.so_far

    def result(self):
        return self.network.found


class OnePath:
    """One path that takes so long; notes how much time each plan may take, and not what is decided later."""

    name, keeps_bounds = 'one', True

    def __init__(self, forecast_ms=0.01, path=PATH):
        self.cost_ms, self.path, self.asked_ms = forecast_ms, path, ()

    def forecast_ms(self, path, segment=0):
        return self.cost_ms

    def from_each_ms(self, path):
        return [self.forecast_ms(path)] * len(path.space.segments)

    def plan(self, remaining_ms, factor):
        self.asked_ms += (remaining_ms,)
        return self.choose(remaining_ms, factor)

    def redecide(self, path, segment, remaining_ms, factor, elapsed_ms=0.0):
        return self.choose(remaining_ms, factor)

    def choose(self, remaining_ms, factor):
        bound_ms = self.cost_ms * factor
        return Choice(self.path, self.cost_ms, bound_ms, bound_ms <= remaining_ms, 0.5)

    def observe(self, latency_ms, remaining_ms):
        pass


def _same(one, other):
    """They are one result, apart from the ids of tracks."""
    return isinstance(other, Detections) and all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ('boxes_xyxy_px', 'scores', 'labels')
    )


class Bench(FrameClient):
    """Pipelines on one mailbox and one watchdog, with their inputs and outputs as attributes."""

    def __init__(self):
        self.budget_ms, self.network, self.image = 10_000.0, Network(), IMAGE
        self.published, self.records, self.late, self.failures = [], [], [], []
        self.clock = now_ms
        self.bound = fresh_bound()
        self.mailbox, self.watchdog = Mailbox(), Watchdog(self.failures.append)
        self.on_record, self.on_late_record = self.records.append, self.late.append
        self.on_failure = self.failures.append
        self.hear = lambda arrival, found: None
        self.pipelines = []

    @property
    def outcomes(self):
        return [record.outcome for record in self.records]

    def build(self, policy=None, network=None, reserve_ms=0.0, **rules):
        policy = policy or OnePath()
        network = network or self.network
        self.times = times = TimeModel(network.path_space, policy, self.bound)
        times.publishing = Reserve(reserve_ms, math.inf, quantile=0.99)
        task, rules = Task(network, policy, times), FrameRules(**rules)
        pipeline = FramePipeline(task, self, rules, self.mailbox, self.watchdog)
        pipeline._inference.clock_ms = self.clock
        self.pipelines.append(pipeline)
        return pipeline

    @property
    def counts(self):
        """Of objects, published with each image."""
        return [len(found) for found in self.published]

    def conditions(self, arrival):
        return Conditions(self.budget_ms, 1.0, 'test')

    def convert(self, arrival):
        return self.image

    def publish(self, arrival, found):
        self.hear(arrival, found)
        known = [one for one in (FOUND, COARSE) if _same(one, found)]
        self.published.append((*known, found)[0])  # without the ids of tracks

    def run(self, pipeline, arrival=None):
        """Takes one image to its answer on this thread."""
        pipeline.arrive(arrival or arrive(at_ms=self.clock()))
        self.answer_next()

    def answer_next(self):
        task, frame = self.mailbox.take(0)
        task.process(frame)

    def run_failing(self, pipeline, arrival=None):
        """The same with a network that fails."""
        self.network.error = RuntimeError('gone')
        self.run(pipeline, arrival)
        self.network.error = None

    def start(self):
        given = self.mailbox, self.failures.append
        worker = threading.Thread(target=serve, args=given, daemon=True)
        worker.start()
        return worker

    def let_time_be_up(self, frame):
        """The watchdog answers it now, however busy the machine is."""
        before, frame.fallback_ms = len(self.records), now_ms()
        frame.due_ms = frame.fallback_ms  # of a first result that may yet come
        self.watchdog.arm(frame.fallback_ms)
        wait(lambda: len(self.records) > before)

    def close(self):
        self.mailbox.close()
        for pipeline in self.pipelines:
            pipeline.stop()
        self.watchdog.stop()


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.close()


@pytest.fixture
def clock(bench, monkeypatch):
    """That frames are timed by, moved on by hand; the watchdog's goes on."""
    bench.clock = Clock()
    bench.clock.ms = now_ms()
    monkeypatch.setattr(pipeline_module, 'now_ms', bench.clock)
    return bench.clock


def arrive(age_ms=1.0, stamp_ns=None, dropped=0, at_ms=None):
    """An image now, by its stamp 100 ms after the one before."""
    stamp = StampReading(age_ms, '', next(STAMPS_NS) if stamp_ns is None else stamp_ns)
    return Job(SimpleNamespace(), now_ms() if at_ms is None else at_ms, stamp, dropped)


def arrive_at(clock):
    return arrive(age_ms=0.0, at_ms=clock())


def test_when_a_closer_look_hangs_the_answer_is_what_the_first_one_found(bench):
    bench.network = Network(LOOKS)
    bench.network.gate = threading.Event()
    pipeline, frame = bench.build(OnePath(path=LOOKS.largest)), arrive()
    bench.start()
    pipeline.arrive(frame)
    wait(lambda: frame.newest)
    bench.let_time_be_up(frame)
    (record,) = bench.records
    assert bench.published == [COARSE]
    assert record.outcome is Outcome.DETECTED and record.results == ('coarse',)
    assert 'ms of its coarse result fits' in record.explanation
    assert record.evidence_age_ms == 0.0 and record.result is None
    # Such answers begin as much earlier as they take, which says nothing of those without a network beside.
    reserve, beside = bench.times.reserve, bench.times.publishing_beside
    assert reserve.lead_ms == beside.reserve_ms > reserve.publishing_ms == 0.0
    bench.network.gate.set()  # what it finds then is for the tracks
    wait(lambda: bench.late)
    assert bench.late[0].result is FOUND and pipeline.late_results == 1


@pytest.mark.parametrize('has_found, waits_ms', [(True, -1000.0), (False, 0.0)])
def test_an_answer_beside_a_running_network_begins_earlier_where_there_is_a_result_to_give(
    bench, has_found, waits_ms
):
    space = LOOKS if has_found else SPACE
    bench.network = Network(space)
    bench.network.gate = threading.Event()
    pipeline, frame = bench.build(OnePath(path=space.largest), reserve_ms=1000.0), arrive()
    bench.start()
    pipeline.arrive(frame)
    wait(lambda: frame.newest if has_found else bench.network.segments)
    assert frame.due_ms == frame.deadline_ms - 1000.0
    early_ms = frame.due_ms - 400.0
    due_ms, act = pipeline.next_due(min(early_ms, frame.due_ms + waits_ms - 1.0))
    assert (due_ms, act) == (frame.due_ms + waits_ms, None)
    due_ms, act = pipeline.next_due(early_ms)
    assert (act is not None) is has_found
    if act:
        act()
        assert bench.published == [COARSE]
    bench.network.gate.set()
    wait(lambda: bench.records)


def test_when_a_closer_look_fails_the_answer_is_what_the_first_one_found_and_says_so(bench):
    bench.network = Network(LOOKS, fails_at=1)
    pipeline = bench.build(OnePath(path=LOOKS.largest))
    bench.run(pipeline)
    bench.run_failing(pipeline)
    bench.network.so_far = Detections.none()  # an answer too, and not the objects of before
    bench.run_failing(pipeline)
    assert bench.published[:2] == [FOUND, COARSE] and len(bench.published[2]) == 0
    assert bench.outcomes == [Outcome.DETECTED] * 3 and bench.records[0].results == ('coarse',)
    assert 'gone' in bench.records[1].reasons[0]


def test_a_newer_or_rejected_image_gives_no_message_and_is_counted_with_the_next(bench):
    pipeline = bench.build()
    older = arrive(age_ms=4000.0, dropped=2)
    pipeline.arrive(older)
    due_ms = pipeline.next_due(now_ms())[0]
    pipeline.arrive(arrive())
    assert older.stage is Stage.SUPERSEDED  # as who waits for its answer is told
    assert pipeline.next_due(now_ms())[0] == due_ms  # as the older one was promised
    bench.run(pipeline)
    assert [record.superseded for record in bench.records] == [4]
    assert (pipeline.arrived, pipeline.replaced) == (5, 4)
    bench.image = None
    bench.run(pipeline, arrive(dropped=2))
    assert len(bench.records) == 1 and pipeline.wants_image
    bench.image = IMAGE
    bench.run(pipeline, arrive(dropped=1))
    assert bench.records[1].superseded == 3


HANGS = ('network', 'conversion', 'publication')


def hang(bench, where):
    """Whatever the worker does next hangs; returns the event that frees it."""
    gate, worker = threading.Event(), []

    def wait_once(*_):
        worker.append(threading.current_thread())
        assert len(worker) > 1 or gate.wait(WAIT_S)

    if where == 'network':
        bench.network.gate = gate
    elif where == 'conversion':
        bench.convert = lambda arrival: (wait_once(), bench.image)[1]
    else:
        bench.hear = wait_once
    return gate


@pytest.mark.parametrize('where', HANGS)
def test_whatever_hangs_every_image_is_answered_or_replaced_by_one_that_is(bench, where):
    pipeline = bench.build()
    bench.run(pipeline)
    bench.budget_ms, gate = 100.0, hang(bench, where)
    worker, sent = bench.start(), 6
    for _ in range(sent):  # twice the budget long
        pipeline.arrive(arrive(age_ms=0.0))
        time.sleep(0.04)
    # While it hangs.
    wait(lambda: sum(1 + record.superseded for record in bench.records[1:]) == sent)
    assert worker.is_alive()
    # Of an image whose own result is there, its publication is made again by another thread.
    own = [outcome for outcome in bench.outcomes[1:] if outcome is not Outcome.COASTED]
    assert set(own) <= {Outcome.DETECTED, Outcome.LATE} and (where == 'publication' or not own)
    if where != 'publication':
        (first,) = bench.published[1:2]
        assert len(first) == 1 and first.scores[0] < FOUND.scores[0]
    bench.network.gate, bench.budget_ms = None, 10_000.0
    gate.set()
    pipeline.arrive(arrive())
    wait(lambda: bench.records[-1].outcome is Outcome.DETECTED)
    assert bench.failures == []


def test_images_that_were_left_out_are_answered_for_when_the_first_of_them_is_due(bench, clock):
    pipeline = bench.build()
    first = arrive_at(clock)
    bench.run(pipeline, first)
    clock.ms += 400.0
    pipeline.arrive(arrive(age_ms=0.0, dropped=3, at_ms=clock()))
    due_ms, act = pipeline.next_due(clock())
    assert act is None
    assert due_ms == pytest.approx(first.arrived_ms + 400.0 / 4 + 10_000.0 - HOPELESS_MS)


def test_a_hanging_publication_in_the_watchdogs_own_thread_is_made_by_another(bench):
    pipeline, gate = bench.build(), threading.Event()
    bench.budget_ms, threads = 30.0, []

    def publish(arrival, found):
        threads.append(threading.current_thread())
        assert len(threads) > 1 or gate.wait(WAIT_S)

    bench.hear = publish
    pipeline.arrive(arrive(age_ms=0.0))  # no worker takes it
    wait(lambda: bench.records)
    assert threads[0] is not threads[1]
    gate.set()
    wait(lambda: len(bench.published) == 2)
    assert len(bench.records) == 1


def test_a_publication_that_fails_is_told_and_made_again_and_the_worker_serves_on(bench):
    pipeline, frame = bench.build(), arrive()
    bench.hear = lambda arrival, found: bench.failures or 1 / 0
    worker = bench.start()
    pipeline.arrive(frame)
    wait(lambda: bench.failures and pipeline.busy_since_ms is None)
    bench.let_time_be_up(frame)
    assert bench.published == [FOUND]
    assert [str(error) for error in bench.failures] == ['division by zero']
    pipeline.arrive(arrive())
    wait(lambda: len(bench.records) == 2)
    assert bench.records[1].outcome is Outcome.DETECTED
    assert worker.is_alive()


def test_an_answer_that_cannot_be_published_at_all_is_counted_and_the_next_image_is_wanted(bench):
    pipeline = bench.build()
    bench.budget_ms = 5.0
    works, bench.hear = bench.hear, lambda arrival, found: 1 / 0
    pipeline.arrive(arrive(age_ms=0.0))
    wait(lambda: pipeline.unpublished == 1)
    assert pipeline.wants_image
    assert bench.records == [] and len(bench.failures) > 1
    bench.hear, bench.budget_ms = works, 9000.0
    bench.run(pipeline, arrive(age_ms=0.0))
    assert [record.superseded for record in bench.records] == [1]


def test_while_one_task_hangs_the_images_of_another_are_answered_in_time(bench):
    hanging, other = bench.build(), bench.build(network=Network())
    bench.budget_ms, bench.network.gate = 100.0, threading.Event()
    bench.start()
    hanging.arrive(arrive(age_ms=0.0))
    wait(lambda: bench.network.begun)
    other.arrive(arrive(age_ms=0.0))
    wait(lambda: len(bench.records) == 2)
    bench.network.gate.set()
    assert bench.outcomes == [Outcome.COASTED] * 2


def test_a_result_of_another_type_is_stood_in_for_by_the_last_one(bench):
    bench.network.found, bench.network.result_type = Classification([0.2, 0.8]), Classification
    pipeline = bench.build()
    bench.run_failing(pipeline)
    assert bench.published == [] and bench.outcomes == [Outcome.COASTED]  # none to repeat
    bench.run(pipeline)
    bench.run_failing(pipeline)
    assert bench.published == [bench.network.found] * 2


def test_a_stopped_pipeline_aborts_the_frame_that_the_network_still_holds(bench):
    pipeline = bench.build()
    bench.network.gate = threading.Event()
    worker = bench.start()
    pipeline.arrive(arrive())
    wait(lambda: bench.network.holds)
    bench.close()
    bench.network.gate.set()
    worker.join(WAIT_S)
    assert not worker.is_alive()
    assert bench.network.segments == 2 < len(SPACE.segments)
    assert bench.records == bench.published == []


def test_an_image_that_cannot_be_in_time_is_answered_at_once_and_renews_the_tracks(bench):
    pipeline = bench.build(OnePath(forecast_ms=1e6))
    for step in range(3):
        bench.run(pipeline, arrive(stamp_ns=10**18 + step * 10**8))
    assert bench.outcomes == [Outcome.COASTED] * 3
    for record in bench.records:
        assert record.result is None and not record.plan.feasible
        assert 'no time for the frame' in record.reason
    assert bench.counts == [0, 1, 1]
    assert [record.evidence_age_ms for record in bench.records] == pytest.approx(
        [math.nan, 100.0, 100.0], nan_ok=True
    )
    for record in bench.late:
        assert (record.outcome, record.forecast_ms) == (Outcome.LATE, 1e6)
        assert record.network_ms > 0 and record.evidence_age_ms == 0
    assert pipeline.late_results == bench.times.calibrator.frames == 3


def test_the_network_goes_on_with_the_best_path_until_the_next_image(bench, clock):
    long, short, asked_ms = SPACE.largest, SPACE.smallest, []

    def plan(remaining_ms, factor):
        if remaining_ms > 5000.0:  # until its deadline, and not until the next image: nothing fits
            return Choice(short, 1e6, 1e6, False, 0.1)
        asked_ms.append(remaining_ms / factor)
        return Choice(long if asked_ms[-1] >= 50.0 else short, 1.0, 1.0, True, 0.5)

    policy = OnePath()
    policy.forecast_ms = lambda path, segment=0: 50.0 if path == long else 10.0
    policy.plan, policy.redecide = plan, lambda path, *more: Choice(path, 1.0, 1.0, True, 0.5)
    bench.bound = fresh_bound(math.log(1.5))
    pipeline = bench.build(policy)
    bench.run(pipeline)
    clock.ms += 900.0
    bench.run(pipeline)
    assert [record.path for record in bench.late] == [short, long]
    assert asked_ms == pytest.approx([0.0, 900.0 / 1.5], rel=1e-3)  # by the bound


@pytest.mark.parametrize('spares, asked_ms', [(True, 360.0), (False, 10_000.0)])
def test_the_next_image_is_spared_once_the_period_is_learnt(bench, clock, spares, asked_ms):
    policy = OnePath()
    pipeline = bench.build(policy, spare_next_image=spares)
    for _ in range(2):
        clock.ms += 400.0
        bench.run(pipeline, arrive_at(clock))
    assert policy.asked_ms == pytest.approx([10_000.0, asked_ms], rel=0.1)  # by a bound learnt


def run_late_while_another_waits(bench, pipeline, other, fits_alone):
    """Answers an image, and lets another come while the network goes on with it; whether the network ended."""
    policy = OnePath()
    policy.plan = policy.redecide = lambda *given: Choice(PATH, 1e6, 1e6, False, 0.5)
    bench.network.gate = threading.Event()
    pipeline._inference.policy = policy
    worker = threading.Thread(target=bench.run, args=(pipeline,))
    before, told, budget_ms = len(bench.network.begun), len(bench.records), bench.budget_ms
    bench.budget_ms = 200.0
    worker.start()
    wait(lambda: len(bench.network.begun) > before and len(bench.records) > told)
    bench.budget_ms = budget_ms
    other.arrive(arrive())
    pipeline._task.policy.plan = lambda remaining_ms, factor, *more: Choice(
        PATH, 1.0, 1.0, remaining_ms > (5000.0 if fits_alone else 1e9), 0.5
    )
    bench.network.gate.set()
    worker.join(WAIT_S)
    return pipeline.late_results == 1


@pytest.mark.parametrize(
    'fits_alone, max_coasted, ended', [(True, 1, False), (False, 1, True), (True, 0, True)]
)
def test_late_work_makes_room_for_the_next_image(
    bench, monkeypatch, fits_alone, max_coasted, ended
):
    monkeypatch.setattr(pipeline_module, 'MAX_COASTED', max_coasted)
    policy = OnePath()
    policy.forecast_ms = lambda path, segment=0: 8000.0
    pipeline = bench.build(policy)
    begin = bench.times.begin
    bench.times.begin = lambda *of, **more: replace(begin(*of, **more), interruption_ms=4000.0)
    bench.run(pipeline)  # has a result, so that none is coasted
    assert run_late_while_another_waits(bench, pipeline, pipeline, fits_alone) is ended


def test_late_work_is_left_when_another_task_waits(bench):
    pipeline, other = bench.build(OnePath()), bench.build(network=Network())
    assert not run_late_while_another_waits(bench, pipeline, other, False)
    assert bench.mailbox.take(0)[0] is other


def test_a_frame_run_past_its_deadline_is_answered_in_time_counted_and_renews_the_tracks(
    bench, monkeypatch
):
    monkeypatch.setattr(pipeline_module, 'MAX_COASTED', 0)
    pipeline = bench.build()
    bench.start()
    for count in (1, 2):
        frame, bench.network.gate = arrive(), threading.Event()
        pipeline.arrive(frame)
        wait(lambda: len(bench.network.begun) == count)  # its own time is set by then
        bench.let_time_be_up(frame)
        bench.network.gate.set()
        wait(lambda: pipeline.late_results == count)
    assert bench.outcomes == [Outcome.COASTED] * 2
    assert bench.counts == [0, 1]
    wait(lambda: bench.times.promised_frames == bench.times.late_frames == 2)


@pytest.mark.parametrize('state', ['stopped', 'closing'])
def test_no_image_is_taken_once_it_stops_or_is_to(bench, state):
    pipeline = bench.build()
    setattr(pipeline, state, True)
    pipeline.arrive(arrive())
    assert bench.mailbox.take(0) is None and pipeline.wants_image


def test_scene_and_tracks_learn_each_result_once(bench):
    pipeline, seen, followed = bench.build(), [], []
    scene = SimpleNamespace(update=lambda *what: seen.append(what))
    pipeline._task = replace(pipeline._task, scene=scene)
    update = pipeline._fallback.update
    pipeline._fallback.update = lambda *what: followed.append(what[0]) or update(*what)
    bench.run(pipeline)
    assert seen == [(FOUND, IMAGE.shape[:2])] and followed == [FOUND]


def test_the_late_policy_publishes_a_late_result_as_late(bench, monkeypatch):
    monkeypatch.setattr(pipeline_module, 'LATE_GRACE_MS', 10_000.0)  # the machine may be busy
    monkeypatch.setattr(job_module, 'HANGING_PUBLICATION_MS', 10_000.0)
    pipeline = bench.build(late_policy=LatePolicy.LATE)
    bench.budget_ms = 0.0
    bench.run(pipeline)
    assert bench.outcomes == [Outcome.LATE] and not bench.records[0].deadline_met
    assert bench.published == [FOUND]


def test_an_error_of_the_network_is_published_as_degraded_and_the_next_frame_runs(bench):
    pipeline = bench.build(min_score=0.5)
    bench.network.found = Detections([[1, 1, 9, 9], [5, 5, 20, 20]], [0.8, 0.3], [0, 0])
    for run in (bench.run, bench.run_failing, bench.run):
        run(pipeline)
    assert bench.outcomes == [Outcome.DETECTED, Outcome.COASTED, Outcome.DETECTED]
    assert bench.counts == [1, 1, 1]  # what is below the lowest score is not coasted either
    assert 'gone' in bench.records[1].reasons[0]
    assert [str(error) for error in bench.failures] == ['gone']


@pytest.mark.parametrize('segment_ms, misses', [(0.1, 0), (40_000.0, 1)])
def test_an_aborted_frame_misses_its_bound_where_the_rest_exceeds_it(bench, segment_ms, misses):
    policy = OnePath(forecast_ms=1.0)
    policy.keeps_bounds = False  # it promises nothing, so that the frame being late is no miss
    policy.forecast_ms = lambda path, segment=0: 1000.0 - 1000.0 * segment / len(SPACE.segments)
    waits = {'waiting_others': lambda task: 1}  # once it runs, so that what is too late is aborted
    decided = Choice(PATH, 1e9, 1e9, False, 0.5)
    policy.redecide = lambda *left: vars(bench.mailbox).update(waits) or decided
    bench.network.segment_ms = segment_ms
    bench.run(bench.build(policy), arrive())
    (record,) = bench.records
    assert 'no time for' in record.reason
    assert 0 < record.segment < len(SPACE.segments)
    calibrator = bench.times.calibrator
    assert calibrator.misses == calibrator.frames == misses


@pytest.mark.parametrize('slow', ['publish', 'decide'])
def test_what_the_node_takes_beyond_its_reserve_counts_for_the_bound(bench, clock, slow):
    policy = OnePath(400.0)
    plan, pauses_ms = policy.plan, [0.0]

    def pause(what):
        clock.ms += pauses_ms[-1] if what == slow else 0.0

    policy.plan = lambda *given: (pause('decide'), plan(*given))[1]
    bench.hear = lambda arrival, found: pause('publish')
    pipeline = bench.build(policy)
    for pause_ms, misses in ((0.0, 0), (450.0, 1)):
        pauses_ms.append(pause_ms)
        bench.run(pipeline)
        assert bench.times.calibrator.exceeded_in_time == misses
    assert all(record.deadline_met for record in bench.records)


@pytest.mark.parametrize('segment_ms', [math.nan, -5.0, math.inf])
def test_a_clock_that_jumps_is_told_and_teaches_the_bounds_nothing(bench, segment_ms):
    pipeline = bench.build()
    for bench.network.segment_ms in (segment_ms, 0.1):
        bench.run(pipeline)
    assert len(bench.published) == 2
    assert bench.times.calibrator.frames == 1 and 0.0 < bench.times.calibrator.factor < 1.1
    assert 'expected positive, finite numbers' in str(bench.failures[0])
    assert len(bench.failures) == 1


def test_what_belongs_between_two_frames_is_done_after_each_although_the_next_image_waits(bench):
    pipeline, done = bench.build(), []

    def between(runner):
        done.append(len(bench.records))
        if len(done) == 5:
            bench.mailbox.close()

    bench.convert = lambda arrival: pipeline.arrive(arrive()) or IMAGE  # overload: one waits
    pipeline.arrive(arrive())
    serve(bench.mailbox, bench.failures.append, between)
    assert done == [1, 2, 3, 4, 5]


@pytest.mark.parametrize('spares', [True, False])
def test_images_of_other_cameras_that_wait_get_as_much_of_the_time(bench, clock, spares):
    policy = OnePath()
    first, *others = [bench.build(policy, spare_next_image=spares) for _ in range(3)]
    bench.budget_ms = 24_000.0
    for other in others:
        other.arrive(arrive_at(clock))
    bench.budget_ms = 12_000.0
    bench.run(first, arrive_at(clock))
    for _ in others:
        bench.answer_next()
    assert policy.asked_ms == pytest.approx([3_600.0, 10_800.0, 24_000.0], rel=0.1)
