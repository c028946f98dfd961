"""What the experiments on levels of contention make of their measurements; here with runs made up by hand."""

from __future__ import annotations

import random
from pathlib import Path

import cv2
import pytest


@pytest.fixture(scope='module')
def grading(load_benchmark):
    return load_benchmark('contention_grading')


def test_at_least_twelve_combinations_differ_and_the_first_is_the_quiet_machine(grading):
    drawn = grading.combinations(15, random.Random(3))
    assert (
        len(drawn) == 15
        and set(drawn[0].values()) == {0}
        and drawn == grading.combinations(15, random.Random(3))
    )
    assert len({tuple(combination.values()) for combination in drawn}) >= 12
    assert all(set(combination) == {'radar', 'fusion', 'lidar'} for combination in drawn)


@pytest.mark.parametrize('name', ['radar', 'fusion', 'lidar'])
def test_contenders_do_the_same_work_again_and_again(load_benchmark, name):
    if name == 'lidar':
        pytest.importorskip('torch')
    work = load_benchmark('contenders').CONTENDERS[name]()
    assert work() == work() > 0


def test_contenders_have_loaded_before_any_is_stopped(load_benchmark):
    with load_benchmark('contender_programs').Contenders({'fusion': 1}) as contenders:
        contenders.set({})
        (program,) = contenders._pool['fusion']
        assert 'ckdtree' in Path(f'/proc/{program.pid}/maps').read_text()


def test_prunings_follow_each_other_and_the_last_keeps_the_best_in_time_at_each_level(
    grading, tmp_path
):
    delays_ms = {
        'fast': [10.0, 30.0],
        'slow but poor': [12.0, 36.0],
        'middle': [20.0, 55.0],
        'good': [40.0, 120.0],
    }
    qualities = {'fast': 0.2, 'slow but poor': 0.1, 'middle': 0.3, 'good': 0.4}
    kept = grading.prune(delays_ms, qualities, threshold_ms=50.0)
    assert kept['all'] == list(delays_ms) and kept['Pareto'] == ['fast', 'middle', 'good']
    assert kept['transition'] == kept['Pareto']  # slopes of 0.57 and 0.24 points per ms
    assert kept['contention'] == [
        'fast',
        'good',
    ]  # at the second level only the fast one is in time
    grading.draw_pruning(delays_ms, qualities, kept, 50.0, tmp_path / 'pruning.png')
    assert cv2.imread(str(tmp_path / 'pruning.png')).shape[1] > 1000
