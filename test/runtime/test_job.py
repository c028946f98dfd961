"""One image before its answer: who claims it and when again, and what its record says, by hand."""

import math

import pytest
from invented_networks import CLASSIFIER

from deadline_perception.decision.policy import Choice
from deadline_perception.runtime.job import (
    HANGING_PUBLICATION_MS,
    Conditions,
    Job,
    Outcome,
    StampReading,
)
from deadline_perception.timing.path_bound import SegmentForecast
from deadline_perception.timing.time_model import FrameTimes

FORECAST = SegmentForecast(
    CLASSIFIER,
    {'input': 4.0}
    | {CLASSIFIER.key(1, path): 6.0 if path == CLASSIFIER.largest else 1.0 for path in CLASSIFIER},
)


@pytest.fixture
def job():
    """Captured at 1,000 ms, arrived at 1,030, due at 1,200, the watchdog's at 1,180; two were dropped before."""
    job = Job('message', 1030.0, StampReading(30.0, '', 7_000_000_000), 2)
    job.conditions, job.deadline_ms, job.fallback_ms = (
        Conditions(200.0, 1.5, 'made up'),
        1200.0,
        1180.0,
    )
    job.phases = CLASSIFIER.phases
    return job


def run(job, path=CLASSIFIER.largest, result='found'):
    """Taken at 1,050 ms, planned at 1,055; its network ended at 1,087, after 30 ms in segments."""
    job.taken_ms, job.begun_ms, job.ended_ms = 1050.0, 1055.0, 1087.0
    job.times, job.path, job.result = FrameTimes(FORECAST, 1.5, 1.5 * 1.2), path, result
    job.leave('pre', 10.0)
    job.leave('body', 20.0)


def test_the_first_claim_is_the_answer_and_later_ones_come_when_it_hangs_at_twice_the_distance(job):
    assert job.claim(1100.0) and job.claimed_ms == 1100.0
    assert job.fallback_ms == 1200.0  # the deadline, which is later than what an answer may take
    assert not job.claim(1210.0)
    assert (job.claimed_ms, job.fallback_ms) == (1200.0, 1210.0 + 2 * HANGING_PUBLICATION_MS)
    assert not job.claim(1250.0)
    assert job.fallback_ms == 1250.0 + 4 * HANGING_PUBLICATION_MS and job.attempts == 3


def test_an_answer_of_the_watchdog_began_when_it_should_have(job):
    assert job.claim(1195.0) and job.claimed_ms == 1180.0


def test_the_record_splits_its_time(job):
    run(job)
    job.evidence_s = 6.9
    record = job.record(Outcome.DETECTED, 1090.0)
    assert record.queue_ms == 20.0
    assert record.convert_ms == 5.0
    assert record.decision_ms == 2.0
    assert record.publish_ms == 3.0
    assert (record.network_ms, record.phase_ms) == (30.0, {'pre': 10.0, 'body': 20.0})
    assert (record.superseded, record.failure, record.outcome) == (2, '', Outcome.DETECTED)
    assert (record.forecast_ms, record.bound_ms) == (10.0, pytest.approx(18.0))
    assert record.evidence_age_ms == pytest.approx(100.0)
    assert record.total_ms == pytest.approx(90.0) and record.deadline_met and record.is_in_time


def test_the_bound_of_a_shorter_path_than_planned_is_that_of_the_plan_less_what_was_skipped(job):
    run(job, CLASSIFIER.smallest)
    job.plan = Choice(CLASSIFIER.largest, 10.0, 18.0, True, 0.5)
    record = job.record(Outcome.DETECTED, 1090.0)
    assert record.bound_ms == pytest.approx(18.0 - 7.5)  # 5 ms at a slowdown of 1.5
    assert record.network_ms / record.forecast_ms == pytest.approx((30.0 + 7.5) / 10.0)


@pytest.mark.parametrize(
    'stamp, captured_ms, motion_s',
    [
        (StampReading(40.0, '', 7_000_000_000), 4960.0, 7.0),
        (StampReading(math.nan, 'stamp is zero', 0), 5000.0, 5.0),
    ],
)
def test_objects_move_along_the_stamps_or_else_the_arrivals(stamp, captured_ms, motion_s):
    job = Job(None, 5000.0, stamp)
    assert (job.captured_ms, job.motion_s) == (captured_ms, motion_s)
