"""Steps and levels over one dimension of a layer, found in a sweep and bounded by four measurements."""

import numpy as np
import pytest
from step_latency import Line, StepModel, fit_step_model

# the paper's depth and period, levels 0.5 ms apart
ORIN = StepModel(32, 8, 4, Line(0.02, 1.5), Line(0.02, 1.0), 0.0)


def sweep(model: StepModel, values: range, noise: float = 0.0) -> tuple[list[int], list[float]]:
    rng = np.random.default_rng(0)
    times = [model.predict(value) * (1.0 + noise * rng.standard_normal()) for value in values]
    return list(values), times


@pytest.mark.slow
@pytest.mark.parametrize(
    ('depth', 'period', 'upper_values'),
    [(32, 8, 4), (16, 64, 32), (16, 1, 1), (1, 8, 7), (64, 16, 15), (24, 1, 1)],
)
def test_finds_depth_and_period_in_noise(depth, period, upper_values):
    lower = Line(0.019, 0.9 if period > 1 else 1.5)
    model = StepModel(depth, period, upper_values, Line(0.02, 1.5), lower, 0.0)
    found = fit_step_model(*sweep(model, range(10, 531), noise=0.01))
    assert (found.depth, found.period, found.upper_values) == (depth, period, upper_values)
    assert found.has_steps
    assert found.error < 0.015
    for value in range(10, 531):
        assert abs(found.predict(value) / model.predict(value) - 1.0) < 0.01


def test_four_measurements_bound_another_layer():
    other = StepModel(32, 8, 4, Line(0.05, 3.0), Line(0.04, 2.0), 0.0)
    chosen = ORIN.choose_values(range(120, 220, 3))
    assert len(chosen) == 4
    found = ORIN.with_bounds(chosen, [other.predict(value) for value in chosen])
    assert found.error == pytest.approx(0.0, abs=1e-9)
    for value in range(120, 220):
        assert found.predict(value) == pytest.approx(other.predict(value))
