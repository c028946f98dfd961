import math

import pytest

from deadline_perception.timing.interference import Interference
from deadline_perception.timing.quantiles import Quantiles
from deadline_perception.timing.wcet.segment_model import fit_wcet


def _sample(median_ms: float, worst_ms: float) -> Quantiles:
    return Quantiles(median_ms, median_ms, median_ms, *[worst_ms] * 5, count=20)


def test_whole_paths_raise_and_lower_the_sums_within_a_half_on_a_saturated_machine():
    execution = {'a': 2.0, 'b': 3.0}
    loose = fit_wcet(execution, Interference(), {('a', 'b'): _sample(4.0, 4.0)})
    tight = fit_wcet(execution, Interference(), {('a', 'b'): _sample(10.0, 10.0)})
    assert loose.segments_ms == pytest.approx({'a': 1.6, 'b': 2.4})
    assert tight.segments_ms == pytest.approx({'a': 4.0, 'b': 6.0})
    assert fit_wcet(execution, Interference(), {}).segments_ms == execution
    table = fit_wcet({'a': 2.0}, Interference((10.0,), (10.0,)), {('a',): _sample(4.0, 4.0)})
    assert table.segments_ms == {'a': 1.0} and float(table.bound_ms(1.0)) == math.inf


def test_bounds_hold_the_whole_paths_that_they_were_fitted_to() -> None:
    interference, execution = Interference((5.0, 50.0), (2.0, 8.0)), {'a': 2.0, 'b': 3.0}
    for longest_ms in (6.0, 9.0, 30.0, 80.0):
        whole = {('a', 'b'): _sample(5.0, longest_ms)}
        table = fit_wcet(execution, interference, whole, probability=1.0)
        assert float(table.bound_ms(sum(table.segments_ms.values()))) >= longest_ms - 1e-3
