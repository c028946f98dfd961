"""How likely each slowdown of the next frame is: a distribution, where a slowdown and a bound are one number each."""
from __future__ import annotations

import math

import numpy as np
from scipy.stats import norm

# Levels and scatters that are told apart, as logarithms of the ratio of latency to expected idle time.
_LEVELS = np.arange(-0.36, math.log(10.0), 0.06)
_SCATTERS = (0.05, 0.12, 0.25, 0.4)
_STEP = 0.04
_PLACES = np.arange(-0.8, 3.6, _STEP)
_OUTLIERS = 0.01  # share of frames that may take anything


class SlowdownBelief:
    """Distribution of the factor by which the next frame exceeds its expected idle time, from the frames before it.

    Hidden is a level of contention, with how far frames scatter about it; the logarithm of a frame's factor is normal
    about its level, but for one frame in a hundred, which is an outlier. A level lasts a number of frames, and any
    other one may follow. What is known after a frame is worked out over a grid of levels and scatters (forward
    algorithm of a hidden Markov model: Rabiner 1989, section III-A). Nothing is learnt beforehand, and no level is
    named: so levels that no profile has seen are met as well.

    Args:
        lasts_frames: frames that a level lasts in the mean, >= 1.

    Raises:
        ValueError: the number of frames is below 1.
    """

    def __init__(self, *, lasts_frames: float = 60.0) -> None:
        if not 1.0 <= lasts_frames < math.inf:
            raise ValueError(f'lasts_frames is {lasts_frames}, expected at least 1 frame')
        self._ends = 1.0 / lasts_frames
        self._levels, self._scatters = (grid.ravel() for grid in np.meshgrid(_LEVELS, _SCATTERS, indexing='ij'))
        width = _PLACES[-1] - _PLACES[0]
        self._outlier_density = _OUTLIERS / width
        self._above = (1.0 - _OUTLIERS) * norm.sf(_PLACES, self._levels[:, None], self._scatters[:, None])
        self._above += _OUTLIERS * (_PLACES[-1] - _PLACES) / width  # [states, places]
        self._peak = (1.0 - _OUTLIERS) / (math.sqrt(2.0 * math.pi) * self._scatters)
        self._weights = np.full(len(self._levels), 1.0 / len(self._levels))
        self._predicted = self._weights @ self._above

    def observe(self, ratio: float) -> None:
        """Takes in one frame.

        Args:
            ratio: latency over expected idle time, > 0. One outside [0.7, 10] tells as much as the nearer limit.

        Raises:
            ValueError: the ratio is not a positive, finite number.
        """
        scaled = (min(max(self._log(ratio), _LEVELS[0]), _LEVELS[-1]) - self._levels) / self._scatters
        self._update(self._peak * np.exp(-0.5 * scaled * scaled) + self._outlier_density)

    def observe_at_least(self, ratio: float) -> None:
        """Takes in a frame of which only that is known: it was aborted, or nobody waited for its end.

        Raises:
            ValueError: the ratio is not a positive, finite number.
        """
        self._update(self._above[:, self._place(self._log(ratio))])

    def probability_above(self, ratios: np.ndarray) -> np.ndarray:
        """Probability that the next frame's factor is above each of these; float64, as large as the argument.

        Args:
            ratios: natural logarithms of factors.
        """
        return np.interp(ratios, _PLACES, self._predicted, left=1.0, right=0.0)

    def _update(self, likelihoods: np.ndarray) -> None:
        weights = self._weights * likelihoods
        weights *= (1.0 - self._ends) / weights.sum()
        self._weights = weights + self._ends / len(weights)
        self._predicted = self._weights @ self._above

    @staticmethod
    def _log(ratio: float) -> float:
        if not 0.0 < ratio < math.inf:
            raise ValueError(f'ratio of latency to expected time is {ratio}, expected a positive, finite number')
        return math.log(ratio)

    @staticmethod
    def _place(log_ratio: float) -> int:
        return min(max(round((log_ratio - _PLACES[0]) / _STEP), 0), len(_PLACES) - 1)
