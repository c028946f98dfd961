"""What the comparison of training strategies makes of its measurements, with scores made up by hand."""

from __future__ import annotations

import pytest


def run(strategy: str, seed: int, full: float, cheapest: float) -> dict:
    return {
        'strategy': strategy,
        'seed': seed,
        'paths': {'full': {'pooled_ap': full}, 'cheapest': {'pooled_ap': cheapest}},
    }


def test_ours_is_better_only_beyond_the_spread_of_the_seeds(load_benchmark):
    training_strategies = load_benchmark('training_strategies')
    runs = [
        run('ns-rs', 0, 0.40, 0.10),
        run('ns-rs', 1, 0.38, 0.10),
        run('rs-rs', 0, 0.36, 0.20),
        run('rs-rs', 1, 0.36, 0.20),
        run('sandwich', 0, 0.38, 0.30),
        run('sandwich', 1, 0.38, 0.30),
    ]
    rows = {(row['on'], row['rival']): row for row in training_strategies.verdicts(runs)}
    longest = rows['longest path', 'ns-rs']
    assert longest['gain_points'] == pytest.approx(-1.0) and longest[
        'spread_of_seeds'
    ] == pytest.approx(2.0)
    assert (longest['rank_of_ours'], longest['strategies'], longest['better']) == (2, 3, False)
    assert rows['longest path', 'rs-rs']['better']
    assert rows['mean of paths', 'rs-rs']['gain_points'] == pytest.approx(6.0)
    assert (
        rows['mean of paths', 'ns-rs']['better']
        and rows['mean of paths', 'ns-rs']['rank_of_ours'] == 1
    )


def test_one_seed_shows_no_strategy_to_be_better(load_benchmark):
    training_strategies = load_benchmark('training_strategies')
    found = training_strategies.verdicts([run('rs-rs', 0, 0.1, 0.1), run('sandwich', 0, 0.4, 0.4)])
    assert [(row['rival'], row['better'], row['spread_of_seeds']) for row in found] == [
        ('rs-rs', None, None)
    ] * 2
    assert training_strategies.verdicts([run('rs-rs', 0, 0.1, 0.1)]) == []
