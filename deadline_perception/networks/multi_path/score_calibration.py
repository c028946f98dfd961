"""Scores that are the probability of an object: a logistic curve per class, fitted on images that no training
saw (Platt 1999), kept with the weights. It keeps the order of the detections of a class, and so its AP."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta

from deadline_perception.core.decoding import decode
from deadline_perception.core.untrusted_file import parse_json

_LEAST = 1e-6  # from 0 and 1, where the log-odds end
STEEPEST = 100.0


@dataclass(frozen=True)
class ScoreCalibration:
    """Of class k, the log-odds of a score become `slopes[k]` times as large plus `offsets[k]`.

    Attributes:
        slopes: per class, in (0, 100].
        offsets: per class, within 100.

    Raises:
        ValueError: the numbers differ.
    """

    slopes: tuple[Annotated[float, Meta(gt=0.0, le=STEEPEST)], ...]
    offsets: tuple[Annotated[float, Meta(ge=-STEEPEST, le=STEEPEST)], ...]

    def __post_init__(self) -> None:
        if len(self.slopes) != len(self.offsets):
            raise ValueError(
                f'there are {len(self.slopes)} slopes and {len(self.offsets)} offsets, expected as many'
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
