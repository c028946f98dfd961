import math

import pytest

from deadline_perception.runtime.speed_filter import SpeedFilter


def test_follows_63_percent_of_a_step_within_the_time_constant():
    speed = SpeedFilter(time_constant_s=0.5, timeout_s=1.0)
    speed.observe(0.0, 10.0)
    speed.observe(10.0, 10.5)
    assert speed.speed_mps(10.5) == pytest.approx(10.0 * (1.0 - math.exp(-1.0)))


def test_an_age_begins_anew_when_the_clock_goes_back():
    speed = SpeedFilter(time_constant_s=0.0, timeout_s=1.0)
    speed.observe(9.0, 102.0)
    assert (speed.age_s(50.0), speed.age_s(50.8)) == (0.0, pytest.approx(0.8))
    assert speed.speed_mps(51.0) == 9.0
    assert math.isnan(speed.speed_mps(51.01))
