import numpy as np
import pytest
from scipy.optimize import nnls

from deadline_perception.core.least_squares import non_negative_least_squares


@pytest.mark.parametrize('columns', [1, 3, 12, 40])
def test_agrees_with_scipy_on_full_rank(columns):
    rng = np.random.default_rng(columns)
    for _ in range(50):
        rows = rng.normal(size=(columns + rng.integers(0, 30), columns))
        target = rng.normal(size=len(rows))
        assert non_negative_least_squares(rows, target) == pytest.approx(nnls(rows, target)[0])


def test_a_column_and_its_opposite_are_a_number_of_either_sign():
    ones = np.ones((4, 1))
    for mean in (-2.0, 0.0, 3.0):
        found = non_negative_least_squares(np.hstack([ones, -ones]), np.full(4, mean))
        assert found[0] - found[1] == pytest.approx(mean) and found.min() == 0.0
