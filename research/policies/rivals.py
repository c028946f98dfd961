"""How others choose a model under a deadline that moves, after their papers; measured in benchmarks/replay.py.

They choose as a frame begins and keep to it. Quality is what this project's tables say; so they differ from it in how
they judge time alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from baselines import FixedPath, spread_evenly
from scipy.special import ndtr

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.decision.policy import Choice, Quality
from deadline_perception.timing.time_model import Forecast

# Wan et al. 2020, ALERT (USENIX ATC), section 3.4: constants of the filter.
_ALERT_GAIN = 0.5
_ALERT_R = 0.001
_ALERT_Q = 0.1
_ALERT_ALPHA = 0.3
_PID_ETA = 0.05
_PID_WIDTH = math.log(8.0)
_PID_SATURATION = 5.0
_RAMS_TIERS = 3
_RAMS_DOWN = 0.9
_RAMS_UP = 0.6
_RAMS_CALM = 10
_LEAST_DEVIATION = 1e-3


class _ChosenOnce(FixedPath):
    """Chooses among some paths, at least one, as a frame begins."""

    def __init__(
        self, paths: Sequence[ExecutionPath], forecast: Forecast, quality: Quality
    ) -> None:
        order = np.argsort(forecast.table(paths), kind='stable')
        self.paths = [paths[at] for at in order]
        super().__init__(self.paths[0], forecast, quality)
        self._ms = np.asarray(forecast.table(self.paths))
        self._qualities = np.asarray(quality.table(self.paths))
        self._chosen = 0

    def _choice(self, at: int, bound_ms: float, remaining_ms: float) -> Choice:
        self._chosen = at
        forecast_ms = float(self._ms[at])
        quality = float(self._qualities[at])
        fits = bound_ms <= remaining_ms
        return Choice(self.paths[at], forecast_ms, bound_ms, fits, quality)

    def _ratio(self, latency_ms: float, remaining_ms: float) -> float:
        """Time over forecast of the frame before; at least that of its time where it was late."""
        expected_ms = self._ms[self._chosen]
        took_ms = latency_ms if latency_ms < math.inf else max(remaining_ms, expected_ms)
        return max(float(took_ms / expected_ms), 1e-3)


class Alert(_ChosenOnce):
    """The greatest expected quality by a Kalman filter of the slowdown, which is normal (ALERT, eqs. 5 to 8, with its
    constants). Its energy and its choice of power are left out."""

    name = 'alert'

    def __init__(
        self, paths: Sequence[ExecutionPath], forecast: Forecast, quality: Quality
    ) -> None:
        super().__init__(paths, forecast, quality)
        self._mean = 1.0
        self._variance = 0.1
        self._gain = _ALERT_GAIN
        self._q = _ALERT_Q

    def plan(self, remaining_ms: float, factor: float) -> Choice:
        """See `Policy.plan`; `factor` is not looked at."""
        deviation = max(math.sqrt(self._variance), _LEAST_DEVIATION)
        chances = ndtr((max(remaining_ms, 0.0) / self._ms - self._mean) / deviation)
        at = int(np.argmax(chances * self._qualities))
        bound_ms = float(self._ms[at] * max(self._mean, 1e-3))
        return self._choice(at, bound_ms, remaining_ms)

    def observe(self, latency_ms: float, remaining_ms: float) -> None:
        """See `Policy.observe`."""
        innovation = self._ratio(latency_ms, remaining_ms) - self._mean
        self._q = max(
            _ALERT_Q, _ALERT_ALPHA * self._q + (1 - _ALERT_ALPHA) * (self._gain * innovation) ** 2
        )
        prior = (1.0 - self._gain) * self._variance + self._q
        self._gain = prior / (prior + _ALERT_R)
        self._mean += self._gain * innovation
        self._variance = prior


class ConformalPid(_ChosenOnce):
    """The best path whose forecast times a conformal quantile fits: quantile tracking and an integrator, without a
    scorecaster (Angelopoulos, Candes, Tibshirani 2023, Conformal PID Control, section 2). `alpha` is the target share
    of frames beyond the bound."""

    name = 'conformal_pid'

    def __init__(
        self,
        paths: Sequence[ExecutionPath],
        forecast: Forecast,
        quality: Quality,
        alpha: float = 0.01,
    ) -> None:
        super().__init__(paths, forecast, quality)
        self._alpha = alpha
        self._tracked = math.log(1.25)
        self._errors = 0.0
        self._frames = 0

    def plan(self, remaining_ms: float, factor: float) -> Choice:
        """See `Policy.plan`; `factor` is not looked at."""
        bounds_ms = self._ms * math.exp(self._quantile)
        fits = np.flatnonzero(bounds_ms <= remaining_ms)
        at = 0
        if len(fits):
            at = int(fits[np.argmax(self._qualities[fits])])
        return self._choice(at, float(bounds_ms[at]), remaining_ms)

    def observe(self, latency_ms: float, remaining_ms: float) -> None:
        """See `Policy.observe`."""
        error = float(math.log(self._ratio(latency_ms, remaining_ms)) > self._quantile)
        if latency_ms == math.inf:
            error = 1.0
        self._tracked += _PID_ETA * (error - self._alpha)
        self._errors += error - self._alpha
        self._frames += 1

    @property
    def _quantile(self) -> float:
        steps = self._frames + 2
        angle = self._errors * math.log(steps) / (steps * _PID_SATURATION)
        integral = _PID_WIDTH * math.tan(min(max(angle, -1.5), 1.5))
        return min(max(self._tracked + integral, -_PID_WIDTH), _PID_WIDTH)


class PressureTiers(_ChosenOnce):
    """Few resident tiers; one down where pressure is high, one up after some calm frames (after the abstract of RAMS,
    arXiv 2606.14716, whose thresholds are its machines' own). Pressure is the share of its time that a frame took.

    The tiers are evenly spread over the logarithm of time.
    """

    name = 'pressure_tiers'

    def __init__(
        self, paths: Sequence[ExecutionPath], forecast: Forecast, quality: Quality
    ) -> None:
        super().__init__(paths, forecast, quality)
        self._tiers = spread_evenly(self._ms, _RAMS_TIERS)
        self._tier = len(self._tiers) - 1
        self._calm = 0

    def plan(self, remaining_ms: float, factor: float) -> Choice:
        """See `Policy.plan`; neither time nor `factor` is looked at."""
        at = self._tiers[self._tier]
        return self._choice(at, float(self._ms[at] * factor), remaining_ms)

    def observe(self, latency_ms: float, remaining_ms: float) -> None:
        """See `Policy.observe`."""
        pressure = latency_ms / remaining_ms if remaining_ms > 0.0 else math.inf
        self._calm = self._calm + 1 if pressure < _RAMS_UP else 0
        if pressure > _RAMS_DOWN:
            self._tier = max(self._tier - 1, 0)
        elif self._calm >= _RAMS_CALM:
            self._tier = min(self._tier + 1, len(self._tiers) - 1)
            self._calm = 0


class StaticTable(_ChosenOnce):
    """The best path whose 99th percentile, measured beforehand, fits, else the shortest: the static choice of Pylot
    (Gog et al. 2021), without bounds, calibration or contention."""

    name = 'static_p99'

    def __init__(
        self, p99_ms: Mapping[ExecutionPath, float], forecast: Forecast, quality: Quality
    ) -> None:
        super().__init__(list(p99_ms), forecast, quality)
        self._p99_ms = np.array([p99_ms[path] for path in self.paths])
        best_first = np.lexsort((self._p99_ms, -self._qualities))
        self._best_first = best_first.tolist()
        self._shortest = int(np.argmin(self._p99_ms))

    def plan(self, remaining_ms: float, factor: float) -> Choice:
        """See `Policy.plan`; `factor` is not looked at."""
        fitting = (at for at in self._best_first if self._p99_ms[at] <= remaining_ms)
        at = next(fitting, self._shortest)
        return self._choice(at, float(self._p99_ms[at]), remaining_ms)
