import math
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadline_perception.timing.contention.probe import IdleTime
from deadline_perception.timing.contention.slowdown import (
    MAX_SLOWDOWN,
    RatioFilter,
    SlowdownEstimator,
)

ANY_TIME = st.one_of(st.floats(), st.floats(0.001, 1000.0), st.none())


def test_noise_of_five_percent_on_an_idle_machine_is_read_as_next_to_nothing():
    rng, estimator, idle, read = random.Random(5), SlowdownEstimator(), IdleTime(), []
    for _ in range(5000):
        probe_ms = 2.0 * rng.lognormvariate(0.0, 0.05)
        idle.observe(probe_ms)
        estimator.observe_probe(probe_ms, idle.idle_ms)
        estimator.observe_frame(50.0, 50.0 * rng.lognormvariate(0.0, 0.05))
        read.append(estimator.slowdown)
    assert statistics.mean(read) < 1.02
    assert max(read) < 1.1


def test_readings_of_the_filter_worked_out_by_hand():
    ratio = RatioFilter()
    # Medians of 0, 0.8, 0.8, 0 and 0 are followed to 0.8 - 0.08, and by a twentieth of the rest each.
    for observed, reading in ((0.8, 0.0), (0.8, 0.72), (0.0, 0.724), (0.0, 0.6878), (0.0, 0.65341)):
        ratio.observe(math.exp(observed))
        assert ratio.log_ratio == pytest.approx(reading)


@settings(max_examples=150, deadline=None)
@given(events=st.lists(st.tuples(st.booleans(), ANY_TIME, ANY_TIME), max_size=30))
def test_is_never_below_one_nor_nan_whatever_comes(events):
    estimator = SlowdownEstimator()
    for is_frame, first_ms, second_ms in events:
        (estimator.observe_frame if is_frame else estimator.observe_probe)(first_ms, second_ms)
        assert 1.0 <= estimator.slowdown <= MAX_SLOWDOWN


def after(forecast_ms: float, bound_ms: float) -> SlowdownEstimator:
    """Twenty frames as they were forecast."""
    estimator = SlowdownEstimator()
    for _ in range(20):
        estimator.observe_frame(forecast_ms, forecast_ms, bound_ms)
    return estimator


def test_one_frame_beyond_its_bound_counts_at_once_and_is_forgotten_when_the_next_denies_it():
    estimator = after(50.0, 60.0)
    estimator.observe_frame(50.0, 58.0, 60.0)
    assert estimator.slowdown == pytest.approx(1.0, abs=0.02)
    estimator.observe_frame(50.0, 150.0, 60.0)
    assert estimator.slowdown == 3.0
    for _ in range(2):
        estimator.observe_frame(50.0, 50.0, 180.0)
        assert estimator.slowdown < 1.3
    estimator.observe_unfinished(50.0, 200.0, 60.0)
    assert estimator.slowdown == 4.0
    estimator.observe_probe(2.0, 2.0)  # no frame came meanwhile
    assert estimator.slowdown < 2.0


def test_a_cold_first_frame_is_no_load_and_alarms_the_next_frame_alone():
    estimator = SlowdownEstimator()
    estimator.observe_late(8.0, 25.0, 9.8)
    assert estimator.slowdown == 25.0 / 8.0
    estimator.observe_unfinished(24.0, 8.0, 90.0)  # says nothing: it was answered early
    assert estimator.slowdown == 1.0


def test_one_pause_of_the_machine_is_one_frame_whether_it_is_told_once_or_as_unfinished_and_then_as_late():
    told = []
    for unfinished in (False, True):
        estimator = after(8.0, 10.0)
        if unfinished:
            estimator.observe_unfinished(8.0, 190.0, 10.0)
        estimator.observe_late(8.0, 200.0, 10.0)
        beyond = estimator.slowdown
        estimator.observe_frame(8.0, 8.0, 300.0)
        told.append((beyond, estimator.slowdown))
    assert told[0] == told[1] == (25.0, pytest.approx(1.0, abs=0.02))


def test_two_frames_that_ended_late_are_a_load():
    estimator = after(8.0, 10.0)
    for _ in range(2):
        estimator.observe_unfinished(8.0, 10.0, 10.0)
        estimator.observe_late(8.0, 24.0, 10.0)
    estimator.observe_frame(8.0, 24.0, 40.0)
    told = estimator.slowdown
    assert told > 2.5
    estimator.observe_late(8.0, math.nan)  # impossible
    assert estimator.slowdown == told
