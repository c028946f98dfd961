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
_DRAWN = 0.5  # probability that a new level draws the mode of each frame anew
_ENDS = 1.0 / 60.0  # probability that a level ends with a frame
_STAYS = 0.8  # probability that a frame is of the mode of the one before, at a level that does not


class SlowdownBelief:
    """Distribution of the factor by which the next frame exceeds its expected idle time, from the frames before it.

    Hidden is a level of contention: one mode of the factor or two, and how far frames scatter about each. Two,
    because programs do not fill all cores alike: a frame has a core for itself or shares one, and takes about 1.0 or
    2.2 times as long, hardly ever 1.5 times (measured: research/contention_grading/model_selection.py). Which one it
    is may be drawn for each frame anew, two thirds of them of the first mode, which may be the slower one; or frames
    that follow each other closely mostly share it, as the kernel moves programs between cores but a few times a second.
    The logarithm of a frame's factor is normal about its mode, but for one frame in a hundred, which is an outlier. A
    level lasts a number of frames, and any other one may follow. What is known after a frame is worked out over a grid
    of all pairs of modes and all scatters (forward algorithm of a hidden Markov model: Rabiner 1989, section III-A).
    Nothing is learnt beforehand, and no level is named: so levels that no profile has seen are met as well.
    """

    def __init__(self) -> None:
        modes = len(_MODES)
        scatters = len(_SCATTERS)
        width = _PLACES[-1] - _PLACES[0]
        self._outlier_density = _OUTLIERS / width
        above = (1.0 - _OUTLIERS) * norm.sf(_PLACES, _MODES[:, None], _SCATTERS[:, None, None])
        # [scatters, modes, places].
        self._above = above + _OUTLIERS * (_PLACES[-1] - _PLACES) / width
        self._above_flat = self._above.reshape(scatters * modes, -1)
        areas = math.sqrt(2.0 * math.pi) * _SCATTERS[:, None]
        self._peaks = (1.0 - _OUTLIERS) / areas
        self._first_share = np.full(modes, 1.0 - _SECOND)
        self._second_share = np.full(modes, _SECOND)
        self._ones = np.ones(modes)
        of_one = _ONE_MODE / (scatters * modes)
        of_two = (1.0 - _ONE_MODE) / (scatters * modes * (modes - 1))
        new = np.where(np.eye(modes, dtype=bool), of_one, of_two)
        new = np.repeat(new[None], scatters, axis=0)
        # Of the frame to come: [scatters, first mode, second mode], and [scatters, its mode, the other mode].
        self._drawn = _DRAWN * new
        self._staying = (1.0 - _DRAWN) * new
        self._drawn_begins = _ENDS * self._drawn
        self._staying_begins = _ENDS * self._staying
        self._predict()

    def observe(self, ratio: float) -> None:
        """Takes in the latency of a frame over its expected idle time, > 0; one outside [0.7, 9.5] tells as much as the
        nearer limit."""
        self._update(self._likelihoods(ratio, 1.0))

    def observe_at_least(self, ratio: float) -> None:
        """Takes in a frame of which only that is known: it was aborted, or nobody waited for its end."""
        self._update(self._above[:, :, self._place(math.log(ratio))])

    def probability_above(
        self, ratios: np.ndarray, begun: tuple[float, float] | None = None
    ) -> np.ndarray:
        """Probability that the factor of the next frame, or of the rest of one that has begun, is above each of these.

        A frame that has begun tells which mode it is of. What it has run so far scatters about the mode as if its parts
        were independent: the less of the frame it is, the more.

        Args:
            ratios: natural logarithms of factors.
            begun: of the frame that runs, latency so far over expected idle time so far, > 0, and the share of the
                frame's expected idle time that this is, in (0, 1].

        Returns:
            float64, as large as `ratios`.
        """
        predicted = self._predicted if begun is None else self._of_the_rest(*begun)
        return np.interp(ratios, _PLACES, predicted, left=1.0, right=0.0)

    def _of_the_rest(self, ratio: float, share: float) -> np.ndarray:
        of_modes = self._of_modes * self._likelihoods(ratio, share)
        return of_modes.ravel() @ self._above_flat / of_modes.sum()

    def _likelihoods(self, ratio: float, share: float) -> np.ndarray:
        """How likely such a ratio of a share of a frame is of each mode, `[scatters, modes]`."""
        narrower = math.sqrt(share)
        log_ratio = min(max(math.log(ratio), _MODES[0]), _MODES[-1])
        scaled = (log_ratio - _MODES) * (narrower / _SCATTERS[:, None])
        return narrower * self._peaks * np.exp(-0.5 * scaled * scaled) + self._outlier_density

    def _update(self, likelihoods: np.ndarray) -> None:
        """Takes in how likely a frame is of each mode, `[scatters, modes]`."""
        of_first = (1.0 - _SECOND) * likelihoods
        of_second = _SECOND * likelihoods
        drawn = of_first[:, :, None] + of_second[:, None, :]
        drawn *= self._drawn
        staying = self._staying * likelihoods[:, :, None]
        goes_on = (1.0 - _ENDS) / (drawn.sum() + staying.sum())
        self._drawn = goes_on * drawn + self._drawn_begins
        staying *= goes_on
        self._staying = (
            _STAYS * staying + (1.0 - _STAYS) * staying.transpose(0, 2, 1) + self._staying_begins
        )
        self._predict()

    def _predict(self) -> None:
        # Sums as products: those of numpy take several times as long.
        self._of_modes = (
            self._drawn @ self._first_share
            + self._second_share @ self._drawn
            + self._staying @ self._ones
        )  # [scatters, modes]
        self._predicted = self._of_modes.ravel() @ self._above_flat

    @staticmethod
    def _place(log_ratio: float) -> int:
        place = round((log_ratio - _PLACES[0]) / _STEP)
        return min(max(place, 0), len(_PLACES) - 1)
