from __future__ import annotations

import math

import pytest
from sensor_msgs.msg import Image

from deadline_perception.runtime.image_age import StampReading
from deadline_perception.runtime.tracks import Outcome
from deadline_perception.decision.policy import Choice
from deadline_perception.runtime.timed_frame import Decision, FrameProgress
from deadline_perception.execution_path import ExecutionPath, Phase
from deadline_perception.msg import FrameLatency, OperatorDecision
from deadline_perception.nodes.frame_messages import frame_latency, operator_decision, path_decision
from deadline_perception.runtime.pipeline import Arrival, Conditions, FrameRecord

PLANNED = ExecutionPath((False, True), 0.5, 100, 2, 0.5)
RAN = ExecutionPath((False, True), 0.5, 50, 1, 0.5)


def frame(progress, outcome=Outcome.DETECTED, reasons=(), age_ms=4.0, idle_forecast_ms=32.0):
    image = Image()
    image.header.frame_id = 'camera'
    conditions = Conditions(120.0, 1.25, 'probe', reasons)
    return FrameRecord(Arrival(image, 100.0, StampReading(age_ms, '')), conditions, outcome, progress.look(160.0),
                       2.0, 3.0, 5.0, 1.2, 7, '', idle_forecast_ms)


def test_the_message_names_the_outcomes_as_they_are_named_elsewhere():
    assert {outcome.name: outcome.value for outcome in Outcome} == {
        name: getattr(FrameLatency, name) for name in ('DETECTED', 'COASTED', 'LATE')}


def ran(feasible=True):
    progress = FrameProgress()
    progress.begun_ms, progress.ended_ms, progress.slowdown = 105.0, 150.0, 1.25
    progress.plan, progress.path = Choice(PLANNED, 40.0, 60.0, feasible, 0.3), RAN
    progress.remaining_ms, progress.decision_us = 90.0, 15.0
    for phase, took_ms in ((Phase.PRE, 1.0), (Phase.CONV, 20.0), (Phase.RPN, 8.0), (Phase.HEAD, 12.0),
                           (Phase.POST, 2.0)):
        progress.leave(phase, took_ms)
    progress.decide(Decision('head', '1', True, 30.0, 25.0, 12.0))
    return progress


def test_the_latency_adds_up():
    message = frame_latency(frame(ran()), device='cpu', replaced_total=9, rejected_total=1, lost_total=2)
    assert message.network_ms == pytest.approx(43.0)
    assert message.decision_ms == pytest.approx(2.0)
    assert message.overhead_ms == pytest.approx(2.0 + 3.0 + 2.0 + 5.0)
    assert message.total_ms == pytest.approx(4.0 + 12.0 + 43.0)
    assert message.header.frame_id == 'camera'
    assert (message.path, message.outcome) == (str(RAN), FrameLatency.DETECTED)
    assert (message.forecast_ms, message.idle_forecast_ms, message.bound_ms) == (50.0, 32.0, 60.0)
    assert message.deadline_met
    assert not message.degraded
    assert (message.replaced_frames, message.replaced_frames_total, message.rejected_frames_total,
            message.middleware_lost_total) == (7, 9, 1, 2)


def test_the_decision_names_plan_path_and_reason():
    message = path_decision(frame(ran()), policy='frontier', target_miss_probability=0.01)
    assert (message.planned_path, message.path) == (str(PLANNED), str(RAN))
    assert list(message.skip) == [False, True]
    assert (message.width, message.pyramid_width, message.proposals, message.head) == (0.5, 0.5, 50, 1)
    assert (message.remaining_ms, message.slowdown, message.forecast_ms) == (90.0, 1.25, 50.0)
    assert message.reason == 'bound 60.0 ms fits 90.0 ms left; changed on the way: head'
    assert [operator.name for operator in message.operators] == ['head']


def test_an_infeasible_frame_says_so():
    message = path_decision(frame(ran(feasible=False)), policy='frontier', target_miss_probability=0.01)
    assert 'not even the cheapest path' in message.reason
    assert not message.feasible


def test_a_frame_without_a_plan_has_no_path_and_no_times():
    record = frame(FrameProgress(), Outcome.COASTED, reasons=('budget is stale',), age_ms=math.nan)
    latency = frame_latency(record, device='cpu', replaced_total=0, rejected_total=0, lost_total=0)
    decision = path_decision(record, policy='frontier', target_miss_probability=0.01)
    assert latency.path == decision.path == ''
    assert math.isnan(latency.total_ms)
    assert math.isnan(latency.bound_ms)
    assert latency.degraded
    assert latency.reason == decision.reason == 'budget is stale'


@pytest.mark.parametrize('name, kind', [
    ('skip3', OperatorDecision.SKIP), ('head', OperatorDecision.SWITCH), ('width', OperatorDecision.WIDTH),
    ('pyramid_width', OperatorDecision.WIDTH), ('proposals', OperatorDecision.PROPOSALS)])
def test_operators_have_their_kind(name, kind):
    assert operator_decision(Decision(name, 'x', False, 1.0, 1.0, 1.0)).kind == kind
