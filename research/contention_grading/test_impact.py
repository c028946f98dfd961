"""The impact profiler beside real units: a real network waits for them, and they are gone afterwards."""

import os

import pytest
from impact import measure_unit_delays, most_units, record_delays, rungs

from deadline_perception.extras.contention.load import check_units


def test_records_one_frame_at_least():
    delays = iter([6.0, 7.0])
    assert record_delays(lambda: next(delays), 1e-9) == [6.0]


def test_rungs_are_spread_and_end_with_the_most():
    assert rungs(3) == [1, 2, 3] and rungs(8) == list(range(1, 9))
    assert rungs(40) == [5, 10, 15, 20, 25, 30, 35, 40]


@pytest.mark.parametrize(('cores', 'most'), [(1, 6), (64, 256)])
def test_a_machine_of_many_cores_has_no_more_units_than_a_load_may_have(monkeypatch, cores, most):
    monkeypatch.setattr(os, 'sched_getaffinity', lambda pid: set(range(cores)))
    assert check_units({'core': most_units()}) == {'core': most}


def test_units_are_measured_from_none_on_until_they_are_enough():
    delays = iter([10.0] * 23 + [20.0] * 23 + [40.0] * 1000)
    found = measure_unit_delays(lambda: next(delays), ['core'], 4, 1e-9, up_to_ms=30.0)
    expected = [({}, 10.0), ({'core': 1}, 20.0), ({'core': 2}, 40.0)]
    assert [(dict(delay.units), delay.delay_ms) for delay in found] == expected
