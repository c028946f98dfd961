import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from deadline_perception.timing.recent_times import (
    INTERRUPTIONS,
    LEAST_RATIOS,
    RecentTimes,
    StartRatio,
    largest_is_limit,
    tolerance_factor,
)

ALPHA = 0.01
TIMES_MS = st.floats(1e-3, 1e6)


def seen(took_ms, expected_ms: float = 10.0, start: StartRatio = StartRatio()) -> RecentTimes:
    recent = RecentTimes(ALPHA, start)
    for one_ms in took_ms:
        recent.observe(expected_ms, one_ms)
    return recent


def noisy_ms(count: int, seed: int) -> list[float]:
    rng = random.Random(seed)
    return [10.0 * math.exp(rng.gauss(0.0, 0.05)) for _ in range(count)]


def two_modes_ms(count: int, seed: int) -> list[float]:
    """Half of the frames have a core for themselves, half share one."""
    rng = random.Random(seed)
    return [10.0 * rng.choice((1.0, 1.8)) * rng.uniform(0.9, 1.1) for _ in range(count)]


def test_the_largest_of_frames_enough_is_their_limit_whatever_their_distribution():
    # 0.99^298 = 0.0500, 0.99^299 = 0.0495: below it the largest of so many lies under the 99th percentile.
    enough = largest_is_limit(ALPHA)
    assert enough == 299
    took_ms = two_modes_ms(enough + 3, seed=2)
    few, many = seen(took_ms[: enough - 5]), seen(took_ms)
    assert few.log_limit > math.log(2.2)  # by median and deviation alone, where no frame takes 2
    assert many.log_limit == pytest.approx(math.log(max(took_ms) / 10.0))
    held = []
    for seed in range(40):
        limit_ms = 10.0 * math.exp(seen(two_modes_ms(304, seed)).log_limit)
        held.append(np.mean(np.array(two_modes_ms(2000, 100 + seed)) > limit_ms) <= ALPHA)
    assert np.mean(held) >= 0.9


def test_the_limit_is_that_of_frames_and_start_by_hand():
    recent = seen([10.0 * math.exp(0.01 * number) for number in range(-4, 5)], 10.0,
                  StartRatio(0.3, 0.05))  # fmt: skip
    # Nine frames of the deviation 1.4826 * 0.02, eight of the start's: sqrt(9 / 17 * 0.0297^2 + 8 / 17 * 0.05^2).
    assert recent.deviation == pytest.approx(0.04052, abs=1e-5)
    expected = tolerance_factor(norm.ppf(0.995), 9) * recent.deviation
    assert recent.log_limit == pytest.approx(expected)
    # a = 1 - 2.7055 / 22 = 0.8770, b = 6.6349 - 2.7055 / 12 = 6.4094: (2.5758 + sqrt(6.6349 - a b)) / a
    assert tolerance_factor(norm.ppf(0.995), 12) == pytest.approx(4.085, abs=1e-3)
    assert RecentTimes(ALPHA).log_limit == 0.0  # the forecast itself where nothing is known


def test_the_start_decides_until_eight_frames_were_seen():
    start = StartRatio(0.1, 0.05)
    recent = seen([10.0, 20.0, 40.0, 20.0, 20.0, 10.0, 20.0], start=start)
    assert recent.log_limit == start.log_limit == pytest.approx(0.1 + 2.8 * 0.05)
    assert (recent.interruption_ms, recent.median) == (0.0, start.median)
    recent.observe(10.0, 20.0)
    assert recent.log_limit != start.log_limit and recent.median == pytest.approx(math.log(2.0))
    assert math.exp(seen([150.0] + 5 * [10.0, 25.0]).log_limit) < 4.0  # stalls of a first second


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(TIMES_MS, TIMES_MS), min_size=8, max_size=40), st.floats(0.0, 3.0))
def test_no_limit_is_more_than_one_and_a_half_times_the_longest_ratio_seen(frames, deviation):
    """Eight scattered frames of an overloaded machine once gave a bound of ten minutes."""
    recent = RecentTimes(ALPHA, StartRatio(0.0, deviation))
    for expected_ms, took_ms in frames:
        recent.observe(expected_ms, took_ms)
    assert math.exp(recent.log_limit) <= 1.5 * (1.0 + 1e-9) * max(b / a for a, b in frames)
    assert recent.interruption_ms <= max(took_ms for _, took_ms in frames)


def interrupted_ms(count: int, seed: int) -> list[float]:
    """The same, with 8 ms more every twentieth time."""
    took_ms = noisy_ms(count, seed)
    for number in range(7, count, 20):
        took_ms[number] += 8.0
    return took_ms


def test_interruptions_are_told_in_ms_once_they_are_more_than_chance():
    rare, frequent = noisy_ms(400, seed=7), seen(interrupted_ms(400, seed=7))
    rare[100] += 40.0
    rare[300] += 40.0
    assert seen(rare).interruption_ms == 0.0
    assert 6.0 < frequent.interruption_ms < 9.0
    without = seen(noisy_ms(400, seed=7))
    assert frequent.log_limit == pytest.approx(without.log_limit, abs=0.03)


def test_the_interruption_is_the_fourth_longest_of_few_an_hour_at_most_and_forgotten():
    took_ms = [10.0] * 100
    took_ms[7::12] = [30.0 + number for number in range(8)]
    recent = seen(took_ms)
    limit_ms = 10.0 * math.exp(recent.log_limit)
    assert recent.interruption_ms + limit_ms == pytest.approx(34.0, abs=0.5)
    recent.observe(10.0, 1e9)
    assert max(recent.state()['excesses_ms']) == 3.6e6
    assert RecentTimes.from_state(ALPHA, StartRatio(), recent.state()).has_limit
    period_ms = [10.0] * 200
    period_ms[7::20] = [18.0 + number for number in range(10)]
    once, twice = seen(period_ms * 10), seen(period_ms * 20)
    assert len(twice.state()['excesses_ms']) == INTERRUPTIONS == len(period_ms * 10)
    assert twice.interruption_ms == pytest.approx(once.interruption_ms, abs=0.2)


def test_shares_are_those_of_frames_and_rise_with_the_time():
    took_ms = interrupted_ms(400, seed=11)
    recent = seen(took_ms)
    remaining_ms = np.array([1.0, 9.5, 10.0, 10.5, 13.0, 19.0, 30.0])
    expected = [float(np.mean(np.array(took_ms) <= one_ms)) for one_ms in remaining_ms]
    shares = np.array([recent.share_within(math.log(one_ms / 10.0)) for one_ms in remaining_ms])
    assert shares == pytest.approx(expected, abs=0.03)
    assert shares[0] == 0.0 and (np.diff(shares) >= 0.0).all() and 0.99 < shares[-1] < 1.0


@given(st.lists(st.floats(-1.0, 1.0), min_size=LEAST_RATIOS), st.floats(-2.0, 2.0))
def test_a_share_is_interpolated_between_frames(log_ratios, log_ratio):
    recent = seen([10.0 * math.exp(one) for one in log_ratios])
    window = np.array(recent._window)
    shares = (np.arange(len(window)) + 0.5) / len(window)
    for one in (log_ratio, *window, -math.inf, math.inf):
        assert recent.share_within(one) == np.interp(one, window, shares, 0.0)


@pytest.mark.parametrize('count', [3, LEAST_RATIOS, 60, 700])
def test_goes_on_where_its_state_was_taken(count):
    start = StartRatio(0.0, 0.1)
    recent = seen(interrupted_ms(count, seed=12), start=start)
    restarted = RecentTimes.from_state(ALPHA, start, recent.state())
    if count < LEAST_RATIOS:
        assert restarted.log_limit == start.log_limit
        return
    assert restarted.log_limit == pytest.approx(recent.log_limit, abs=0.03)
    assert restarted.interruption_ms == pytest.approx(recent.interruption_ms, abs=0.01)
    assert restarted.state() == recent.state()


def test_a_start_is_a_number_and_of_disturbed_frames_no_more_than_three_times_the_forecast():
    for median, deviation in ((math.nan, 0.0), (0.0, -0.1), (0.0, math.inf), (math.inf, 0.0)):
        with pytest.raises(ValueError, match='log ratio has the median'):
            StartRatio(median, deviation)
    with pytest.raises(ValueError, match='holds no log ratio'):
        StartRatio.of([])
    disturbed = np.log([1.0, 1.1, 6.0, 9.0, 30.0])
    assert StartRatio.of(disturbed).deviation > 1.0
    assert math.exp(StartRatio.of(disturbed).log_limit) == pytest.approx(3.0)
