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
