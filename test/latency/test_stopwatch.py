from __future__ import annotations

import math

import pytest

from deadline_perception.latency.stopwatch import measure_ms, ms_from_ns, now_ms, now_ns, ns_from_ms, synchronise


def test_clock_never_goes_back_and_both_units_agree():
    readings = [now_ns() for _ in range(1000)]
    assert readings == sorted(readings)
    before = now_ns()
    middle = now_ms()
    assert ms_from_ns(before) <= middle <= ms_from_ns(now_ns())


@pytest.mark.parametrize(('duration_ms', 'duration_ns'), [(0.0, 0), (1.5, 1_500_000), (-0.25, -250_000)])
def test_converts_between_ms_and_ns(duration_ms, duration_ns):
    assert ns_from_ms(duration_ms) == duration_ns
    assert ms_from_ns(duration_ns) == duration_ms


@pytest.mark.parametrize('bad', [math.nan, math.inf])
def test_duration_without_a_number_is_refused(bad):
    with pytest.raises(ValueError, match='finite'):
        ns_from_ms(bad)


def test_measures_after_the_warm_up_runs():
    calls = []
    durations = measure_ms(lambda: calls.append(None), warm_up=2, repeats=5)
    assert len(calls) == 7
    assert len(durations) == 5 and min(durations) >= 0.0


@pytest.mark.parametrize('counts', [{'warm_up': -1}, {'repeats': 0}])
def test_impossible_counts_are_refused(counts):
    with pytest.raises(ValueError, match='at least'):
        measure_ms(lambda: None, **counts)


def test_cpu_needs_no_synchronisation():
    assert synchronise('cpu') is None
