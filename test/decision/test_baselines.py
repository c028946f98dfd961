from __future__ import annotations

import math

import pytest

from deadline_perception.decision.baselines import FixedPath
from deadline_perception.execution_path import ExecutionPath


@pytest.fixture
def policy(path_space, make_forecast, make_quality):
    return FixedPath(path_space.largest, path_space, make_forecast(path_space, lambda name: 2.0),
                     make_quality(dict.fromkeys(path_space, 0.4)), allowance_ms=1.0)


def test_plans_the_same_path_however_little_time_is_left(policy, path_space):
    forecast_ms = 2.0 * len(path_space.slots)
    for remaining_ms, fits in ((math.inf, True), (forecast_ms * 1.5 + 1.0, True), (forecast_ms, False), (-4.0, False)):
        choice = policy.plan(remaining_ms, 1.5)
        assert choice.path == path_space.largest
        assert (choice.forecast_ms, choice.bound_ms) == (forecast_ms, forecast_ms * 1.5 + 1.0)
        assert (choice.feasible, choice.quality) == (fits, 0.4)


def test_redecision_changes_nothing_and_bounds_what_remains(policy, path_space):
    path = ExecutionPath((True, False), 0.5, 25, 1, 0.5)
    choice = policy.redecide(path, len(path_space.slots) - 1, 3.0, 1.0)
    assert (choice.path, choice.forecast_ms, choice.bound_ms, choice.feasible) == (path, 2.0, 3.0, True)
    assert not policy.redecide(path, len(path_space.slots) - 1, 2.9, 1.0).feasible


def test_refuses_a_path_of_another_network(policy, path_space, make_forecast, make_quality):
    foreign = ExecutionPath((True,), 1.0, 10, 0)
    with pytest.raises(ValueError, match=f'path {foreign} is not one of the network'):
        FixedPath(foreign, path_space, make_forecast(path_space, lambda name: 1.0), make_quality({}))
    with pytest.raises(ValueError, match='is not one of the network'):
        policy.redecide(foreign, 0, 10.0, 1.0)
    with pytest.raises(ValueError, match='NaN ms'):
        policy.plan(math.nan, 1.0)
