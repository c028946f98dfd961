import math

from deadline_perception.runtime.job import HANGING_PUBLICATION_MS, Job, StampReading


def arrived():
    """At 1,030 ms, due at 1,200, the watchdog's at 1,180."""
    job = Job('message', 1030.0, StampReading(30.0, '', 7_000_000_000))
    job.deadline_ms, job.fallback_ms = 1200.0, 1180.0
    return job


def test_the_first_claim_is_the_answer_and_later_ones_come_when_it_hangs_at_twice_the_distance():
    job, of_watchdog = arrived(), arrived()
    assert of_watchdog.claim(1195.0) and of_watchdog.claimed_ms == 1180.0  # as it should have begun
    assert job.claim(1100.0) and job.claimed_ms == 1100.0
    assert job.fallback_ms == 1200.0  # the deadline, which is later than what an answer may take
    assert not job.claim(1210.0)
    assert (job.claimed_ms, job.fallback_ms) == (1200.0, 1210.0 + 2 * HANGING_PUBLICATION_MS)
    assert not job.claim(1250.0)
    assert job.fallback_ms == 1250.0 + 4 * HANGING_PUBLICATION_MS and job.attempts == 3


def test_objects_move_along_the_stamps_or_else_the_arrivals():
    stamped = Job(None, 5000.0, StampReading(40.0, '', 7_000_000_000))
    assert (stamped.captured_ms, stamped.motion_s) == (4960.0, 7.0)
    unstamped = Job(None, 5000.0, StampReading(math.nan, 'stamp is zero', 0))
    assert (unstamped.captured_ms, unstamped.motion_s) == (5000.0, 5.0)
