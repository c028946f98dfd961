"""What a candidate (a path, or one of several models) will take on the next frame, from the delays of those that ran.

Each `observe`s the delay of a frame and `predict_ms` the next of a candidate; `timing.calibration.BoundCalibrator`
turns the predictions of any into bounds that are missed with the target probability: a poor one costs tightness, not
safety. The contention paper's reactive methods, which predict nothing, are the policies `reactive_1` and `reactive_n`
of `policies/baselines.py`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence

import numpy as np

from deadline_perception.timing.contention.slowdown import MAX_SLOWDOWN

# Of the adaptive regression.
_LAGS = 3  # ratios that a prediction looks back on
_FORGETTING = 0.995  # weight of a frame against the one after it
_FALL = 0.04  # part of the way down that what was followed takes per frame
# Drift of the sums per frame, and the sum at which a change is detected; standard deviations.
_SLACK = 1.5
_ALARM = 8.0


class LaggedRegression:
    """The paper's predictor: one linear regression per candidate on the last normalised delays, fitted beforehand.

    Source: contention paper, section 4.2, equation 1: a delay less the candidate's smallest one, over the standard
    deviation of its delays. All candidates have the same inputs, the last delays of whichever ran; the outputs are
    delays in ms. Unchanged, but that a prediction is never below the smallest delay that was seen, and that before
    enough frames have run the oldest one stands for those before it.

    Args:
        traces_ms: delays of consecutive frames of each candidate alone, under contention that changes; more than three
            times `lags` of each, which differ.
        lags: delays that a prediction looks back on, >= 1.
    """

    def __init__(self, traces_ms: Mapping[str, Sequence[float]], *, lags: int = 5) -> None:
        self._lags = lags
        self._smallest_ms: dict[str, float] = {}
        self._deviation_ms: dict[str, float] = {}
        self._weights: dict[str, np.ndarray] = {}
        for candidate, trace in traces_ms.items():
            self._fit(candidate, np.asarray(trace, dtype=np.float64))
        self._recent: deque[float] = deque(maxlen=lags)

    def _fit(self, candidate: str, trace_ms: np.ndarray) -> None:
        smallest = float(trace_ms.min())
        deviation = float(trace_ms.std())
        normalised = (trace_ms - smallest) / deviation
        lagged = np.lib.stride_tricks.sliding_window_view(normalised, self._lags)[:-1]
        matrix = np.column_stack([lagged, np.ones(len(lagged))])
        found = np.linalg.lstsq(matrix, trace_ms[self._lags :], rcond=None)
        self._weights[candidate] = found[0]
        self._smallest_ms[candidate] = smallest
        self._deviation_ms[candidate] = deviation

    def observe(self, candidate: str, delay_ms: float) -> None:
        self._recent.append(
            (delay_ms - self._smallest_ms[candidate]) / self._deviation_ms[candidate]
        )

    def predict_ms(self, candidate: str) -> float:
        weights = self._weights[candidate]
        if not self._recent:
            return self._smallest_ms[candidate]
        missing = self._lags - len(self._recent)
        lagged = [self._recent[0]] * missing + list(self._recent)
        predicted_ms = float(weights[:-1] @ lagged + weights[-1])
        return max(predicted_ms, self._smallest_ms[candidate])


class AdaptiveRegression:
    """One slowdown for all candidates, by recursive least squares on the last ones, with change detection.

    The logarithm of delay over idle delay is regressed on the last few of it, with exponential forgetting. Two
    cumulative sums of the standardised residuals (Page 1954) detect a change; then the past is forgotten and the newest
    ratio holds until new ones say more. Two slow frames in a row are followed at once, and what was followed so sinks
    slowly: no prediction lies below it. Without that, the bound would have to cover every begin of a burst.

    Its constants were chosen on made-up traces of steps, ramps and bursts; model_selection.py compares predictors on
    recorded ones.

    Args:
        idle_ms: delay of each candidate on the idle machine, > 0.
    """

    def __init__(self, idle_ms: Mapping[str, float]) -> None:
        self._idle_ms = dict(idle_ms)
        self._inputs = np.zeros(1 + _LAGS)
        self._inputs[0] = 1.0
        self._seen = 0
        self._variance = 0.05**2
        self._above = self._below = 0.0
        self._newest = self._followed = 0.0
        self._forget()

    def _forget(self) -> None:
        """Back to: the next ratio is the mean of the last ones."""
        self._weights = np.zeros(len(self._inputs))
        self._weights[1:] = 1.0 / _LAGS
        self._covariance = np.eye(len(self._inputs)) * 0.1

    def observe(self, candidate: str, delay_ms: float) -> None:
        ratio = delay_ms / self._idle_ms[candidate]
        ratio = min(max(ratio, 1.0 / MAX_SLOWDOWN), MAX_SLOWDOWN)
        log_ratio = math.log(ratio)
        if not self._seen or self._learn(log_ratio):
            self._inputs[1:] = log_ratio
        else:
            self._inputs[2:] = self._inputs[1:-1].copy()
            self._inputs[1] = log_ratio
        lower = min(self._newest, log_ratio) if self._seen else log_ratio
        self._newest = log_ratio
        self._followed = max(lower, self._followed + _FALL * (lower - self._followed))
        self._seen += 1

    def _learn(self, log_ratio: float) -> bool:
        """Updates the weights by one more ratio; returns whether it belongs to a change."""
        inputs = self._inputs
        residual = log_ratio - float(self._weights @ inputs)
        scaled = residual / math.sqrt(self._variance)
        self._above = max(0.0, self._above + min(scaled, _ALARM) - _SLACK)
        self._below = max(0.0, self._below - max(scaled, -_ALARM) - _SLACK)
        if max(self._above, self._below) > _ALARM:
            self._above = self._below = 0.0
            self._forget()
            return True
        # Only what is no outlier tells how wide the noise is.
        self._variance += 0.05 * (min(residual * residual, 9.0 * self._variance) - self._variance)
        self._variance = max(self._variance, 0.01**2)
        carried = self._covariance @ inputs
        gain = carried / (_FORGETTING + float(inputs @ carried))
        self._weights = self._weights + gain * residual
        self._covariance = (self._covariance - np.outer(gain, carried)) / _FORGETTING
        # inputs that never change would let it grow for ever
        np.clip(self._covariance, -10.0, 10.0, out=self._covariance)
        return False

    def predict_ms(self, candidate: str) -> float:
        log_ratio = max(0.0, float(self._weights @ self._inputs), self._followed)
        return self._idle_ms[candidate] * math.exp(min(log_ratio, math.log(MAX_SLOWDOWN)))
