"""What the experiments on levels of contention make of their measurements; here with runs made up by hand."""
from __future__ import annotations

import math
import random

import cv2
import pytest

from deadline_perception.detector.declaration import multi_path_space
from deadline_perception.latency.calibration import BoundCalibrator
from deadline_perception.latency.level_forecast import Knot
from deadline_perception.latency.path_bound import SegmentForecast

SPACE = multi_path_space(skips_per_stage=(1,), widths=(1.0,), pyramid_widths=(1.0,), proposals=(10,), heads=1)


@pytest.fixture(scope='module')
def grading(load_benchmark):
    return load_benchmark('contention_grading')


@pytest.fixture(scope='module')
def level_bounds(load_benchmark):
    pytest.importorskip('torch')
    return load_benchmark('level_bounds')


def test_at_least_twelve_combinations_differ_and_the_first_is_the_quiet_machine(grading):
    drawn = grading.combinations(15, random.Random(3))
    assert len(drawn) == 15 and set(drawn[0].values()) == {0} and drawn == grading.combinations(15, random.Random(3))
    assert len({tuple(combination.values()) for combination in drawn}) >= 12
    assert all(set(combination) == {'radar', 'fusion', 'lidar'} for combination in drawn)


@pytest.mark.parametrize('name', ['radar', 'fusion', 'lidar'])
def test_contenders_do_the_same_work_again_and_again(load_benchmark, name):
    if name == 'lidar':
        pytest.importorskip('torch')
    work = load_benchmark('contenders').CONTENDERS[name]()
    assert work() == work() > 0


def test_prunings_follow_each_other_and_the_last_keeps_the_best_in_time_at_each_level(grading, tmp_path):
    delays_ms = {'fast': [10.0, 30.0], 'slow but poor': [12.0, 36.0], 'middle': [20.0, 55.0], 'good': [40.0, 120.0]}
    qualities = {'fast': 0.2, 'slow but poor': 0.1, 'middle': 0.3, 'good': 0.4}
    kept = grading.prune(delays_ms, qualities, threshold_ms=50.0)
    assert kept['all'] == list(delays_ms) and kept['Pareto'] == ['fast', 'middle', 'good']
    assert kept['transition'] == kept['Pareto']  # slopes of 0.57 and 0.24 points per ms
    assert kept['contention'] == ['fast', 'good']  # at the second level only the fast one is in time
    grading.draw_pruning(delays_ms, qualities, kept, 50.0, tmp_path / 'pruning.png')
    assert cv2.imread(str(tmp_path / 'pruning.png')).shape[1] > 1000


def test_recovery_counts_late_frames_until_ten_are_in_time(level_bounds):
    assert level_bounds.first_calm([False] * 20) == 0
    assert level_bounds.first_calm([True, True, False, True] + [False] * 12 + [True]) == 3
    assert level_bounds.first_calm([True] * 5) == 5


def test_levels_bound_what_one_factor_cannot(level_bounds):
    """Two paths that take the same time idle, and 3 and 1.5 times as long beside others."""
    space = multi_path_space(skips_per_stage=(1,), widths=(1.0, 0.5), pyramid_widths=(1.0,), proposals=(10,), heads=1)
    wide, narrow = space.largest, space.largest.replace(width=0.5)
    idle = {name: 2.0 for name in space.carriers()}
    busy = {name: 2.0 * (3.0 if 'w1.00' in name else 1.5) / 2.0 for name in idle}  # over the level's slowdown of 2
    knots = [Knot(1.0, SegmentForecast(space, idle)), Knot(1.8, SegmentForecast(space, busy))]
    rng, frames = random.Random(0), []
    for number in range(2000):
        path = rng.choice((wide, narrow))
        slowdown = 2.0 if (number // 100) % 2 else 1.0
        costs = SegmentForecast(space, {name: (busy if slowdown > 1.5 else idle)[name] * slowdown for name in idle})
        frames.append(level_bounds.Frame(path, costs.forecast_ms(path) * rng.lognormvariate(0.0, 0.02)))
    by_level, by_factor = (level_bounds.follow(frames, used, level_bounds.ByFilter(), BoundCalibrator(
        0.01, 0.05, math.log(8.0), math.log(1.25)))[0] for used in (knots, knots[:1]))
    tight, loose = (float((found[:, 1]).mean()) for found in (by_level, by_factor))
    assert tight < loose
    for found in (by_level, by_factor):
        assert (found[:, 1] < 1.0).mean() < 0.03
