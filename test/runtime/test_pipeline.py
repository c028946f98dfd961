from __future__ import annotations

import math
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from deadline_perception.runtime.image_age import StampReading
from deadline_perception.runtime.tracks import LatePolicy, Outcome
from deadline_perception.runtime.reserve import Reserve
from deadline_perception.runtime.timed_frame import TimedInference
from deadline_perception.detector.detections import Detections
from deadline_perception.execution_path import ExecutionPath, PathSpace
from deadline_perception.latency.calibration import BoundCalibrator
from deadline_perception.latency.stopwatch import now_ms
from deadline_perception.runtime.pipeline import Arrival, Conditions, FramePipeline, Watchdog

SPACE = PathSpace(skips_per_stage=(1,), widths=(1.0,), pyramid_widths=(1.0,), proposals=(10,), heads=1)
PATH = ExecutionPath((False,), 1.0, 10, 0)
IMAGE = np.zeros((40, 60, 3), dtype=np.uint8)
FOUND = Detections([[1, 1, 9, 9]], [0.8], [0])
WAIT_S = 20.0


class Network:
    """Finds one object; waits, where told to, for an event before it goes on."""

    def __init__(self):
        self.gate = None
        self.head_gate = None
        self.proposals = [[0, 0, 1, 1]]
        self.error = None
        self.found = FOUND
        self.slot_ms = 0.1

    def start(self, image, path):
        return Run(self, path)


class Run:
    def __init__(self, network, path):
        self.network, self.path, self.slot = network, path, 0

    @property
    def finished(self):
        return self.slot == len(SPACE.slots)

    def redirect(self, path):
        self.path = path

    def run_segment(self):
        if self.network.error is not None:
            raise self.network.error
        if self.slot == 1 and self.network.gate is not None:
            assert self.network.gate.wait(WAIT_S)
        if SPACE.slots[self.slot].operator == 'head' and self.network.head_gate is not None:
            assert self.network.head_gate.wait(WAIT_S)
        self.slot += 1
        return self.network.slot_ms

    def proposals(self):
        return np.array(self.network.proposals, np.float32)

    def detections(self):
        return self.network.found


class OnePath:
    name = 'one'

    def __init__(self, forecast_ms=0.01):
        self.cost_ms = forecast_ms

    def forecast_ms(self, path, slot=0):
        return self.cost_ms

    def plan(self, remaining_ms, factor):
        return SimpleNamespace(path=PATH, forecast_ms=self.cost_ms, bound_ms=self.cost_ms * factor,
                               feasible=self.cost_ms * factor <= remaining_ms, quality=0.5)

    def redecide(self, path, slot, remaining_ms, factor):
        return self.plan(remaining_ms, factor)

    def observe(self, latency_ms, remaining_ms):
        pass


@pytest.fixture
def bench():
    """A pipeline with its inputs and outputs as attributes."""
    bench = SimpleNamespace(budget_ms=10_000.0, network=Network(), published=[], records=[], failures=[],
                            image=IMAGE, calibrator=BoundCalibrator(0.01, 0.05, math.log(8)), pipelines=[])

    def build(policy=None, keeps_proposals=False, **settings):
        policy = policy or OnePath()
        pipeline = FramePipeline(
            inference=TimedInference(bench.network, SPACE, policy, keeps_proposals=keeps_proposals), forecast=policy, calibrator=bench.calibrator,
            reserve=Reserve(0.0), conditions=lambda: Conditions(bench.budget_ms, 1.0, 'test'),
            convert=lambda arrival: bench.convert(arrival),
            publish=lambda arrival, found: bench.published.append(found), publish_record=bench.records.append,
            failed=bench.failures.append, **settings)
        bench.pipelines.append(pipeline)
        return pipeline

    bench.build = build
    bench.convert = lambda arrival: bench.image
    yield bench
    for pipeline in bench.pipelines:
        pipeline.stop()


def arrive(age_ms=1.0, reason='', stamp_ns=0):
    return Arrival(SimpleNamespace(), now_ms(), StampReading(age_ms, reason, stamp_ns))


def wait_until(condition):
    until = time.monotonic() + WAIT_S
    while not condition() and time.monotonic() < until:
        time.sleep(0.005)
    assert condition()


def box_at(x):
    return Detections([[x, 1, x + 20, 21]], [0.8], [0])


def test_a_frame_gives_one_message_of_each_kind_and_its_times_add_up(bench):
    bench.build().process(arrive(age_ms=5.0), 3)
    (record,) = bench.records
    assert bench.published == [FOUND]
    assert record.outcome is Outcome.DETECTED
    assert record.deadline_met
    assert record.replaced == 3
    assert record.total_ms == pytest.approx(5.0 + record.overhead_ms + record.frame.network_ms)
    parts = (record.queue_ms, record.convert_ms, record.frame.decision_ms, record.frame.network_ms, record.publish_ms)
    assert record.elapsed_ms == pytest.approx(sum(parts))
    assert min(parts) >= 0.0
    assert record.idle_forecast_ms == 0.01
    assert bench.calibrator.frames == 1


def test_a_rejected_image_gives_no_message_and_its_replaced_frames_are_counted_with_the_next(bench):
    pipeline = bench.build()
    bench.image = None
    pipeline.process(arrive(), 2)
    assert bench.records == []
    bench.image = IMAGE
    pipeline.process(arrive(), 1)
    assert bench.records[0].replaced == 3


def test_the_watchdog_publishes_while_the_network_hangs_and_its_result_is_not_published_again(bench):
    pipeline = bench.build()
    pipeline.process(arrive(), 0)
    bench.network.gate, bench.budget_ms = threading.Event(), 50.0
    worker = threading.Thread(target=pipeline.process, args=(arrive(), 0), daemon=True)
    worker.start()
    wait_until(lambda: len(bench.records) == 2)
    carried = bench.records[1]
    assert carried.outcome is Outcome.COASTED
    assert worker.is_alive()
    assert carried.frame.network_ms > 0.0
    assert len(bench.published[1]) == 1
    assert bench.published[1].scores[0] < FOUND.scores[0]
    bench.network.gate.set()
    worker.join(WAIT_S)
    assert not worker.is_alive()
    assert len(bench.records) == len(bench.published) == 2


def test_a_stopped_pipeline_gives_up_the_frame_that_the_network_still_holds(bench):
    pipeline = bench.build()
    bench.network.gate = threading.Event()
    worker = threading.Thread(target=pipeline.process, args=(arrive(), 0), daemon=True)
    worker.start()
    pipeline.stop()
    bench.network.gate.set()
    worker.join(WAIT_S)
    assert not worker.is_alive()
    assert bench.records == bench.published == []


def test_a_frame_that_cannot_be_in_time_carries_the_previous_detections_over_but_not_for_ever(bench):
    pipeline = bench.build(OnePath(forecast_ms=1e6), max_coasted=2)
    for _ in range(4):
        pipeline.process(arrive(), 0)
    assert [record.outcome for record in bench.records] == [
        Outcome.COASTED, Outcome.COASTED, Outcome.DETECTED, Outcome.COASTED]
    assert not any(record.frame.plan.feasible for record in bench.records)
    assert len(bench.published[3]) == 1


def test_the_late_policy_publishes_a_late_result_as_late(bench):
    pipeline = bench.build(late_policy=LatePolicy.LATE)
    bench.budget_ms = 0.0
    pipeline.process(arrive(), 0)
    (record,) = bench.records
    assert record.outcome is Outcome.LATE
    assert not record.deadline_met
    assert bench.published == [FOUND]


def test_the_partial_policy_draws_what_is_coasted_to_the_regions_of_the_image(bench):
    pipeline = bench.build(keeps_proposals=True, late_policy=LatePolicy.PARTIAL)
    bench.network.found = box_at(10.0)
    pipeline.process(arrive(), 0)
    bench.network.proposals, bench.network.head_gate, bench.budget_ms = [[14, 1, 34, 21]], threading.Event(), 50.0
    worker = threading.Thread(target=pipeline.process, args=(arrive(), 0), daemon=True)
    worker.start()
    wait_until(lambda: len(bench.records) == 2)
    bench.network.head_gate.set()
    worker.join(WAIT_S)
    assert [record.outcome for record in bench.records] == [Outcome.DETECTED, Outcome.COASTED]
    assert bench.published[1].boxes_xyxy_px[0, 0] == pytest.approx(12.0, abs=0.5)


def test_the_partial_policy_needs_an_inference_that_keeps_proposals(bench):
    with pytest.raises(ValueError, match='keeps no proposals'):
        bench.build(late_policy=LatePolicy.PARTIAL)


def test_an_error_of_the_network_is_published_as_degraded_and_the_next_frame_runs(bench):
    pipeline = bench.build()
    bench.network.error = RuntimeError('out of memory')
    pipeline.process(arrive(), 0)
    bench.network.error = None
    pipeline.process(arrive(), 0)
    assert [record.outcome for record in bench.records] == [Outcome.COASTED, Outcome.DETECTED]
    assert 'out of memory' in bench.records[0].reasons[0]
    assert [str(error) for error in bench.failures] == ['out of memory']


def test_an_unknown_age_leaves_the_total_unknown_and_counts_the_deadline_from_the_arrival(bench):
    bench.build().process(arrive(math.nan, 'image stamp is zero'), 0)
    (record,) = bench.records
    assert math.isnan(record.total_ms)
    assert record.deadline_met
    assert record.overhead_ms >= 0.0
    assert record.reasons == ('image stamp is zero',)


def test_a_changed_image_size_forgets_objects_of_the_old_one(bench):
    pipeline = bench.build(OnePath(forecast_ms=1e6), max_coasted=1)
    pipeline.process(arrive(), 0)
    pipeline.process(arrive(), 0)
    bench.image = np.zeros((20, 30, 3), dtype=np.uint8)
    pipeline.process(arrive(), 0)
    assert len(bench.published[2]) == 0


def test_objects_move_by_the_stamps_and_not_by_the_time_at_which_a_bag_is_played(bench):
    pipeline = bench.build()
    for step in range(3):  # 2 px in 0.1 s, played as fast as it goes
        bench.network.found = box_at(2.0 * step)
        pipeline.process(arrive(stamp_ns=10 ** 18 + step * 10 ** 8), 0)
    bench.network.error = RuntimeError('gone')
    pipeline.process(arrive(stamp_ns=10 ** 18 + 3 * 10 ** 8), 0)
    assert bench.published[3].boxes_xyxy_px[0] == pytest.approx([6.0, 1.0, 26.0, 21.0], abs=1e-3)


def test_after_a_bag_has_looped_objects_of_its_end_are_not_carried_into_its_begin(bench):
    pipeline = bench.build()
    for stamp_ns in (10 ** 18, 10 ** 18 + 10 ** 8):
        pipeline.process(arrive(stamp_ns=stamp_ns), 0)
    bench.network.error = RuntimeError('gone')
    pipeline.process(arrive(math.nan, 'image stamp went back by 100 ms', 10 ** 18), 0)
    assert bench.records[2].outcome is Outcome.COASTED
    assert len(bench.published[2]) == 0
    bench.network.error = None
    for step in range(2):
        bench.network.found = box_at(20.0 - 2.0 * step)
        pipeline.process(arrive(stamp_ns=10 ** 18 + (step + 1) * 10 ** 8), 0)
    bench.network.error = RuntimeError('gone')
    pipeline.process(arrive(stamp_ns=10 ** 18 + 3 * 10 ** 8), 0)
    assert bench.published[5].boxes_xyxy_px[0] == pytest.approx([16.0, 1.0, 36.0, 21.0], abs=1e-3)


def test_the_watchdog_publishes_while_an_image_is_converted_and_its_result_is_not_published_again(bench):
    pipeline, gate = bench.build(), threading.Event()
    bench.budget_ms = 20.0
    bench.convert = lambda arrival: bench.image if gate.wait(WAIT_S) else None
    worker = threading.Thread(target=pipeline.process, args=(arrive(), 2), daemon=True)
    worker.start()
    wait_until(lambda: bench.records)
    assert bench.records[0].outcome is Outcome.COASTED
    assert bench.records[0].frame.plan is None
    assert math.isnan(bench.records[0].idle_forecast_ms)
    assert bench.records[0].convert_ms > 0.0
    gate.set()
    worker.join(WAIT_S)
    assert not worker.is_alive()
    assert len(bench.records) == len(bench.published) == 1
    bench.budget_ms = 10_000.0
    pipeline.process(arrive(), 1)
    assert bench.records[1].replaced == 1


@pytest.mark.parametrize(('slot_ms', 'misses'), [(0.1, 0), (40_000.0, 1)])
def test_a_cut_frame_misses_its_bound_only_when_what_it_took_and_the_rest_exceed_it(bench, slot_ms, misses):
    policy = OnePath(forecast_ms=1.0)
    policy.forecast_ms = lambda path, slot=0: 1000.0 - 1000.0 * slot / len(SPACE.slots)
    policy.redecide = lambda path, slot, remaining_ms, factor: SimpleNamespace(
        path=PATH, forecast_ms=1e9, bound_ms=1e9, feasible=False, quality=0.5)
    bench.network.slot_ms = slot_ms
    bench.build(policy).process(arrive(), 0)
    (record,) = bench.records
    assert 'cut before' in record.frame.reason
    assert 0 < record.frame.slot < len(SPACE.slots)
    assert bench.calibrator.certificate().misses == bench.calibrator.certificate().frames == misses


@pytest.mark.parametrize('slow', ['publish', 'decide'])
def test_what_the_node_itself_takes_beyond_what_it_kept_back_counts_as_time_of_the_bound(bench, slow):
    policy, pause_s = OnePath(forecast_ms=400.0), [0.0]
    plan = policy.plan

    def pause(what):
        if what == slow:
            time.sleep(pause_s[0])

    policy.plan = lambda remaining_ms, factor: (pause('decide'), plan(remaining_ms, factor))[1]
    bench.network.slot_ms = 1.0
    pipeline = bench.build(policy)
    bench.published = SimpleNamespace(append=lambda found: pause('publish'))
    for pause_s[0], misses in ((0.0, 0), (0.45, 1)):
        pipeline.process(arrive(), 0)
        assert bench.calibrator.misses == misses
    assert all(record.deadline_met for record in bench.records)


def test_the_watchdog_keeps_back_what_publishing_takes_and_not_what_deciding_takes(bench):
    policy = OnePath(forecast_ms=10.0)
    plan = policy.plan
    policy.plan = lambda remaining_ms, factor: (time.sleep(0.2), plan(remaining_ms, factor))[1]
    pipeline = bench.build(policy)
    pipeline.process(arrive(), 0)
    bench.budget_ms = 1000.0
    policy.plan = plan
    pipeline.process(arrive(age_ms=0.0), 0)
    first, second = bench.records
    assert first.frame.decision_ms >= 200.0
    assert second.frame.remaining_ms <= 1000.0 - 200.0  # the median of all frames so far is kept back for deciding
    assert pipeline._reserve.reserve_ms < 200.0


def test_cut_frames_that_were_slow_keep_the_best_case_from_sinking(bench):
    policy = OnePath(forecast_ms=1.0)
    policy.forecast_ms = lambda path, slot=0: 1.0 - slot / len(SPACE.slots)
    policy.redecide = lambda path, slot, remaining_ms, factor: SimpleNamespace(
        path=PATH, forecast_ms=1e9, bound_ms=1e9, feasible=False, quality=0.5)
    bench.network.slot_ms = 40.0
    pipeline = bench.build(policy)
    before = pipeline._best_case.factor
    pipeline.process(arrive(), 0)
    assert bench.records[0].frame.detections is None
    assert pipeline._best_case.factor > before


def test_a_watchdog_whose_call_raises_reports_it_and_watches_on():
    failures, barked = [], threading.Event()
    watchdog = Watchdog(failures.append)
    watchdog.arm(now_ms() + 1, lambda: 1 / 0)
    wait_until(lambda: failures)
    watchdog.arm(now_ms() + 1, barked.set)
    assert barked.wait(WAIT_S)
    watchdog.stop()
    assert [type(failure) for failure in failures] == [ZeroDivisionError]


def test_a_watchdog_barks_once_when_due_and_not_when_disarmed():
    watchdog, barked = Watchdog(pytest.fail), threading.Event()
    count = []
    watchdog.arm(now_ms() + 60_000, lambda: count.append('never'))
    watchdog.arm(now_ms() + 1, lambda: (count.append('once'), barked.set()))
    assert barked.wait(WAIT_S)
    watchdog.arm(now_ms() + 60_000, lambda: count.append('never'))
    watchdog.disarm()
    watchdog.stop()
    assert count == ['once']


@pytest.mark.parametrize('slot_ms', [math.nan, -5.0, math.inf])
def test_a_clock_that_jumps_is_told_and_teaches_the_bounds_nothing(bench, slot_ms):
    pipeline = bench.build()
    for bench.network.slot_ms in (slot_ms, 0.1):
        pipeline.process(arrive(), 0)
    assert len(bench.published) == 2
    assert bench.calibrator.frames == 1 and 0.0 < bench.calibrator.factor < 1.1
    assert 'expected a positive, finite number' in str(bench.failures[0]) and len(bench.failures) == 1
