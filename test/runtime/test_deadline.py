from __future__ import annotations

import numpy as np

from deadline_perception.runtime.deadline import deadline_at_ms, is_met, left_ms


def test_what_is_published_exactly_at_the_deadline_is_in_time():
    until_ms = deadline_at_ms(1000.0, 80.0)
    assert left_ms(until_ms, 1050.0, reserve_ms=5.0) == 25.0
    assert left_ms(until_ms, 1100.0) == -20.0
    assert is_met(80.0, 80.0) and not is_met(80.001, 80.0)
    assert is_met(np.array([79.0, 81.0]), np.array([80.0, 80.0])).tolist() == [True, False]
