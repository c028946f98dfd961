"""Predictors of delays, by hand and on generated traces; a wrong one costs the bound its tightness, not its promise."""

import math
import random

import numpy as np
import pytest
from prediction import AdaptiveRegression, DelayPredictor, LaggedRegression

from deadline_perception.timing.calibration import BoundCalibrator

IDLE_MS = {'small': 20.0, 'middle': 40.0, 'large': 80.0}
# power of the slowdown that each one meets
STRETCHED = {'small': 0.9, 'middle': 1.0, 'large': 1.15}
ALPHA = 0.01


def made_slowdowns(frames: int, seed: int) -> np.ndarray:
    """Steps, ramps and bursts, one after the other."""
    rng = np.random.default_rng(seed)
    found = []
    while len(found) < frames:
        kind = rng.integers(3)
        length = int(rng.integers(40, 200))
        if kind == 0:
            found += [float(rng.choice([1.0, 1.3, 1.7, 2.4]))] * length
        elif kind == 1:
            found += list(np.linspace(1.0, float(rng.choice([1.5, 2.5])), length))
        else:
            for _ in range(6):
                found += [1.0] * int(rng.integers(3, 15))
                burst = float(rng.uniform(1.3, 2.2))
                found += [burst] * int(rng.integers(3, 15))
    return np.array(found[:frames])


def delay_ms(candidate: str, slowdown: float, rng: random.Random) -> float:
    return IDLE_MS[candidate] * slowdown ** STRETCHED[candidate] * rng.lognormvariate(0.0, 0.05)


def traces(seed: int, frames: int = 1500) -> dict[str, list[float]]:
    """What each candidate takes alone, for the paper's regressions to be fitted on."""
    slowdowns = made_slowdowns(frames, seed)
    rng = random.Random(seed)
    return {
        candidate: [delay_ms(candidate, slowdown, rng) for slowdown in slowdowns]
        for candidate in IDLE_MS
    }


class Backwards:
    """Deliberately wrong: the slower the last frame, the faster the next is said to be."""

    def __init__(self) -> None:
        self._ratio = 1.0

    def observe(self, candidate, delay_ms):
        self._ratio = IDLE_MS[candidate] / delay_ms

    def predict_ms(self, candidate):
        return IDLE_MS[candidate] * self._ratio


PREDICTORS = {
    'paper': lambda: LaggedRegression(traces(7)),
    'ours': lambda: AdaptiveRegression(IDLE_MS),
    'wrong': Backwards,
}


def simulate(predictor: DelayPredictor, frames: int, seed: int) -> tuple[float, float, float]:
    """Miss ratio of the calibrated bound, median of bound over delay, and median error of the prediction."""
    calibrator = BoundCalibrator(ALPHA, 0.05, math.log(8.0), math.log(1.25))
    rng = random.Random(seed)
    misses = 0
    tightness = []
    errors = []
    candidate = 'small'
    for frame, slowdown in enumerate(made_slowdowns(frames, seed)):
        candidate = rng.choice(list(IDLE_MS)) if frame % 7 == 0 else candidate
        forecast_ms = predictor.predict_ms(candidate)
        took_ms = delay_ms(candidate, slowdown, rng)
        bound_ms = forecast_ms * calibrator.factor
        misses += took_ms > bound_ms
        tightness.append(bound_ms / took_ms)
        errors.append(abs(math.log(forecast_ms / took_ms)))
        calibrator.observe(forecast_ms, took_ms)
        predictor.observe(candidate, took_ms)
    return misses / frames, float(np.median(tightness)), float(np.median(errors))


def test_the_bound_holds_whatever_predicts_and_a_wrong_predictor_costs_tightness():
    simulated = {name: simulate(make(), 12_000, seed=3) for name, make in PREDICTORS.items()}
    assert max(misses for misses, _, _ in simulated.values()) <= ALPHA + 0.005
    tightness = {name: found[1] for name, found in simulated.items()}
    assert tightness['ours'] < tightness['paper'] < tightness['wrong'] / 1.5
    assert max(simulated[name][2] for name in ('paper', 'ours')) < 0.1 < 0.5 < simulated['wrong'][2]


def test_the_papers_normalisation_and_regression_worked_out_by_hand():
    # Delays alternate between 10 and 14 ms: smallest 10, deviation 2, so that normalised they are 0 and 2.
    delays = {'one': [10.0, 14.0] * 20, 'two': [100.0, 130.0] * 20}
    predictor = LaggedRegression(delays, lags=1)
    assert predictor.predict_ms('one') == 10.0  # nothing seen: the smallest
    predictor.observe('one', 10.0)
    assert predictor.predict_ms('one') == pytest.approx(14.0)
    # from the normalised delay of another candidate
    assert predictor.predict_ms('two') == pytest.approx(130.0)
    predictor.observe('two', 115.0)  # normalised (115 - 100) / 15 = 1, half-way
    assert predictor.predict_ms('one') == pytest.approx(12.0)


def test_a_change_is_detected_and_what_was_followed_sinks_slowly():
    rng = random.Random(0)
    predictor = AdaptiveRegression(IDLE_MS)
    for slowdown in [1.0] * 200 + [2.0] * 100 + [1.0] * 3:
        predictor.observe('middle', 40.0 * slowdown * rng.lognormvariate(0.0, 0.02))
    assert predictor.changes >= 1
    assert predictor.predict_ms('middle') > 1.7 * 40.0
    for _ in range(150):
        predictor.observe('middle', 40.0 * rng.lognormvariate(0.0, 0.02))
    assert predictor.predict_ms('middle') == pytest.approx(40.0, rel=0.1)
