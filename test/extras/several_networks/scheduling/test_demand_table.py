"""Hand-computed demand; that the table agrees with the analysis of each selection is tested in `test_feasibility`."""

import numpy as np

from deadline_perception.extras.several_networks.scheduling.demand_table import (
    DemandTable,
    fits_processor,
)


def test_hand_computed():
    table = DemandTable([5, 20, 5], [5, 20, 5])
    assert table.deadlines.tolist() == [5, 20] and table.lengths.tolist() == [6, 11, 16]
    assert table.releases.tolist() == [[1, 2, 3], [0, 0, 0]] and table.reach.tolist() == [1, 1, 1]
    times, places = np.array([2, 5]), table.places[:2]
    demand = table.demand(times, places)
    assert demand.tolist() == [2, 4, 6]
    assert table.holds(times[None], places[None], demand[None]).tolist() == [False]
    assert table.failing(times, times, places).tolist() == [0]  # 5 + 2 within 6
    assert table.holds(np.array([[2, 4]]), places[None], demand[None]).tolist() == [True]
    assert fits_processor(np.array([1, 2]), np.array([3, 3]), 1.0 + 1e-12)
    assert not fits_processor(np.array([10**9, 1]), np.array([10**9, 10**12]), 1.0)
