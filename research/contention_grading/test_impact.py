"""The impact profiler beside real units: a real network waits for them, and they are gone afterwards."""

from impact import measure_unit_delays, rungs


def test_rungs_are_spread_and_end_with_the_most():
    assert rungs(3) == [1, 2, 3] and rungs(8) == list(range(1, 9))
    assert rungs(40) == [5, 10, 15, 20, 25, 30, 35, 40]


def test_units_are_measured_from_none_on_until_they_are_enough():
    delays = iter([10.0] * 23 + [20.0] * 23 + [40.0] * 1000)
    found = measure_unit_delays(lambda: next(delays), ['core'], 4, 1e-9, up_to_ms=30.0)
    expected = [({}, 10.0), ({'core': 1}, 20.0), ({'core': 2}, 40.0)]
    assert [(dict(delay.units), delay.delay_ms) for delay in found] == expected
