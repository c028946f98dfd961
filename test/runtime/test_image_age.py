from __future__ import annotations

import math

import pytest

from deadline_perception.runtime.image_age import ImageAge

SECOND = 1_000_000_000


def test_age_is_clock_minus_stamp():
    reading = ImageAge().read(5 * SECOND, 5 * SECOND + 12_000_000)
    assert reading.age_ms == pytest.approx(12.0)
    assert reading.known_age_ms == reading.age_ms
    assert (reading.reason, reading.stamp_ns) == ('', 5 * SECOND)


@pytest.mark.parametrize('stamp_ns, now_ns, reason', [
    (0, 5 * SECOND, 'stamp is zero'),
    (5 * SECOND, 4 * SECOND, '1000 ms in the future'),
    (5 * SECOND, 65 * SECOND, '60 s old'),
])
def test_a_stamp_that_cannot_be_true_gives_no_age(stamp_ns, now_ns, reason):
    reading = ImageAge().read(stamp_ns, now_ns)
    assert math.isnan(reading.age_ms)
    assert reading.known_age_ms == 0.0
    assert reason in reading.reason
    assert reading.stamp_ns == stamp_ns


def test_a_stamp_that_went_back_is_noticed_once_and_the_next_one_counts_again():
    ages = ImageAge()
    assert ages.read(9 * SECOND, 9 * SECOND).reason == ''
    assert 'went back by 4000 ms' in ages.read(5 * SECOND, 5 * SECOND).reason
    assert ages.read(6 * SECOND, 6 * SECOND).reason == ''


def test_a_clock_may_lag_a_little_and_a_simulated_one_by_a_second():
    assert ImageAge().read(SECOND + 15_000_000, SECOND).age_ms == 0.0
    assert ImageAge(simulated=True).read(SECOND + 900_000_000, SECOND).age_ms == 0.0
    assert '1100 ms in the future, expected at most 1000 ms' in ImageAge(simulated=True).read(
        SECOND + 1_100_000_000, SECOND).reason
