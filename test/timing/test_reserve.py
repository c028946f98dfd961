from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadline_perception.timing.calibration import BoundCalibrator
from deadline_perception.timing.reserve import FrameReserve, Reserve


def test_reserves_the_floor_until_more_was_seen():
    reserve = Reserve(2.0)
    assert reserve.reserve_ms == 2.0
    reserve.observe(0.5)
    assert reserve.reserve_ms == 2.0
    reserve.observe(3.0)
    assert reserve.reserve_ms == 3.0


def test_one_long_pause_costs_no_more_than_the_ceiling_and_is_forgotten():
    reserve = Reserve(1.0, 5.0, window=3)
    reserve.observe(80.0)
    assert reserve.reserve_ms == 5.0
    for _ in range(3):
        reserve.observe(0.1)
    assert reserve.reserve_ms == 1.0


@given(st.lists(st.floats(0, 100), min_size=1, max_size=60), st.integers(1, 20), st.floats(0.5, 1.0))
def test_is_the_quantile_of_the_window(overheads_ms, window, quantile):
    reserve = Reserve(0.0, quantile=quantile, window=window)
    for overhead_ms in overheads_ms:
        reserve.observe(overhead_ms)
    kept = sorted(overheads_ms[-window:])
    assert reserve.reserve_ms in kept
    assert np.mean([overhead <= reserve.reserve_ms for overhead in kept]) >= quantile - 1e-9


@pytest.mark.parametrize('overhead_ms', [-0.1, math.nan, math.inf])
def test_refuses_what_is_no_time(overhead_ms):
    with pytest.raises(ValueError, match='expected a finite time'):
        Reserve(1.0).observe(overhead_ms)


@pytest.mark.parametrize('deciding_ms, publishing_ms, overrun_ms', [
    (1.0, 2.0, 0.0), (1.5, 2.0, 0.5), (1.5, 0.0, 0.5), (1.0, 5.0, 3.0), (0.25, 5.0, 2.25), (0.25, 2.5, 0.0)])
def test_time_saved_by_deciding_may_be_spent_on_publishing_but_not_the_reverse(deciding_ms, publishing_ms, overrun_ms):
    assert FrameReserve(1.0, 2.0).overrun_ms(deciding_ms, publishing_ms) == overrun_ms


class Drive:
    """Frames that each get exactly the time that their bound and the reserve ask for: nothing is left over."""

    def __init__(self, alpha=0.01, eta=0.05):
        self.calibrator = BoundCalibrator(alpha, eta, math.log(8.0), math.log(1.3))
        self.deciding = Reserve(0.0, quantile=0.5)
        self.publishing = Reserve(0.0, quantile=0.95)

    def is_missed(self, forecast_ms, network_ms, deciding_ms, publishing_ms):
        kept = FrameReserve(self.deciding.reserve_ms, self.publishing.reserve_ms)
        time_ms = self.calibrator.bound_ms(forecast_ms) + kept.deciding_ms + kept.publishing_ms
        ended_ms = network_ms + deciding_ms
        rounding_ms = 1e-9 * time_ms
        self.calibrator.observe(forecast_ms, network_ms + kept.overrun_ms(deciding_ms, publishing_ms))
        self.deciding.observe(deciding_ms)
        self.publishing.observe(publishing_ms)
        return (ended_ms > time_ms - kept.publishing_ms + rounding_ms
                or ended_ms + publishing_ms > time_ms + rounding_ms)


TIMES_MS = st.tuples(st.floats(1.0, 200.0), st.floats(0.5, 4.0), st.floats(0.0, 50.0), st.floats(0.0, 50.0))


@given(st.lists(TIMES_MS, max_size=80), st.sampled_from([0.01, 0.1, 0.5]))
def test_whatever_the_times_are_every_missed_deadline_is_counted_as_a_missed_bound(frames, alpha):
    drive = Drive(alpha, eta=0.3)
    for forecast_ms, ratio, deciding_ms, publishing_ms in frames:
        misses = drive.calibrator.misses
        is_missed = drive.is_missed(forecast_ms, forecast_ms * ratio, deciding_ms, publishing_ms)
        assert not is_missed or drive.calibrator.misses == misses + 1


def objects_in_sight(rng, count):
    """Publishing takes 0.7 ms and 0.04 ms per object, of which there are few or, for seconds, as many as can be."""
    dense = np.repeat(rng.random(count // 20 + 1) < 0.15, 20)[:count]
    return (0.7 + 0.04 * np.where(dense, 95, rng.poisson(10, count))) * rng.lognormal(0.0, 0.2, count)


def pauses(rng, count):
    """A millisecond, and now and then a pause of another program's length."""
    return rng.lognormal(0.0, 0.3, count) + np.where(rng.random(count) < 0.02, rng.pareto(1.5, count) * 4.0, 0.0)


@pytest.mark.parametrize('publishing', [objects_in_sight, pauses])
@pytest.mark.parametrize('seed', [0, 1, 2])
def test_one_probability_holds_for_everything(publishing, seed):
    rng, count, forecast_ms, alpha = np.random.default_rng(seed), 12_000, 35.0, 0.01
    network_ms = forecast_ms * 0.93 * rng.lognormal(0.0, 0.07, count)
    deciding_ms = 1.2 * rng.lognormal(0.0, 0.25, count)
    times_ms = zip(network_ms.tolist(), deciding_ms.tolist(), publishing(rng, count).tolist())
    drive = Drive(alpha)
    missed = [drive.is_missed(forecast_ms, *of_frame) for of_frame in times_ms]
    assert np.mean(missed[2000:]) <= 1.1 * alpha
