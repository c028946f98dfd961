"""What the simulated task sets compute, on a few numbers."""

import numpy as np
import pytest

from deadline_perception.extras.several_networks.scheduling.allocation import Method, allocate


def test_made_up_networks_gain_by_level_and_all_methods_are_compared(load_benchmark):
    scheduling = load_benchmark('nested_scheduling')
    rng = np.random.default_rng(0)
    tasks = scheduling.made_up_set(rng, (14.0, 110.0))
    assert len(tasks) == 10 and all(len(options) == 60 for options in tasks)
    times_ms = [option.execution_time_ms for option in tasks[0][::6]]
    assert times_ms == sorted(times_ms) and times_ms[0] > 0.1 * times_ms[-1]
    row = scheduling.compare(tasks, 0)
    assert row['worst'] < row['random'] < row['greedy'] <= row['greedy_next'] <= row['exact'] + 1e-9
    assert row['exact'] <= row['maximum'] + 1e-9
    assert row['exact'] == pytest.approx(allocate(tasks, Method.EXACT).quality)
    found = scheduling.summarise([row, {**row, 'greedy': 0.5 * row['exact']}])
    assert found['exact']['mean'] == 1.0 and found['greedy']['least'] == pytest.approx(0.5)
