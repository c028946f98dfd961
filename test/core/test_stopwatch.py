from __future__ import annotations

import pytest

from deadline_perception.core.stopwatch import ms_from_ns, now_ms, now_ns


def test_clock_never_goes_back_and_both_units_agree():
    readings = [now_ns() for _ in range(1000)]
    assert readings == sorted(readings)
    before = now_ns()
    middle = now_ms()
    assert ms_from_ns(before) <= middle <= ms_from_ns(now_ns())


@pytest.mark.parametrize(
    ('duration_ms', 'duration_ns'), [(0.0, 0), (1.5, 1_500_000), (-0.25, -250_000)]
)
def test_converts_ns_to_ms(duration_ms, duration_ns):
    assert ms_from_ns(duration_ns) == duration_ms
