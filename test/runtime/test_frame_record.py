from __future__ import annotations

import math

import pytest

from deadline_perception.runtime.frame_record import Arrival
from deadline_perception.runtime.image_age import StampReading


def test_objects_move_along_the_stamps_and_from_there_on_with_the_clock():
    arrival = Arrival(None, 5000.0, StampReading(40.0, '', 7_000_000_000))
    assert arrival.captured_ms == 4960.0
    assert arrival.motion_s == 7.0
    assert arrival.motion_at_s(4960.0 + 250.0) == pytest.approx(7.25)


def test_without_a_stamp_objects_move_with_the_clock():
    arrival = Arrival(None, 5000.0, StampReading(math.nan, 'image stamp is zero', 0))
    assert (arrival.captured_ms, arrival.motion_s) == (5000.0, 5.0)
    assert arrival.motion_at_s(5100.0) == pytest.approx(5.1)
