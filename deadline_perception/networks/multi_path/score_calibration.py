"""Scores that are the probability of an object: a logistic curve per class, fitted on images that no training
saw (Platt 1999), kept with the weights. It keeps the order of the detections of a class, and so its AP."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deadline_perception.core.decoding import decode
from deadline_perception.core.untrusted_file import parse_json

_LEAST = 1e-6  # from 0 and 1, where the log-odds end
_STEEPEST = 100.0
_PRIOR_WEIGHT = 5.0  # of the curve of all classes, in squared distances of its parameters


@dataclass(frozen=True)
class ScoreCalibration:
    """Of class k, the log-odds of a score become `slopes[k]` times as large plus `offsets[k]`.

    Attributes:
        slopes: per class, above 0.
        offsets: per class.

    Raises:
        ValueError: the numbers differ, or one is outside its range.
    """

    slopes: tuple[float, ...]
    offsets: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.slopes) != len(self.offsets):
            raise ValueError(
                f'there are {len(self.slopes)} slopes and {len(self.offsets)} offsets, expected as many'
            )
        if not all(0.0 < slope <= _STEEPEST for slope in self.slopes) or not all(
            abs(offset) <= _STEEPEST for offset in self.offsets
        ):
            raise ValueError(
                f'slopes are {self.slopes} and offsets {self.offsets}, expected slopes in (0, '
                f'{_STEEPEST:.0f}] and offsets within {_STEEPEST:.0f}'
            )

    def apply(self, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Scores `[N]` in [0, 1] of detections with labels `[N]` -> calibrated ones, float32."""
        slopes, offsets = np.array((self.slopes, self.offsets), np.float32)[:, labels]
        return (1.0 / (1.0 + np.exp(-(slopes * log_odds(scores) + offsets)))).astype(np.float32)

    def to_json(self) -> str:
        """One JSON object; `from_json` reads it."""
        return json.dumps({'slopes': self.slopes, 'offsets': self.offsets})

    @classmethod
    def from_json(cls, text: str, classes: int) -> ScoreCalibration:
        """The calibration of so many classes that a text holds.

        Raises:
            ValueError: it holds anything else.
        """
        calibration = decode(parse_json(text), cls, 'score calibration')
        if len(calibration.slopes) != classes:
            raise ValueError(
                f'score calibration is of {len(calibration.slopes)} classes, expected {classes}'
            )
        return calibration


def log_odds(scores: np.ndarray) -> np.ndarray:
    """Of scores in [0, 1]; finite."""
    inside = np.clip(scores, _LEAST, 1.0 - _LEAST)
    return np.log(inside / (1.0 - inside))


def fit_calibration(scores: Sequence[np.ndarray], hits: Sequence[np.ndarray]) -> ScoreCalibration:
    """The calibration under which detections that were hits or not are the most probable.

    A class is drawn towards the curve of all classes as if it had some more detections, so that one with few has
    a curve too.

    Args:
        scores: of each class, `[N]`.
        hits: of each class, `[N]` bool.
    """
    from scipy.optimize import minimize

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
        tuple(float(np.clip(np.exp(slope), 1e-3, _STEEPEST)) for slope, _ in found),
        tuple(float(np.clip(offset, -_STEEPEST, _STEEPEST)) for _, offset in found),
    )
