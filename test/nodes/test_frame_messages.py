import math

import pytest
from deadline_perception.msg import FrameLatency
from path_spaces import BOTH, space_of
from sensor_msgs.msg import Image

from deadline_perception.core.detections import Classification
from deadline_perception.decision.policy import Choice
from deadline_perception.nodes.frame_messages import ClassesMessage, frame_latency, path_decision
from deadline_perception.runtime.job import Conditions, Decision, Job, Outcome, StampReading
from deadline_perception.timing.time_model import FrameTimes

SPACE = space_of(1, 1, widths=BOTH, pyramid_widths=BOTH, proposals=(50, 100), heads=3)
PLANNED = SPACE.largest.replace(skip1='skip', width=0.5, pyramid_width=0.5)
RAN = PLANNED.replace(proposals=50, head='1')
PHASES_MS = [('pre', 1.0), ('conv', 20.0), ('rpn', 8.0), ('head', 12.0), ('post', 2.0)]


class EvenForecast:
    """40 ms for the plan, 32 for any other path."""

    def forecast_ms(self, path, segment=0):
        return 40.0 if path == PLANNED else 32.0


def job(reasons=(), age_ms=4.0):
    """Arrived at 100 ms, taken at 102, planned at 105."""
    image = Image()
    image.header.frame_id = 'camera'
    job = Job(image, 100.0, StampReading(age_ms, ''), 7)
    job.conditions, job.phases = Conditions(120.0, 1.25, 'probe', reasons), SPACE.phases
    job.taken_ms, job.begun_ms, job.evidence_s = 102.0, 105.0, job.motion_s
    return job


def recorded(job, outcome=Outcome.DETECTED):
    """Published at 155 ms."""
    return job.record(outcome, 155.0)


def test_the_message_names_the_outcomes_as_they_are_named_elsewhere():
    assert {outcome.name: outcome.value for outcome in Outcome if outcome >= 0} == {
        name: getattr(FrameLatency, name) for name in ('DETECTED', 'COASTED', 'LATE')
    }


def ran(feasible=True, bound_ms=60.0):
    """Its network ended at 150 ms."""
    planned = job()
    planned.times, planned.result = FrameTimes(EvenForecast(), 1.25, 1.5), 'found'
    planned.plan, planned.path = Choice(PLANNED, 40.0, bound_ms, feasible, 0.3), RAN
    planned.ended_ms = 150.0
    planned.remaining_ms, planned.decision_us = 90.0, 15.0
    for phase, took_ms in PHASES_MS:
        planned.leave(phase, took_ms)
    planned.decisions.append(Decision('head', 8, 20.0, 1.0, True, 30.0, 24.0, 25.0, 12.0))
    return planned


def test_the_latency_adds_up_and_its_bound_is_that_of_the_path_that_ran():
    totals = {'replaced_total': 9, 'rejected_total': 1, 'lost_total': 2}
    message = frame_latency(recorded(ran()), device='cpu', **totals)
    assert [(phase.name, phase.ms) for phase in message.phases] == PHASES_MS
    assert message.network_ms == pytest.approx(43.0)
    assert message.decision_ms == pytest.approx(2.0)
    assert (message.queue_ms, message.convert_ms, message.publish_ms) == (2.0, 3.0, 5.0)
    assert message.overhead_ms == pytest.approx(2.0 + 3.0 + 2.0 + 5.0)
    assert message.total_ms == pytest.approx(4.0 + 12.0 + 43.0)
    assert message.header.frame_id == 'camera'
    assert (message.path, message.outcome) == (str(RAN), FrameLatency.DETECTED)
    assert (message.forecast_ms, message.evidence_age_ms) == (50.0, 0.0)
    # 10 ms of the plan were skipped
    assert message.idle_forecast_ms == pytest.approx(43.0 / (43.0 + 10.0) * 40.0)
    assert message.bound_ms == pytest.approx(40.0 * 1.5 - 10.0)
    assert message.deadline_met and not message.degraded
    assert (message.replaced_frames, message.replaced_frames_total) == (7, 9)
    assert (message.rejected_frames_total, message.middleware_lost_total) == (1, 2)


def test_the_decision_names_plan_path_reason_and_every_operator_with_its_setting():
    message = path_decision(recorded(ran()), policy='frontier', target_miss_probability=0.01)
    assert (message.planned_path, message.path) == (str(PLANNED), str(RAN))
    assert (message.remaining_ms, message.slowdown) == (90.0, 1.25)
    assert (message.forecast_ms, message.bound_ms) == (50.0, 60.0)
    assert message.reason.startswith('bound 60.0 ms fits 90.0 ms left, no promise yet; changed')
    assert ', '.join(
        f'{one.name} {one.kind} {one.setting} {one.level} {one.levels}' for one in message.operators
    ) == (
        'width width 0.50 0 2, skip0 skip run 1 2, skip1 skip skip 0 2, '
        'pyramid_width width 0.50 0 2, proposals proposals 50 0 2, head switch 1 1 3'
    )
    *planned, head = message.operators
    assert not any(operator.decided or operator.changed for operator in planned)
    assert all(math.isnan(operator.bound_ms) for operator in planned)
    assert head.decided and head.changed
    assert (head.remaining_ms, head.bound_ms, head.decision_us) == (30.0, 25.0, 12.0)


def test_a_plan_that_does_not_fit_or_took_longer_is_not_said_to_fit():
    late = path_decision(recorded(ran(), Outcome.COASTED), policy='', target_miss_probability=0.01)
    assert late.reason.startswith('time was up, although bound 60.0 ms fits 90.0 ms left')
    for plan, reason in (
        ({'feasible': False}, 'not even the cheapest path fits'),
        ({'bound_ms': 95.0}, 'bound 95.0 ms is ignored by this policy, with 90.0 ms left'),
    ):
        record = recorded(ran(**plan))
        message = path_decision(record, policy='oblivious', target_miss_probability=0.01)
        assert message.reason.startswith(reason) and message.feasible == plan.get('feasible', True)


def test_a_frame_without_a_plan_has_no_path_and_no_times():
    record = recorded(job(reasons=('budget is stale',), age_ms=math.nan), Outcome.COASTED)
    latency = frame_latency(record, device='cpu', replaced_total=0, rejected_total=0, lost_total=0)
    decision = path_decision(record, policy='frontier', target_miss_probability=0.01)
    assert latency.path == decision.path == ''
    assert decision.operators == [] and latency.degraded
    assert math.isnan(latency.total_ms) and math.isnan(latency.bound_ms)
    assert latency.reason == decision.reason == 'budget is stale'


def test_scores_of_classes_are_published_by_name_most_certain_first():
    header = Image().header
    header.frame_id = 'camera'
    message = ClassesMessage(('bus', 'tram', 'car')).fill(Classification([0.25, 0.0, 0.75]), header)
    assert message.header.frame_id == 'camera'
    assert [(one.class_id, one.score) for one in message.results] == [('car', 0.75), ('bus', 0.25)]
