"""What the benchmarks of accuracy make of their measurements, with scores made up by hand."""
from __future__ import annotations


import numpy as np
import pytest

from deadline_perception.execution_path import ExecutionPath

PATHS = [ExecutionPath((), width, 10, 0) for width in (0.25, 0.5, 0.75, 1.0)]
TIMES_MS = dict(zip(PATHS, (10.0, 20.0, 30.0, 40.0)))


def test_a_point_is_useful_only_where_it_was_not_chosen(load_benchmark):
    path_accuracy = load_benchmark('path_accuracy')
    halves = dict(zip(PATHS, ((20.0, 20.0), (25.0, 19.0), (24.0, 26.0), (30.0, 30.0))))
    first, second = path_accuracy.held_out(TIMES_MS, halves)
    assert (first['points'], first['useful_where_chosen']) == (3, 3)
    assert first['useful'] == [str(PATHS[0]), str(PATHS[3])], 'the second path gained by chance, on its own half'
    assert (second['points'], second['useful_where_chosen']) == (3, 3)
    assert second['useful'] == [str(PATHS[0]), str(PATHS[2]), str(PATHS[3])]


def test_gains_too_small_make_no_useful_point(load_benchmark):
    path_accuracy = load_benchmark('path_accuracy')
    pooled = dict(zip(PATHS, (20.0, 20.1, 20.25, 20.4)))
    assert path_accuracy.frontier_of(TIMES_MS, pooled) == PATHS
    assert path_accuracy.useful(PATHS, pooled) == [PATHS[0], PATHS[2]]


def run(strategy: str, seed: int, full: float, cheapest: float) -> dict:
    return {'strategy': strategy, 'seed': seed, 'paths': {'full': {'pooled_ap': full}, 'cheapest': {'pooled_ap': cheapest}}}


def test_ours_is_better_only_beyond_the_spread_of_the_seeds(load_benchmark):
    training_strategies = load_benchmark('training_strategies')
    runs = [run('ns-rs', 0, 0.40, 0.10), run('ns-rs', 1, 0.38, 0.10), run('rs-rs', 0, 0.36, 0.20),
            run('rs-rs', 1, 0.36, 0.20), run('sandwich', 0, 0.38, 0.30), run('sandwich', 1, 0.38, 0.30)]
    rows = {(row['on'], row['rival']): row for row in training_strategies.verdicts(runs)}
    longest = rows['longest path', 'ns-rs']
    assert longest['gain_points'] == pytest.approx(-1.0) and longest['spread_of_seeds'] == pytest.approx(2.0)
    assert (longest['rank_of_ours'], longest['strategies'], longest['better']) == (2, 3, False)
    assert rows['longest path', 'rs-rs']['better']
    assert rows['mean of paths', 'rs-rs']['gain_points'] == pytest.approx(6.0)
    assert rows['mean of paths', 'ns-rs']['better'] and rows['mean of paths', 'ns-rs']['rank_of_ours'] == 1


def test_one_seed_shows_no_strategy_to_be_better(load_benchmark):
    training_strategies = load_benchmark('training_strategies')
    found = training_strategies.verdicts([run('rs-rs', 0, 0.1, 0.1), run('sandwich', 0, 0.4, 0.4)])
    assert [(row['rival'], row['better'], row['spread_of_seeds']) for row in found] == [('rs-rs', None, None)] * 2
    assert training_strategies.verdicts([run('rs-rs', 0, 0.1, 0.1)]) == []


def test_goal_is_judged_at_half_of_the_median_time_unless_nothing_fits_that(load_benchmark):
    accuracy_by_deadline = load_benchmark('accuracy_by_deadline')
    assert accuracy_by_deadline.judged_deadline_ms(100.0, 20.0) == 50.0
    assert accuracy_by_deadline.judged_deadline_ms(100.0, 60.0) == 60.0


def test_loss_is_told_against_any_path_with_its_upper_end(load_benchmark):
    scored = load_benchmark('accuracy_by_deadline').Scored
    full, best = (scored(ap, ap + 20.0, ap + 5.0, np.full(101, ap + 5.0)) for ap in (30.0, 32.0))
    ours = scored(29.0, 50.0, 34.0, np.linspace(33.0, 35.0, 101))
    assert ours.loss_against(full)['ap'] == 1.0 and ours.loss_against(best)['ap'] == 3.0
    assert ours.loss_against(full)['pooled'] == 1.0
    assert ours.loss_against(full)['pooled_interval'] == [pytest.approx(0.05), pytest.approx(1.95)]
