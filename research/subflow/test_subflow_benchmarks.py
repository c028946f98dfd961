"""What the benchmarks of sub-networks make of their measurements; here with values made up by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from time_bounds import TimeBounds

from deadline_perception.extras.elastic.elastic import elastic


def test_jobs_over_budget_are_counted_among_those_that_a_bound_fitted(load_benchmark):
    jobs = load_benchmark('subflow_utility').Jobs(
        10.0, [5.0, 9.0, 12.0, 10.0], [0.5, 0.5, 1.0, 1.0], infeasible=3
    )
    summary = jobs.summary()
    assert (summary['jobs'], summary['infeasible'], summary['over_budget']) == (4, 3, 1)
    assert (summary['over_budget_share'], summary['worst_excess_ms'], summary['mean_ms']) == (
        0.25,
        2.0,
        9.0,
    )
    assert load_benchmark('subflow_utility').Jobs(10.0).summary()['over_budget_share'] == 0.0


def test_gain_is_over_plain_nested_training(load_benchmark):
    made = {
        name: {'nested': np.array(rows), 'untrained': np.zeros((2, 2))}
        for name, rows in (
            ('given', [[10.0, 50.0], [20.0, 50.0]]),
            ('obs', [[14.0, 50.0], [22.0, 49.0]]),
        )
    }
    rows = load_benchmark('importance').summary(made)
    assert rows['given']['gain'] == [0.0, 0.0]
    assert rows['obs']['nested'] == [18.0, 49.5] and rows['obs']['gain'] == [3.0, -0.5]
    assert rows['obs']['gain_error'] == pytest.approx([1.0, 0.5])


@pytest.fixture(scope='module')
def lenet(load_benchmark):
    module = load_benchmark('subflow_shapes').lenet5().eval()
    return module, elastic(module, (torch.zeros(1, 1, 28, 28),), torch.randn(8, 1, 28, 28))


@pytest.mark.parametrize('utilisation', [0.1, 0.5, 1.0])
def test_narrow_copy_computes_what_the_sub_network_does(load_benchmark, lenet, utilisation):
    module, network = lenet
    narrow = load_benchmark('subflow_networks').narrow_copy(network, module, utilisation)
    x = torch.randn(3, 1, 28, 28)
    with torch.no_grad():
        torch.testing.assert_close(
            narrow(x), network(x, utilisation=utilisation), rtol=1e-4, atol=1e-5
        )
    assert sum(parameter.numel() for parameter in narrow.parameters()) == network.used_weights(
        utilisation
    )


def test_a_job_runs_the_largest_sub_network_that_fits(load_benchmark, lenet):
    utility, (_, network) = load_benchmark('subflow_utility'), lenet
    jobs, bounds = (
        utility.Jobs(1e6),
        TimeBounds({setting: 1.0 for setting in network.settings}, 0.01),
    )
    assert utility.run_job(network, bounds, torch.zeros(1, 1, 28, 28), 1e6, jobs) == (1.0, True)
    assert jobs.utilisations == [1.0] and jobs.infeasible == 0
    assert utility.run_job(network, bounds, torch.zeros(1, 1, 28, 28), -1.0, jobs) == (0.1, False)
    assert jobs.infeasible == 1
