"""What model_selection.py makes of recorded delays, with delays made up by hand."""

import numpy as np
import pytest


@pytest.fixture(scope='module')
def replay(load_benchmark):
    return load_benchmark('selection_replay')


@pytest.fixture(scope='module')
def methods(load_benchmark):
    return load_benchmark('selection_methods')


@pytest.fixture
def recording(replay):
    """Two models that take 10 and 20 ms, half as long again beside one contender and thrice as long beside another."""
    delays = np.zeros((3, 8, 2))
    for level, factor in enumerate((1.0, 1.5, 3.0)):
        delays[level] = np.array([10.0, 20.0]) * factor * (1.0 + 0.01 * np.arange(8)[:, None])
    return replay.Recording(
        ('small', 'large'), (20.0, 40.0), ({}, {'radar': 1}, {'lidar': 1}), delays, {}
    )


def test_the_bound_holds_for_every_predictor_a_wrong_one_too(replay, recording, methods):
    bounded = {name: methods.METHODS[name] for name in methods.BOUNDED}
    found = replay.compare(recording, bounded, threshold_ms=35.0, seeds=2, frames=3000)
    for name, outcomes in found.items():
        for outcome in outcomes:
            # The guarantee of BoundCalibrator: alpha, and (width + step) / (step * frames), in percent.
            least_factor = np.log(8.0) if name != 'wrong, bounded' else np.log(64.0)
            limit = 1.0 + 100.0 * (2 * least_factor + 0.05) / (0.05 * 3000)
            assert outcome.bound_misses <= limit, name
            assert outcome.violations - outcome.unavoidable <= limit, name
    ours, wrong = (
        np.mean([outcome.ap for outcome in found[name]]) for name in ('ours', 'wrong, bounded')
    )
    assert ours > wrong
