from __future__ import annotations

import math
import random

import pytest

from deadline_perception.timing.calibration import BoundCalibrator, CalibrationFile
from deadline_perception.timing.part_bound import PartBound
from deadline_perception.timing.recent_times import RecentTimes, StartRatio

START = StartRatio(0.05, 0.05)


def part_bound(**parts: bool) -> PartBound:
    return PartBound(BoundCalibrator(0.01, 0.05, math.log(8.0)), RecentTimes(0.01, START), **parts)


def interrupted(bound: PartBound, frames: int = 300) -> PartBound:
    rng = random.Random(0)
    for number in range(frames):
        took_ms = 10.0 * math.exp(rng.gauss(0.0, 0.05)) + 8.0 * (number % 20 == 7)
        bound.observe(10.0, took_ms)
    return bound


def test_the_integral_is_on_the_sum_of_execution_and_interruption():
    bound = interrupted(part_bound())
    limit, interruption_ms = math.exp(bound.recent.log_limit), bound.recent.interruption_ms
    q = bound.integral.factor
    assert interruption_ms > 5.0 and q != 1.0
    for expected_ms in (4.0, 26.0):
        base_ms = expected_ms * limit + interruption_ms
        assert bound.bound_ms(expected_ms) == pytest.approx(base_ms * q)
    # A short path pays the same ms, not the same factor.
    assert bound.bound_ms(26.0) - bound.bound_ms(4.0) == pytest.approx(22.0 * limit * q)


def test_a_frame_misses_its_bound_as_it_was_before_that_frame():
    bound = interrupted(part_bound())
    misses, bound_ms = bound.integral.misses, bound.bound_ms(10.0)
    bound.observe(10.0, bound_ms * 0.999)
    assert bound.integral.misses == misses
    bound.observe(10.0, bound.bound_ms(10.0) * 1.001)
    assert bound.integral.misses == misses + 1


@pytest.mark.parametrize(
    'would_take_ms, is_late, frames', [(9, False, 0), (9, True, 1), (90, False, 1)]
)
def test_an_aborted_frame_counts_where_it_is_late_or_beyond_its_bound(
    would_take_ms, is_late, frames
):
    bound = part_bound()
    bound.observe_aborted(10.0, float(would_take_ms), is_late=is_late)
    assert (bound.integral.frames, bound.integral.misses) == (frames, frames)
    assert len(bound.recent.state()['log_ratios']) == (would_take_ms == 90)


@pytest.mark.parametrize('part', ['execution', 'interruption', 'learns'])
def test_each_part_can_be_switched_off(part):
    bound = interrupted(part_bound(**{part: False}))
    limit, interruption_ms, q = (
        math.exp(bound.recent.log_limit),
        bound.recent.interruption_ms,
        bound.integral.factor,
    )
    limit = math.exp(START.log_limit) if part == 'execution' else limit
    interruption_ms = 0.0 if part == 'interruption' else interruption_ms
    q = 1.0 if part == 'learns' else q
    assert bound.bound_ms(10.0) == pytest.approx((10.0 * limit + interruption_ms) * q)


@pytest.mark.parametrize('wrong_ms', [math.nan, -1.0, 0.0, math.inf])
def test_what_is_no_time_is_refused_and_nothing_is_learnt(wrong_ms):
    bound = interrupted(part_bound())
    before = bound.state()
    for expected_ms, took_ms in ((wrong_ms, 10.0), (10.0, wrong_ms)):
        with pytest.raises(ValueError, match='expected positive, finite numbers'):
            bound.observe(expected_ms, took_ms)
    assert bound.state() == before


def test_its_file_keeps_the_window_over_a_restart(tmp_path):
    bound = interrupted(part_bound())
    file = CalibrationFile(tmp_path / 'bound.json', {'profile': 'abc'})
    file.save(bound.state())
    restarted = PartBound.from_state(file.load(alpha=0.01, eta=0.05), START)
    assert restarted.state() == bound.state()
    assert restarted.bound_ms(10.0) == pytest.approx(bound.bound_ms(10.0), rel=0.02)


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'score_width': 'wide'}, 'score_width'),
        ({'recent': None}, 'recent is None, expected object'),
        ({'recent': {'log_ratios': [5.0] * 20, 'excesses_ms': []}}, 'calibration factor is'),
        (
            {'score_width': 1e9, 'initial_log_factor': 1e3},
            'calibration factor is .* expected 0.125',
        ),
    ],
)
def test_a_damaged_state_is_refused_by_name(change, message):
    with pytest.raises(ValueError, match=message):
        PartBound.from_state({**interrupted(part_bound()).state(), **change}, START)
