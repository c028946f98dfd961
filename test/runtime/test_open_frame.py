"""One image before its answer: who claims it and when again, and what its record says, by hand."""
from __future__ import annotations

import math

import pytest
from invented_networks import CLASSIFIER

from deadline_perception.latency.path_bound import SegmentForecast
from deadline_perception.latency.time_model import FrameTimes
from deadline_perception.runtime.frame_record import Arrival, Conditions
from deadline_perception.runtime.image_age import StampReading
from deadline_perception.runtime.open_frame import HANGING_PUBLICATION_MS, OpenFrame
from deadline_perception.runtime.timed_frame import TimedFrame
from deadline_perception.runtime.tracks import Outcome

FORECAST = SegmentForecast(CLASSIFIER, {'input': 4.0} | {CLASSIFIER.key(1, path): 6.0 for path in CLASSIFIER})


@pytest.fixture
def frame():
    """Captured at 1,000 ms, arrived at 1,030, due at 1,200, the watchdog's at 1,180; two were left out before."""
    arrival = Arrival('message', 1030.0, StampReading(30.0, '', 7_000_000_000), 2)
    return OpenFrame(arrival, Conditions(200.0, 1.5, 'made up'), 1200.0, 1180.0, CLASSIFIER.phases)


def ran(path=CLASSIFIER.largest, result='found') -> TimedFrame:
    return TimedFrame(None, path, 100.0, 1.5, 0.0, (), {'pre': 10.0, 'body': 20.0}, 32.0, result, '', 2)


def test_the_first_claim_is_the_answer_and_later_ones_come_when_it_hangs_at_twice_the_distance(frame):
    assert frame.claim(1100.0) and frame.claimed_ms == 1100.0
    assert frame.stand_in_ms == 1200.0  # the deadline, which is later than what an answer may take
    assert not frame.claim(1210.0)
    assert (frame.claimed_ms, frame.stand_in_ms) == (1200.0, 1210.0 + 2 * HANGING_PUBLICATION_MS)
    assert not frame.claim(1250.0)
    assert frame.stand_in_ms == 1250.0 + 4 * HANGING_PUBLICATION_MS and frame.attempts == 3


def test_an_answer_of_the_watchdog_began_when_it_should_have(frame):
    assert frame.claim(1195.0) and frame.claimed_ms == 1180.0


def test_the_record_of_a_frame_splits_its_time(frame):
    frame.taken_ms, frame.times, frame.evidence_s = 1050.0, FrameTimes(FORECAST, 1.5, 1.5 * 1.2), 6.9
    frame.progress.begun_ms = 1055.0
    record = frame.record(Outcome.DETECTED, ran(), '', 1090.0)
    assert (record.queue_ms, record.convert_ms, record.publish_ms) == (20.0, 5.0, 1090.0 - 1055.0 - 32.0)
    assert (record.replaced, record.failure) == (2, '')
    assert (record.forecast_ms, record.bound_ms) == (10.0, pytest.approx(18.0))
    assert record.evidence_age_ms == pytest.approx(100.0) and record.outcome is Outcome.DETECTED


def test_the_record_of_a_frame_that_nobody_took_has_waited_all_the_time(frame):
    record = frame.record(Outcome.COASTED, ran(path=None, result=None), 'it hung', 1185.0)
    assert (record.queue_ms, record.convert_ms, record.publish_ms) == (155.0, 0.0, 0.0)
    assert math.isnan(record.forecast_ms) and math.isnan(record.evidence_age_ms) and record.failure == 'it hung'
