"""How likely each slowdown of the next frame is: a distribution, where a slowdown and a bound are one number each."""
from __future__ import annotations

import math

import numpy as np
from scipy.stats import norm

# Modes and scatters that are told apart, as logarithms of the ratio of latency to expected idle time.
_MODES = np.arange(-0.36, math.log(10.0), 0.09)
_SCATTERS = np.array([0.05, 0.12, 0.25])
_STEP = 0.04
_PLACES = np.arange(-0.8, 3.6, _STEP)
_OUTLIERS = 0.01  # share of frames that may take anything
_SECOND = 1.0 / 3.0  # share of a level's frames that are of its second mode, where it has two
_ONE_MODE = 0.5  # probability that a new level has one mode


class SlowdownBelief:
    """Distribution of the factor by which the next frame exceeds its expected idle time, from the frames before it.

    Hidden is a level of contention: one mode of the factor or two, and how far frames scatter about each. Two, because
    programs do not fill all cores alike: a frame has a core for itself or shares one, and takes about 1.0 or 2.2 times
    as long, hardly ever 1.5 times (measured: benchmarks/model_selection.py). Two thirds of the frames are of the first
    mode, which may be the slower one, the others of the second. The logarithm of a frame's factor is normal about its
    mode, but for one frame in a hundred, which is an outlier. A level lasts a number of frames, and any other one may
    follow. What is known after a frame is worked out over a grid of all pairs of modes and all scatters (forward
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
        modes, scatters, width = len(_MODES), len(_SCATTERS), _PLACES[-1] - _PLACES[0]
        self._outlier_density = _OUTLIERS / width
        above = (1.0 - _OUTLIERS) * norm.sf(_PLACES, _MODES[:, None], _SCATTERS[:, None, None])
        self._above = above + _OUTLIERS * (_PLACES[-1] - _PLACES) / width  # [scatters, modes, places]
        self._peaks = (1.0 - _OUTLIERS) / (math.sqrt(2.0 * math.pi) * _SCATTERS[:, None])
        self._first_share, self._second_share = np.full(modes, 1.0 - _SECOND), np.full(modes, _SECOND)
        of_one, of_two = _ONE_MODE / (scatters * modes), (1.0 - _ONE_MODE) / (scatters * modes * (modes - 1))
        new = np.where(np.eye(modes, dtype=bool), of_one, of_two)
        self._weights = np.repeat(new[None], scatters, axis=0)  # [scatters, first mode, second mode]
        self._begins = self._ends * self._weights
        self._predict()

    def observe(self, ratio: float) -> None:
        """Takes in one frame.

        Args:
            ratio: latency over expected idle time, > 0. One outside [0.7, 9.5] tells as much as the nearer limit.

        Raises:
            ValueError: the ratio is not a positive, finite number.
        """
        scaled = (min(max(self._log(ratio), _MODES[0]), _MODES[-1]) - _MODES) / _SCATTERS[:, None]
        self._update(self._peaks * np.exp(-0.5 * scaled * scaled) + self._outlier_density)

    def observe_at_least(self, ratio: float) -> None:
        """Takes in a frame of which only that is known: it was aborted, or nobody waited for its end.

        Raises:
            ValueError: the ratio is not a positive, finite number.
        """
        self._update(self._above[:, :, self._place(self._log(ratio))])

    def probability_above(self, ratios: np.ndarray) -> np.ndarray:
        """Probability that the next frame's factor is above each of these; float64, as large as the argument.

        Args:
            ratios: natural logarithms of factors.
        """
        return np.interp(ratios, _PLACES, self._predicted, left=1.0, right=0.0)

    def _update(self, likelihoods: np.ndarray) -> None:
        """Takes in how likely a frame is of each mode, `[scatters, modes]`."""
        of_pairs = ((1.0 - _SECOND) * likelihoods)[:, :, None] + (_SECOND * likelihoods)[:, None, :]
        of_pairs *= self._weights
        of_pairs *= (1.0 - self._ends) / of_pairs.sum()
        of_pairs += self._begins
        self._weights = of_pairs
        self._predict()

    def _predict(self) -> None:
        # Sums as products: those of numpy take several times as long.
        of_modes = self._weights @ self._first_share + self._second_share @ self._weights
        self._predicted = of_modes.ravel() @ self._above.reshape(of_modes.size, -1)

    @staticmethod
    def _log(ratio: float) -> float:
        if not 0.0 < ratio < math.inf:
            raise ValueError(f'ratio of latency to expected time is {ratio}, expected a positive, finite number')
        return math.log(ratio)

    @staticmethod
    def _place(log_ratio: float) -> int:
        return min(max(round((log_ratio - _PLACES[0]) / _STEP), 0), len(_PLACES) - 1)
