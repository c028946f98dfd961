"""How well a table of path qualities predicts what was not measured, and how much of what was is chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.decision.path_quality import MonotoneModel, PathQuality, by_model

_FOLDS = 60  # at most so many refits; up to so many paths, each is held out alone


@dataclass(frozen=True)
class PredictionError:
    """How well measured paths are predicted from other measured paths.

    Attributes:
        paths: number of paths that were predicted.
        folds: number of groups they were held out in; as many as paths when each was held out alone.
        mean_points: mean absolute error, points of average precision (0 to 100).
        max_points: largest absolute error, points.
        rank_correlation: Spearman's, of predicted and measured values, in [-1, 1]; None when either does not vary.
    """

    paths: int
    folds: int
    mean_points: float
    max_points: float
    rank_correlation: float | None

    def __str__(self) -> str:
        rank = '-' if self.rank_correlation is None else f'{self.rank_correlation:.2f}'
        way = (
            'each left out once' if self.folds == self.paths else f'left out in {self.folds} groups'
        )
        return (
            f'{self.mean_points:.2f} points on average, {self.max_points:.2f} at most, rank correlation {rank} '
            f'({self.paths} measured paths, {way})'
        )


def prediction_error(quality: PathQuality) -> PredictionError | None:
    """How well each measured path is predicted from the others of its model; None without any, and for a fallback.

    Refits the model up to 60 times: a tenth of a second for a sample, about ten seconds for thousands of paths.
    """
    known = list(quality.known)
    # Only where another path of the same model is left to predict from; a model's paths lie side by side, so that no
    # fold takes all of them.
    paths = [known[at] for places in by_model(known).values() if len(places) > 1 for at in places]
    if not quality.measured or len(paths) < 2:
        return None
    folds = min(len(paths), _FOLDS)
    measured = np.array([quality.known[path] for path in paths])
    predicted = np.empty(len(paths))
    for fold in range(folds):
        left_out = paths[fold::folds]
        others = [path for path in known if path not in set(left_out)]
        model = MonotoneModel(others, [quality.known[path] for path in others])
        predicted[fold::folds] = model.predict(left_out)
    errors = 100.0 * np.abs(predicted - measured)
    varies = min(np.ptp(measured), np.ptp(predicted)) > 0
    return PredictionError(
        len(paths),
        folds,
        float(errors.mean()),
        float(errors.max()),
        float(np.corrcoef(rankdata(measured), rankdata(predicted))[0, 1]) if varies else None,
    )


def chance_errors(paths: Sequence[ExecutionPath], resampled: np.ndarray) -> np.ndarray:
    """How far chance in the choice of images moves each measured path off the model of all: standard errors `[paths]`.

    Other images would move all paths together, or all narrow ones; the model moves with them, and such moves decide
    nothing between a path and its neighbours. So the model is fitted to each draw anew, and what varies in the distance
    between measurement and model counts. 200 draws of 60 paths take half a second.

    Args:
        paths: measured paths, at least 1, distinct.
        resampled: their values in [0, 1] on the same draws of images, `[paths, draws]`; a draw with a NaN is dropped.

    Raises:
        ValueError: the shape is another, or fewer than 2 draws are left.
    """
    values = np.asarray(resampled, dtype=np.float64)
    if values.ndim != 2 or len(values) != len(paths):
        raise ValueError(
            f'resampled values have the shape {values.shape}, expected [{len(paths)} paths, draws]'
        )
    values = values[:, ~np.isnan(values).any(0)]
    if values.shape[1] < 2:
        raise ValueError(
            f'{values.shape[1]} draws have a value for every path, expected at least 2'
        )
    return np.std(
        [draw - MonotoneModel(paths, draw).predict(paths) for draw in values.T], axis=0, ddof=1
    )
