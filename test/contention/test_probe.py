from __future__ import annotations

import math

import pytest
from hypothesis import given, settings, strategies as st

from deadline_perception.contention.probe import IdleTime, Probe, probe_pause_ms


def test_probe_times_its_work_with_the_given_clock():
    ticks = iter([0.0, 2.0, 10.0, 15.0])
    probe = Probe(rounds=1, clock_ms=lambda: next(ticks))
    assert math.isnan(probe.idle_ms)
    assert probe.run() == 2.0
    assert probe.run() == 5.0
    assert probe.idle_ms == 2.0


def test_work_before_the_timed_rounds_does_not_count(monkeypatch):
    probe, at_ms = Probe(rounds=8, clock_ms=lambda: at_ms[0]), [0.0]
    monkeypatch.setattr(probe, '_work', lambda rounds: at_ms.__setitem__(0, at_ms[0] + rounds))
    assert probe.run() == 8.0
    assert at_ms[0] == 12.0


def test_real_probe_takes_time_and_is_never_faster_than_idle_for_long():
    probe = Probe(rounds=1)
    times_ms = [probe.run() for _ in range(30)]
    assert min(times_ms) > 0
    assert min(times_ms) <= probe.idle_ms <= max(times_ms)


def test_probe_keeps_a_known_idle_time():
    ticks = iter([0.0, 9.0])
    probe = Probe(rounds=1, idle_ms=3.0, clock_ms=lambda: next(ticks))
    probe.run()
    assert probe.idle_ms == 3.0


def test_clock_that_stands_still_gives_a_time_above_zero():
    assert Probe(rounds=1, clock_ms=lambda: 7.0).run() > 0


def test_load_that_stays_is_not_taken_for_the_idle_machine():
    idle = IdleTime(window=10)
    for taken_ms in [1.0] * 10 + [4.0] * 50:
        idle.observe(taken_ms)
    assert idle.idle_ms == 1.0


def test_one_lucky_time_among_many_does_not_count():
    idle = IdleTime(window=100, quantile=0.05)
    for taken_ms in [2.0] * 60 + [0.5] + [2.0] * 39:
        idle.observe(taken_ms)
    assert idle.idle_ms == 2.0


def test_lucky_first_time_is_left_behind_as_soon_as_there_are_enough():
    idle = IdleTime(quantile=0.05)
    idle.observe(0.5)
    for _ in range(19):
        idle.observe(2.0)
        assert idle.idle_ms == 0.5
    idle.observe(2.0)
    assert idle.idle_ms == 2.0


def test_known_time_stands_against_few_lucky_ones():
    idle = IdleTime(quantile=0.05, idle_ms=3.0)
    for taken_ms in [1.0] * 20:
        idle.observe(taken_ms)
    assert idle.idle_ms == 3.0
    idle.observe(1.0)
    assert idle.idle_ms == 1.0


@settings(max_examples=60, deadline=None)
@given(times_ms=st.lists(st.floats(1e-3, 1e4), min_size=1, max_size=60), window=st.integers(1, 30))
def test_idle_time_was_seen_and_never_rises_once_there_are_enough(times_ms, window):
    idle = IdleTime(window=window)
    before_ms = math.inf
    for count, taken_ms in enumerate(times_ms, 1):
        idle.observe(taken_ms)
        if count > min(window, 21):
            assert idle.idle_ms <= before_ms
        before_ms = idle.idle_ms
    assert idle.idle_ms in times_ms


@pytest.mark.parametrize('taken_ms', [0.0, -1.0, math.nan, math.inf])
def test_refuses_impossible_times(taken_ms):
    with pytest.raises(ValueError, match=f'time is {taken_ms} ms'):
        IdleTime().observe(taken_ms)


def test_refuses_impossible_settings():
    with pytest.raises(ValueError, match='rounds is 0'):
        Probe(rounds=0)
    with pytest.raises(ValueError, match='window is 0'):
        IdleTime(window=0)
    with pytest.raises(ValueError, match='quantile 1.5'):
        IdleTime(quantile=1.5)
    with pytest.raises(ValueError, match='idle_ms is 0.0 ms'):
        IdleTime(idle_ms=0.0)


def test_probes_take_at_most_their_share_of_a_core_and_a_third_of_it_beside_frames():
    assert probe_pause_ms(3.0, 0.006, beside_frames=False) == pytest.approx(500.0)
    assert probe_pause_ms(3.0, 0.006, beside_frames=True) == pytest.approx(1500.0)
    assert probe_pause_ms(3.0, 0.0, beside_frames=False) == math.inf
