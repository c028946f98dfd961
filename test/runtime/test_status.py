import math
from dataclasses import replace
from types import SimpleNamespace

from invented_networks import CLASSIFIER

from deadline_perception.core.stopwatch import now_ms
from deadline_perception.runtime import status as status_module
from deadline_perception.runtime.job import Conditions, Job, Outcome, StampReading
from deadline_perception.runtime.status import DetectorStatus, hanging, miss_cause


def record(outcome=Outcome.DETECTED, budget_ms=100.0, reasons=(), replaced=0):
    job = Job(SimpleNamespace(), 0.0, StampReading(math.nan, ''))
    job.conditions, job.superseded = Conditions(budget_ms, 1.5, 'probe', reasons), replaced
    job.taken_ms, job.begun_ms, job.ended_ms = 1.0, 3.0, 3.0
    return job.record(outcome, 6.0)


def test_counts_frames_replacements_and_misses_and_how_many_came_in_a_row():
    status = DetectorStatus()
    assert status.deadline_miss_ratio == 0.0
    for replaced in (2, 1):
        status.note(record(budget_ms=5.0, replaced=replaced))
    assert status.concerns() == ('2 deadlines missed in a row',)
    assert float(status.values()['consecutive_processing_delay_ms']) >= 0.0
    status.note(record())
    assert status.concerns() == ()
    assert status.values()['consecutive_processing_delay_ms'] == '0'
    status.note(record(Outcome.COASTED))
    assert (status.frames, status.replaced, status.deadline_miss_ratio) == (4, 3, 0.75)


def test_frames_that_were_held_at_the_end_are_in_the_totals():
    status = DetectorStatus()
    status.note(record())
    status.reject('too small')
    # One was answered, one rejected, and two were held.
    status.halt(SimpleNamespace(arrived=6, replaced=2))
    values = status.values()
    assert (values['frames'], values['replaced_frames']) == ('1', '2')
    assert values['unanswered_frames'] == '2'


def test_rejections_are_counted_and_the_last_is_a_concern_for_some_seconds():
    status = DetectorStatus()
    for cause in 'too small', 'too large':
        status.reject(cause)
    values = status.values()
    assert (values['rejected_frames'], values['last_rejection']) == ('2', 'too large')
    assert status.concerns() == ('2 images rejected, the last: too large',)
    status.rejected_ms -= status_module.TOLD_MS
    assert status.concerns() == ()


def test_failures_and_a_network_that_does_not_answer_are_concerns_for_some_seconds():
    status = DetectorStatus()
    assert status.concerns() == ()
    status.fail(RuntimeError('no connection'))
    assert status.concerns() == ('1 failures, the last: RuntimeError: no connection',)
    status.failed_ms -= 5001.0
    assert status.concerns() == () and status.values()['failures'] == '1'
    assert not hanging(None) and not hanging(now_ms() - 10.0)
    assert 'has not answered' in hanging(now_ms() - 60_000.0)


def test_counts_misses_by_cause_and_tells_the_last():
    status = DetectorStatus()
    planned = SimpleNamespace(feasible=True, path=CLASSIFIER.largest, bound_ms=80.0)
    late = record(budget_ms=5.0)
    for one in (
        late,
        replace(late, failure='the network broke'),
        replace(late, plan=SimpleNamespace(feasible=False, path=None, bound_ms=80.0)),
        replace(late, plan=planned, network_ms=90.0, bound_ms=80.0),
        replace(late, plan=planned, network_ms=1.0, bound_ms=80.0, outcome=Outcome.COASTED),
    ):
        assert miss_cause(one)
        status.note(one)
    values = status.values()
    assert {key for key in values if key.startswith('misses: ')} == {
        'misses: waited for the frame before',
        'misses: failure',
        'misses: budget too short',
        'misses: bound exceeded',
        'misses: aborted, the rest no longer fitted',
    }
    assert 'last_miss' in values


def test_warns_of_bounds_far_above_what_frames_take_once_enough_have_told():
    status = DetectorStatus()
    loose = replace(record(), network_ms=10.0, bound_ms=62.0)
    for _ in range(29):
        status.note(loose)
    assert status.concerns() == ()
    status.note(loose)
    (concern,) = status.concerns()
    assert 'bounds are 6.2 times what frames take' in concern and 'profile' in concern
    assert status.values()['bound_over_network'] == '6.20'
    tight = replace(loose, bound_ms=12.0)
    for _ in range(200):
        status.note(tight)
    assert status.concerns() == ()
