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


def test_predicts_by_hand():
    # 33 to 36 lie on the upper level of the second step, 37 to 40 on its lower one; 64 ends the step.
    assert ORIN.predict(33) == pytest.approx(64 * 0.02 + 1.5)
    assert ORIN.predict(37) == pytest.approx(64 * 0.02 + 1.0)
    assert ORIN.predict(64) == pytest.approx(64 * 0.02 + 1.0)
    assert ORIN.predict(32) == pytest.approx(32 * 0.02 + 1.0)


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


@pytest.mark.slow
def test_some_wild_measurements_do_not_move_it():
    values, latencies = sweep(ORIN, range(10, 531), noise=0.01)
    for wild in range(5, len(latencies), 17):
        latencies[wild] *= 3.0
    found = fit_step_model(values, latencies)
    assert (found.depth, found.period) == (32, 8)
    assert found.predict(300) == pytest.approx(ORIN.predict(300), rel=0.01)


def test_says_that_there_are_no_steps():
    values = list(range(10, 200))
    rng = np.random.default_rng(1)
    times = [(0.5 + 0.01 * value) * (1.0 + 0.03 * rng.standard_normal()) for value in values]
    found = fit_step_model(values, times)
    assert (found.depth, found.period, found.has_steps) == (1, 1, False)
    assert found.predict(100) == pytest.approx(1.5, rel=0.02)


def test_four_measurements_bound_another_layer():
    other = StepModel(32, 8, 4, Line(0.05, 3.0), Line(0.04, 2.0), 0.0)
    chosen = ORIN.choose_values(range(120, 220, 3))
    assert len(chosen) == 4
    found = ORIN.with_bounds(chosen, [other.predict(value) for value in chosen])
    assert found.error == pytest.approx(0.0, abs=1e-9)
    for value in range(120, 220):
        assert found.predict(value) == pytest.approx(other.predict(value))


def test_chooses_first_and_last_of_each_level():
    assert ORIN.choose_values([33, 34, 37, 38, 65, 66, 69, 70]) == (33, 37, 66, 70)
    # the upper level is not among them
    assert ORIN.choose_values([37, 38, 39, 40, 69]) == (37, 38, 40, 69)
