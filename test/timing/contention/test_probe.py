import math

import pytest

from deadline_perception.timing.contention.probe import IdleTime, Probe, probe_pause_ms


def test_probe_times_its_work_with_the_given_clock_in_its_share_of_a_core():
    ticks = iter([0.0, 2.0, 10.0, 15.0])
    probe = Probe(clock_ms=lambda: next(ticks))
    assert math.isnan(probe.idle_ms)
    assert probe.run() == 2.0
    assert probe.run() == 5.0
    assert probe.idle_ms == 2.0
    # At most its share, and a third of it beside frames.
    assert probe_pause_ms(3.0, beside_frames=False) == pytest.approx(500.0)
    assert probe_pause_ms(3.0, beside_frames=True) == pytest.approx(1500.0)


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
