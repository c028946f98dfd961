"""Fits the curves that make the scores of a detector probabilities, see `ScoreCalibration`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize

from deadline_perception.networks.multi_path.score_calibration import (
    STEEPEST,
    ScoreCalibration,
    log_odds,
)

_PRIOR_WEIGHT = 5.0  # of the curve of all classes, in squared distances of its parameters


def fit_calibration(scores: Sequence[np.ndarray], hits: Sequence[np.ndarray]) -> ScoreCalibration:
    """The calibration under which detections that were hits or not are the most probable.

    A class is drawn towards the curve of all classes as if it had some more detections, so that one with few has
    a curve too.

    Args:
        scores: of each class, `[N]`.
        hits: of each class, `[N]` bool.
    """

    def fitted(
        odds: np.ndarray, known: np.ndarray, prior: tuple[float, float], weight: float
    ) -> tuple[float, float]:
        def loss(parameters: np.ndarray) -> float:
            logits = np.exp(parameters[0]) * odds + parameters[1]
            likelihood = (
                np.logaddexp(0.0, -logits)[known].sum() + np.logaddexp(0.0, logits)[~known].sum()
            )
            return likelihood + weight * ((parameters - prior) ** 2).sum()

        return tuple(minimize(loss, np.array(prior), method='Nelder-Mead').x)

    every = fitted(
        log_odds(np.concatenate(scores)), np.concatenate(hits).astype(bool), (0.0, 0.0), 1.0
    )
    found = [
        fitted(log_odds(values), known.astype(bool), every, _PRIOR_WEIGHT)
        for values, known in zip(scores, hits)
    ]
    return ScoreCalibration(
        tuple(float(np.clip(np.exp(slope), 1e-3, STEEPEST)) for slope, _ in found),
        tuple(float(np.clip(offset, -STEEPEST, STEEPEST)) for _, offset in found),
    )
