from __future__ import annotations

import math

import pytest

from deadline_perception.runtime.image_period import ImagePeriod


def learnt(*arrivals):
    period = ImagePeriod()
    for arrival in arrivals:
        period.observe(*arrival) if isinstance(arrival, tuple) else period.observe(arrival)
    return period


def test_nothing_is_expected_before_two_images_have_come():
    for period in (learnt(), learnt(5.0)):
        assert period.period_ms == period.next_ms(7.0) == math.inf


def test_the_median_distance_is_the_period_and_one_late_image_does_not_matter():
    period = learnt(0.0, 100.0, 200.0, 380.0, 400.0, 500.0)
    assert period.period_ms == 100.0
    assert period.next_ms(530.0) == 600.0
    assert period.next_ms(600.0) == 700.0  # it should have come just now
    assert period.next_ms(915.0) == 1000.0
    assert period.next_ms(480.0) == 600.0


def test_images_that_were_left_out_count():
    assert learnt(0.0, (300.0, 2), (400.0, 0)).period_ms == pytest.approx(100.0)


def test_a_stream_that_stood_still_teaches_nothing():
    period = learnt(0.0, 100.0, 200.0, 9000.0)
    assert period.period_ms == 100.0
    assert period.next_ms(9001.0) == 9100.0
