"""How many images a rate limit lets through."""
from __future__ import annotations

import random

import pytest

from deadline_perception.runtime.rate_limit import RateLimit


def taken(limit, stamps_ms, most_hz):
    return [stamp_ms for stamp_ms in stamps_ms if limit.takes(stamp_ms, most_hz)]


@pytest.mark.parametrize('camera_hz', [7.0, 30.0, 33.0])
@pytest.mark.parametrize('most_hz', [2.0, 10.0, 15.0])
def test_at_most_the_rate_and_not_much_less(camera_hz, most_hz):
    rng = random.Random(0)
    stamps_ms = [1000.0 * number / camera_hz + rng.uniform(-2.0, 2.0) for number in range(1000)]
    rate_hz = (len(taken(RateLimit(), stamps_ms, most_hz)) - 1) / stamps_ms[-1] * 1000.0
    assert 0.98 * min(most_hz, camera_hz) <= rate_hz <= 1.01 * min(most_hz, camera_hz)


def test_no_limit_takes_all_and_counts_nothing():
    limit = RateLimit()
    assert len(taken(limit, range(100), 0.0)) == 100 and limit.left_out == 0


def test_after_a_pause_there_is_no_burst():
    limit = RateLimit()
    assert taken(limit, [0.0, 5000.0, 5010.0, 5050.0, 5100.0, 5110.0], 10.0) == [0.0, 5000.0, 5100.0]
    assert limit.left_out == 3


def test_a_raised_rate_and_a_clock_that_was_set_back_take_force_at_once():
    limit = RateLimit()
    assert taken(limit, [0.0, 100.0], 0.1) == [0.0]
    assert taken(limit, [200.0, 310.0], 10.0) == [310.0]
    assert taken(limit, [5.0], 10.0) == [5.0]
