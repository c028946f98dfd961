import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadline_perception.timing.contention.probe import IdleTime, Probe, probe_pause_ms


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


def test_clock_that_stands_still_gives_a_time_above_zero():
    assert Probe(rounds=1, clock_ms=lambda: 7.0).run() > 0


@pytest.mark.parametrize(
    ('times_ms', 'idle_ms'),
    [
        pytest.param([1.0] * 200 + [4.0] * 1000, 1.0, id='a load that stays'),
        pytest.param([2.0] * 60 + [0.5] + [2.0] * 39, 2.0, id='one lucky time among many'),
        pytest.param([0.5] + [2.0] * 19, 0.5, id='a lucky first time'),
        pytest.param([0.5] + [2.0] * 20, 2.0, id='a lucky first time among enough'),
    ],
)
def test_idle_time_by_hand(times_ms, idle_ms):
    idle = IdleTime()
    for taken_ms in times_ms:
        idle.observe(taken_ms)
    assert idle.idle_ms == idle_ms


@settings(max_examples=60, deadline=None)
@given(times_ms=st.lists(st.floats(1e-3, 1e4), min_size=1, max_size=60))
def test_idle_time_was_seen_and_never_rises_once_there_are_enough(times_ms):
    idle, before_ms = IdleTime(), math.inf
    for count, taken_ms in enumerate(times_ms, 1):
        idle.observe(taken_ms)
        if count > 21:
            assert idle.idle_ms <= before_ms
        before_ms = idle.idle_ms
    assert idle.idle_ms in times_ms


def test_probes_take_at_most_their_share_of_a_core_and_a_third_of_it_beside_frames():
    assert probe_pause_ms(3.0, 0.006, beside_frames=False) == pytest.approx(500.0)
    assert probe_pause_ms(3.0, 0.006, beside_frames=True) == pytest.approx(1500.0)
    assert probe_pause_ms(3.0, 0.0, beside_frames=False) == math.inf
