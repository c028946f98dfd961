import math
import random

import numpy as np
import pytest

from deadline_perception.timing.calibration import BoundCalibrator
from deadline_perception.timing.part_bound import (
    _KEPT,
    _LEAST_VARIANCE,
    LEAST_RATIO,
    MOST_RATIO,
    PartBound,
    RemainingBound,
)
from deadline_perception.timing.recent_times import RecentTimes, StartRatio

START = StartRatio(0.05, 0.05)


def part_bound() -> PartBound:
    return PartBound(BoundCalibrator(0.01, 0.05, math.log(8.0)), RecentTimes(0.01, START))


def interrupted() -> PartBound:
    rng, bound = random.Random(0), part_bound()
    for number in range(300):
        bound.observe(10.0, 10.0 * math.exp(rng.gauss(0.0, 0.05)) + 8.0 * (number % 20 in (7, 8)))
    return bound


def test_the_integral_is_on_the_sum_of_execution_and_interruption():
    bound = interrupted()
    limit, extra_ms = math.exp(bound.recent.log_limit), bound.recent.interruption_ms
    q = bound.integral.factor
    assert extra_ms > 5.0 and q != 1.0
    for expected_ms in (4.0, 26.0):
        assert bound.bound_ms(expected_ms) == pytest.approx(q * (expected_ms * limit + extra_ms))
    # A short path pays the same ms, not the same factor.
    assert bound.bound_ms(26.0) - bound.bound_ms(4.0) == pytest.approx(22.0 * limit * q)
    bound.use(calm=False)
    assert bound.interruption_ms == 0.0
    bound.observe(10.0, 20.0)
    assert bound.interruption_ms > 5.0
    # A frame misses its bound as it was before that frame.
    for share, missed in ((0.999, 0), (1.001, 1)):
        misses = bound.integral.misses
        bound.observe(10.0, bound.bound_ms(10.0) * share)
        assert bound.integral.misses == misses + missed


@pytest.mark.parametrize('would_take_ms, is_late, frames', [(9, 0, 0), (9, 1, 1), (90, 0, 1)])
def test_an_aborted_frame_counts_where_late_or_beyond_its_bound(would_take_ms, is_late, frames):
    bound = part_bound()
    bound.observe_aborted(10.0, bound.bound_ms(10.0))  # exactly the bound does not exceed it
    assert bound.integral.frames == 0
    bound.observe_aborted(10.0, float(would_take_ms), is_late=is_late)
    assert (bound.integral.frames, bound.integral.misses) == (frames, frames)
    assert len(bound.recent.state()['log_ratios']) == (would_take_ms == 90)


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'recent': None}, 'recent is None, expected object'),
        ({'recent': {'log_ratios': [5.0] * 20, 'excesses_ms': []}}, 'calibration factor is'),
    ],
)
def test_a_damaged_state_is_refused_by_name(change, message):
    with pytest.raises(ValueError, match=message):
        PartBound.from_state({**interrupted().state(), **change}, START)


def observed_line(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    """Slope and mean of log progress, by NumPy's weighted moments."""
    x, y = np.log(np.clip(pairs, LEAST_RATIO, MOST_RATIO)).T
    weights = _KEPT ** np.arange(len(pairs))[::-1]
    (variance, covariance), _ = np.cov(x, y, aweights=weights, ddof=0)
    return covariance / (variance + _LEAST_VARIANCE), np.average(x, weights=weights)


def test_what_is_left_goes_by_the_line_through_what_frames_showed():
    rng = random.Random(0)
    remaining = RemainingBound(part_bound())
    pairs = []
    for number in range(120):
        progress = math.exp(rng.gauss(0.1, 0.3))
        ratio = progress**0.6 * math.exp(rng.gauss(0.0, 0.1))
        if number % 40 == 10:  # far beyond what was expected: counts as the ratio allowed
            ratio = rng.choice((1e-6, 1e6))
        pairs.append((progress, ratio))
        remaining.observe(progress, 4.0, 4.0 * ratio)
    slope, mean = observed_line(pairs)
    assert 0.2 < slope < 0.9
    for progress in (0.5, 1.0, 3.0):
        expected = math.exp(slope * (math.log(progress) - mean))
        assert remaining.progress_factor(progress) == pytest.approx(expected)


def test_the_bound_of_what_is_left_learns_from_forecasts_times_progress():
    remaining = RemainingBound(part_bound())
    for progress in (0.5, 2.0) * 20:
        remaining.observe(progress, 4.0, 4.0 * progress)
    expected_ms = 4.0 * remaining.progress_factor(2.0)
    remaining.observe(2.0, 4.0, 7.0)
    newest = remaining.bound.recent.state()['log_ratios'][-1]
    assert newest == pytest.approx(math.log(7.0 / expected_ms), abs=1e-5)
    misses, expected_ms = remaining.bound.integral.misses, 4.0 * remaining.progress_factor(2.0)
    remaining.observe_aborted(2.0, 4.0, 0.99 * remaining.bound.bound_ms(expected_ms))
    assert remaining.bound.integral.misses == misses
    remaining.observe_aborted(2.0, 4.0, 1.01 * remaining.bound.bound_ms(expected_ms))
    assert remaining.bound.integral.misses == misses + 1


@pytest.mark.parametrize('late, in_time, begin', [(20, 0, 0.5), (0, 2000, -0.5), (3, 0, None)])
def test_the_bound_of_a_part_begins_where_the_whole_is_within_its_width(late, in_time, begin):
    whole = PartBound(BoundCalibrator(0.02, 0.07, 0.5), RecentTimes(0.02, START))
    whole.use(interruption=False)
    for number in range(late + in_time):
        whole.integral.observe(4.0, None if number < late else 1.0)
    part = whole.of_rest()
    assert abs(whole.integral.log_factor) > 0.5 or begin is None
    assert part.integral.log_factor == (whole.integral.log_factor if begin is None else begin)
    assert (part.integral.alpha, part.integral.eta) == (0.02, 0.07)
    assert part.interruption_ms == 0.0


def test_a_part_without_frames_of_its_own_goes_by_what_the_whole_learns():
    whole = PartBound(BoundCalibrator(0.02, 0.07, 0.5), RecentTimes(0.02, START))
    part, before = whole.of_rest(), whole.factor
    for _ in range(20):
        whole.observe(4.0, 10.0)
    assert whole.factor > 1.5 * before
    assert part.factor == pytest.approx(math.exp(whole.recent.log_limit))
