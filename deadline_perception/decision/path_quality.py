"""How good the detections of every path are: measured where it was measured, else predicted from those.

The prediction adds up one effect per operator. An effect is a sum of steps that are never negative, from each
measured setting to the next larger one, so a larger setting is never predicted to do harm; a setting that was not
measured lies between its neighbours, and beyond the outermost ones the effect stays level.
"""
from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from deadline_perception.decision.policy import Forecast
from deadline_perception.errors import DeadlinePerceptionError
from deadline_perception.execution_path import ExecutionPath, PathSpace
from deadline_perception.latency.json_file import JsonFileError, read_object, write_text_atomically

_LOGIT_LIMIT = 1e-3  # average precision nearer to 0 or 1 than this is taken to be this near
_RIDGE = 1e-3  # weight on small steps; only settles what the measurements leave open


class QualityTableError(DeadlinePerceptionError):
    """A table of path qualities that cannot be used, and why."""


def _settings(paths: Sequence[ExecutionPath]) -> np.ndarray:
    """Every operator's setting as a number that grows with the work: float64 `[paths, operators]`."""
    return np.array([[*(0.0 if skipped else 1.0 for skipped in path.skip), path.width, path.pyramid_width,
                      math.log(path.proposals), float(path.head)] for path in paths], dtype=np.float64)


class AdditiveModel:
    """Average precision on a logistic scale as a sum of one effect per operator.

    Fitted by least squares without negative steps.

    Args:
        paths: measured paths, at least 1, all with the same number of skip operators.
        values: their average precision in [0, 1].

    Raises:
        ValueError: there is nothing to fit, or the paths are of different networks.
    """

    def __init__(self, paths: Sequence[ExecutionPath], values: Sequence[float]) -> None:
        if not paths or len({len(path.skip) for path in paths}) != 1:
            raise ValueError(f'{len(paths)} measured paths, expected at least 1, all of one network')
        self._skips = len(paths[0].skip)
        self._levels = [np.unique(column) for column in _settings(paths).T]
        steps = self._steps(paths)
        kept = np.clip(np.asarray(values, dtype=np.float64), _LOGIT_LIMIT, 1 - _LOGIT_LIMIT)
        target = np.log(kept / (1 - kept))
        # The constant may be negative, so it has one column of either sign; the last rows keep open steps small.
        columns = np.hstack([np.ones((len(steps), 1)), -np.ones((len(steps), 1)), steps])
        ridge = np.hstack([np.zeros((steps.shape[1], 2)), math.sqrt(_RIDGE) * np.eye(steps.shape[1])])
        found = nnls(np.vstack([columns, ridge]), np.concatenate([target, np.zeros(steps.shape[1])]))[0]
        self._constant = found[0] - found[1]
        self._weights = found[2:]

    def predict(self, paths: Sequence[ExecutionPath]) -> np.ndarray:
        """Average precision of paths: float64 `[paths]`, in [0, 1].

        Raises:
            ValueError: a path has another number of skip operators than the measured ones.
        """
        for path in paths:
            if len(path.skip) != self._skips:
                raise ValueError(f'path {path} has {len(path.skip)} skip operators, expected {self._skips}')
        if not paths:
            return np.zeros(0)
        return 1 / (1 + np.exp(-self._constant - self._steps(paths) @ self._weights))

    def _steps(self, paths: Sequence[ExecutionPath]) -> np.ndarray:
        """How far each path has climbed each step: `[paths, steps]`, in [0, 1]."""
        return np.hstack([np.clip((settings[:, None] - levels[:-1]) / np.diff(levels), 0.0, 1.0)
                          for settings, levels in zip(_settings(paths).T, self._levels)])


class PathQuality:
    """Expected average precision of every path of one network.

    Args:
        known: measured paths and their values in [0, 1], at least 1.
        weights_hash: of the weights they were measured on, empty when none were.
        dataset: what they were measured on.
        metric: what was measured.
        predicts: whether paths that were not measured get a predicted value; else only the given ones have any.

    Raises:
        QualityTableError: a value lies outside [0, 1], there is none, or the paths are of different networks.
    """

    def __init__(self, known: Mapping[ExecutionPath, float], *, weights_hash: str = '', dataset: str = '',
                 metric: str = 'ap', predicts: bool = True) -> None:
        for path, value in known.items():
            if not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
                raise QualityTableError(f'{metric} of path {path} is {value!r}, expected a number in [0, 1]')
        if not known or len({len(path.skip) for path in known}) != 1:
            raise QualityTableError(f'{len(known)} measured paths, expected at least 1, all of one network')
        self.known = {path: float(value) for path, value in known.items()}
        self.weights_hash = weights_hash
        self.dataset = dataset
        self.metric = metric
        self._model = self._fit(list(self.known)) if predicts else None

    @classmethod
    def load(cls, file: Path | str) -> PathQuality:
        """Reads `{"weights_hash", "dataset", "metric", "paths": {name: {"ap": 0.31, ...}}}`; `metric` says which
        of a path's values counts, `ap` unless given.

        Raises:
            QualityTableError: the file cannot be read or holds something else; the message names it.
        """
        try:
            content = read_object(Path(file), 'path qualities')
            metric = str(content.get('metric', 'ap'))
            known = {ExecutionPath.parse(name): values[metric] for name, values in content['paths'].items()}
            return cls(known, weights_hash=str(content['weights_hash']), dataset=str(content.get('dataset', '')),
                       metric=metric)
        except JsonFileError as error:
            raise QualityTableError(str(error)) from error
        except KeyError as error:
            raise QualityTableError(f'path qualities {file} lack {error}') from error
        except (ValueError, TypeError, AttributeError, QualityTableError) as error:
            raise QualityTableError(f'path qualities {file} hold something else: {error}') from error

    def save(self, file: Path | str) -> None:
        """Writes what `load` reads; a reader finds the old file or the new one, never half of it."""
        content = {'weights_hash': self.weights_hash, 'dataset': self.dataset, 'metric': self.metric,
                   'paths': {str(path): {self.metric: value} for path, value in self.known.items()}}
        write_text_atomically(Path(file), json.dumps(content, indent=1) + '\n')

    @classmethod
    def from_forecast(cls, path_space: PathSpace, forecast: Forecast) -> PathQuality:
        """Stand-in without any measurement: grows with the logarithm of the path's time, from 0 to 1.

        `measured` is False on it, and `weights_hash` empty.
        """
        paths = list(path_space)
        times_ms = np.log(np.maximum(np.asarray(forecast.table(paths, 0), dtype=np.float64), 1e-6))
        spread = float(times_ms.max() - times_ms.min())
        values = (times_ms - times_ms.min()) / spread if spread > 0 else np.ones(len(paths))
        return cls(dict(zip(paths, values.tolist())), metric='log time', predicts=False)

    @property
    def measured(self) -> bool:
        """False for a stand-in made from forecasts, which predicts nothing."""
        return self._model is not None

    def check(self, weights_hash: str) -> None:
        """Refuses the table of other weights.

        Raises:
            QualityTableError: the hashes differ; the message names both.
        """
        if self.measured and self.weights_hash != weights_hash:
            raise QualityTableError(f'path qualities were measured on weights {self.weights_hash!r}, expected '
                                    f'{weights_hash!r}; measure them again: deadline-perception evaluate --paths sample')

    def quality(self, path: ExecutionPath) -> float:
        """Expected average precision of one path, in [0, 1].

        Raises:
            ValueError: the path belongs to another network.
        """
        value = self.known.get(path)
        return float(self.table([path])[0]) if value is None else value

    def table(self, paths: Sequence[ExecutionPath]) -> np.ndarray:
        """The same for many paths: float64 `[len(paths)]`.

        Raises:
            ValueError: a path belongs to another network.
        """
        unknown = [path for path in paths if path not in self.known]
        if unknown and self._model is None:
            raise ValueError(f'path {unknown[0]} is not one of the {len(self.known)} forecast paths')
        predicted = iter(self._model.predict(unknown)) if unknown else iter(())
        return np.array([self.known[path] if path in self.known else next(predicted) for path in paths])

    def leave_one_out_error(self) -> float:
        """Mean absolute error of predicting each measured path from all others; NaN for fewer than 2 or a stand-in.

        Fits the model once per measured path: seconds for some hundred.
        """
        if self._model is None or len(self.known) < 2:
            return math.nan
        paths = list(self.known)
        errors = [abs(self._fit(paths[:i] + paths[i + 1:]).predict([path])[0] - self.known[path])
                  for i, path in enumerate(paths)]
        return float(np.mean(errors))

    def _fit(self, paths: list[ExecutionPath]) -> AdditiveModel:
        return AdditiveModel(paths, [self.known[path] for path in paths])
