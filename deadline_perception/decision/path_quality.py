"""How good the detections of every path are: what the measured paths together say, and the path's own measurement.

Few images make measurements noisy, and the best-looking of many paths is partly the luckiest. So a measured path lies
between its measurement and what a model of all measured paths says of it, the nearer to the model the more of their
distance is chance (best linear unbiased prediction; the share as in Efron and Morris 1975, "Data analysis using Stein's
estimator"), but never further from its measurement than one standard error: paths that every training step runs do
better than any model of all paths says (Efron and Morris 1972, limited translation). A path that was not measured has
the model alone. Paths that are so chosen look 0.2 AP better than they are on other images, by measurements alone 0.5
(measured: benchmarks/path_accuracy.py of commit 7f184f1).

The model adds up one effect per operator and two per pair of operators. An operator's effect is a sum of steps that
are never negative, from each measured setting to the next larger one; a setting that was not measured lies between its
neighbours, and beyond the outermost ones the effect stays level. A pair's effects are one that takes both operators to
be large, and one that either alone brings about; neither is negative. So a larger setting is never predicted to do
harm. How far predictions are off, `evaluate` tells.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from deadline_perception.core.errors import DeadlinePerceptionError, command_line
from deadline_perception.core.execution_path import MODEL, ExecutionPath, PathSpace
from deadline_perception.core.json_file import JsonFileError, read_object
from deadline_perception.core.least_squares import non_negative_least_squares
from deadline_perception.core.replaced_file import replace_file
from deadline_perception.timing.time_model import Forecast

TABLE_VERSION = 2  # of files; from 2 on with sizes of objects, see `decision.scene.SizeQuality`
_LOGIT_LIMIT = 1e-3  # average precision nearer to 0 or 1 than this is taken to be this near
_RIDGE = 0.01  # keeps steps small that the measurements leave open
_PAIR_RIDGE = 0.1  # what one operator explains is not explained by a pair


class QualityTableError(DeadlinePerceptionError):
    """A table of path qualities that cannot be used, and why."""


def _positions(paths: Sequence[ExecutionPath]) -> np.ndarray:
    """Where every operator is set on its scale of work: float64 `[paths, operators]`."""
    return np.array(
        [
            [
                operator.positions[index]
                for operator, index in zip(path.space.operators, path.settings)
            ]
            for path in paths
        ],
        dtype=np.float64,
    ).reshape(len(paths), -1)


class MonotoneModel:
    """Average precision on a logistic scale as a sum of effects of operators and of pairs of them.

    Fitted by least squares without negative effects; where a network is a set of models, each of them alone, since the
    paths of one tell nothing of another's.

    Args:
        paths: measured paths of one network, at least 1.
        values: their average precision in [0, 1].
    """

    def __init__(self, paths: Sequence[ExecutionPath], values: Sequence[float]) -> None:
        self._space = paths[0].space
        measured = np.asarray(values, dtype=np.float64)
        self._effects = {
            model: _Effects([paths[at] for at in places], measured[places])
            for model, places in by_model(paths).items()
        }

    def predict(self, paths: Sequence[ExecutionPath]) -> np.ndarray:
        """Average precision of paths: float64 `[paths]`, in [0, 1].

        Raises:
            ValueError: a path is of another network than the measured ones, or of a model of which none was measured.
        """
        for path in paths:
            if path not in self._space:
                raise ValueError(
                    f'path {path} is of another network than the measured ones, such as '
                    f'{self._space.largest}'
                )
        predicted = np.zeros(len(paths))
        for model, places in by_model(paths).items():
            if model not in self._effects:
                raise ValueError(
                    f'path {paths[places[0]]} is of a model without a measured path, expected one at '
                    'least'
                )
            predicted[places] = self._effects[model].predict([paths[at] for at in places])
        return predicted


def by_model(paths: Sequence[ExecutionPath]) -> dict[tuple[int, ...], list[int]]:
    """Places of the paths by the settings of their operators of the kind model; all of them where there is none."""
    if not paths:
        return {}
    choosing = [
        at for at, operator in enumerate(paths[0].space.operators) if operator.kind == MODEL
    ]
    found: dict[tuple[int, ...], list[int]] = {}
    for number, path in enumerate(paths):
        found.setdefault(tuple(path.settings[at] for at in choosing), []).append(number)
    return found


class _Effects:
    """The effects of the operators of one model; see `MonotoneModel`."""

    def __init__(self, paths: Sequence[ExecutionPath], values: np.ndarray) -> None:
        self._levels = [np.unique(column) for column in _positions(paths).T]
        steps, pairs = self._steps(paths), self._pairs(paths)
        effects = np.hstack([steps, pairs])
        kept = np.clip(values, _LOGIT_LIMIT, 1 - _LOGIT_LIMIT)
        target = np.log(kept / (1 - kept))
        # The constant may be negative, so it has one column of either sign; the last rows keep open effects small.
        columns = np.hstack([np.ones((len(effects), 1)), -np.ones((len(effects), 1)), effects])
        ridge = np.repeat(np.sqrt([_RIDGE, _PAIR_RIDGE]), [steps.shape[1], pairs.shape[1]])
        rows = np.hstack([np.zeros((len(ridge), 2)), np.diag(ridge)])
        found = non_negative_least_squares(
            np.vstack([columns, rows]), np.concatenate([target, np.zeros(len(ridge))])
        )
        self._constant = found[0] - found[1]
        self._weights = found[2:]

    def predict(self, paths: Sequence[ExecutionPath]) -> np.ndarray:
        effects = np.hstack([self._steps(paths), self._pairs(paths)])
        return 1 / (1 + np.exp(-self._constant - effects @ self._weights))

    def _steps(self, paths: Sequence[ExecutionPath]) -> np.ndarray:
        """How far each path has climbed each step: `[paths, steps]`, in [0, 1]."""
        return np.hstack(
            [np.zeros((len(paths), 0))]
            + [
                np.clip((settings[:, None] - levels[:-1]) / np.diff(levels), 0.0, 1.0)
                for settings, levels in zip(_positions(paths).T, self._levels)
            ]
        )

    def _pairs(self, paths: Sequence[ExecutionPath]) -> np.ndarray:
        """For each pair of operators, how far both and how far either: `[paths, 2 * pairs]`, in [0, 1]."""
        shares = [
            np.clip((settings - levels[0]) / (levels[-1] - levels[0]), 0.0, 1.0)
            for settings, levels in zip(_positions(paths).T, self._levels)
            if len(levels) > 1
        ]
        both = [one * other for one, other in itertools.combinations(shares, 2)]
        either = [one + other - one * other for one, other in itertools.combinations(shares, 2)]
        return np.array(both + either).reshape(len(both) + len(either), len(paths)).T


class PathQuality:
    """Expected average precision of every path of one network.

    Args:
        known: measured paths and their values in [0, 1], at least 1.
        errors: standard error of each measurement as `chance_errors` gives it; a path without one has 0, and its
            measurement is taken for the truth.
        weights_hash: of the weights they were measured on, empty when none were.
        dataset: what they were measured on.
        metric: what was measured.
        predicts: whether paths that were not measured get a predicted value; else only the given ones have any.

    Raises:
        QualityTableError: a value lies outside [0, 1] or an error below 0, there is no value, or the paths are of
            different networks.

    Attributes:
        known: the measured values.
        errors: their standard errors, for the same paths.
        trust: share of the measured paths' distances from the model that is kept as their own, in [0, 1].
    """

    def __init__(
        self,
        known: Mapping[ExecutionPath, float],
        *,
        errors: Mapping[ExecutionPath, float] | None = None,
        weights_hash: str = '',
        dataset: str = '',
        metric: str = 'ap',
        predicts: bool = True,
    ) -> None:
        for path, value in known.items():
            if not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
                raise QualityTableError(
                    f'{metric} of path {path} is {value!r}, expected a number in [0, 1]'
                )
        if not known or any(path not in next(iter(known)).space for path in known):
            raise QualityTableError(
                f'{len(known)} measured paths, expected at least 1, all of one network'
            )
        self.known = {path: float(value) for path, value in known.items()}
        self.errors = {path: (errors or {}).get(path, 0.0) for path in known}
        for path, error in self.errors.items():
            if not isinstance(error, (int, float)) or not 0.0 <= error <= 1.0:
                raise QualityTableError(
                    f'standard error of path {path} is {error!r}, expected a number in [0, 1]'
                )
        self.weights_hash = weights_hash
        self.dataset = dataset
        self.metric = metric
        self._model = (
            MonotoneModel(list(self.known), list(self.known.values())) if predicts else None
        )
        self._expected, self.trust = self._combined()

    @classmethod
    def load(cls, file: Path | str, path_space: PathSpace) -> PathQuality:
        """Reads `{"weights_hash", "dataset", "metric", "paths": {name: {"ap": 0.31, "ap_error": 0.01, ...}}}`; `metric`
        says which of a path's values counts, `ap` unless given; its error is 0 where none is given.

        Args:
            file: where it lies.
            path_space: of the network whose paths it names.

        Raises:
            QualityTableError: the file cannot be read or holds something else; the message names it.
        """
        try:
            content = read_object(Path(file), 'path qualities')
            if content.get('version', 1) not in range(1, TABLE_VERSION + 1):
                raise ValueError(
                    f'version is {content["version"]!r}, expected at most {TABLE_VERSION}'
                )
            metric = str(content.get('metric', 'ap'))
            rows = {path_space.parse(name): values for name, values in content['paths'].items()}
            errors = {path: values.get(f'{metric}_error', 0.0) for path, values in rows.items()}
            missing = {
                setting for operator in path_space.of_kind(MODEL) for setting in operator.settings
            } - {path[operator.name] for path in rows for operator in path_space.of_kind(MODEL)}
            if missing:
                raise ValueError(
                    f'no path of {", ".join(sorted(map(str, missing)))}, expected one at least of each '
                    f'model'
                )
            return cls(
                {path: values[metric] for path, values in rows.items()},
                errors=errors,
                weights_hash=str(content['weights_hash']),
                dataset=str(content.get('dataset', '')),
                metric=metric,
            )
        except JsonFileError as error:
            raise QualityTableError(str(error)) from error
        except KeyError as error:
            raise QualityTableError(f'path qualities {file} lack {error}') from error
        except (ValueError, TypeError, AttributeError, QualityTableError) as error:
            raise QualityTableError(
                f'path qualities {file} hold something else: {error}'
            ) from error

    def save(self, file: Path | str) -> None:
        """Writes what `load` reads; a reader finds the old file or the new one, never half of it."""
        content = {
            'weights_hash': self.weights_hash,
            'dataset': self.dataset,
            'metric': self.metric,
            'paths': {
                str(path): {self.metric: value, f'{self.metric}_error': self.errors[path]}
                for path, value in self.known.items()
            },
        }
        replace_file(Path(file), json.dumps(content, indent=1) + '\n')

    @classmethod
    def from_forecast(cls, path_space: PathSpace, forecast: Forecast) -> PathQuality:
        """Fallback without any measurement: grows with the logarithm of the path's time, from 0 to 1, and never falls
        where the setting of an operator grows; models of a set are ranked by their times alone.

        `measured` is False on it, and `weights_hash` empty.
        """
        paths = list(path_space)
        times_ms = np.log(np.maximum(np.asarray(forecast.table(paths), dtype=np.float64), 1e-6))
        # Settings ascend in work, so that a path which took less time than a smaller one was mismeasured; models of a
        # set have no order.
        grid = np.full((1, *path_space.sizes), -np.inf)  # a network may have no operator
        places = (np.zeros(len(paths), int), *np.array([path.settings for path in paths]).T)
        grid[places] = times_ms
        for axis, operator in enumerate(path_space.operators, start=1):
            if operator.kind != MODEL:
                grid = np.maximum.accumulate(grid, axis)
        times_ms = grid[places]
        range_ms = float(times_ms.max() - times_ms.min())
        values = (times_ms - times_ms.min()) / range_ms if range_ms > 0 else np.ones(len(paths))
        return cls(dict(zip(paths, values.tolist())), metric='log time', predicts=False)

    @property
    def measured(self) -> bool:
        """False for a fallback made from forecasts, which predicts nothing."""
        return self._model is not None

    def check(self, weights_hash: str) -> None:
        """Refuses the table of other weights.

        Raises:
            QualityTableError: the hashes differ; the message names both.
        """
        if self.measured and self.weights_hash != weights_hash:
            raise QualityTableError(
                f'path qualities were measured on weights {self.weights_hash!r}, expected '
                f'{weights_hash!r}; measure them again: '
                f'{command_line("evaluate --paths sample")}'
            )

    def quality(self, path: ExecutionPath) -> float:
        """Expected average precision of one path, in [0, 1].

        Raises:
            ValueError: the path belongs to another network.
        """
        value = self._expected.get(path)
        return float(self.table([path])[0]) if value is None else value

    def table(self, paths: Sequence[ExecutionPath]) -> np.ndarray:
        """The same for many paths: float64 `[len(paths)]`.

        Raises:
            ValueError: a path belongs to another network.
        """
        unknown = [path for path in paths if path not in self._expected]
        if not unknown:
            return np.array([self._expected[path] for path in paths])
        if self._model is None:
            raise ValueError(
                f'path {unknown[0]} is not one of the {len(self.known)} forecast paths'
            )
        predicted = iter(self._model.predict(unknown))
        return np.array(
            [self._expected[path] if path in self._expected else next(predicted) for path in paths]
        )

    def _combined(self) -> tuple[dict[ExecutionPath, float], float]:
        """Expected value of each measured path, and how much of the distances from the model is kept on average.

        The distances vary by chance and because the model is wrong; what chance does not explain of their mean square
        is the model's own variance. Both are of distances after the fit, which shortens either part alike, so that
        their ratio needs no correction. Neighbouring paths share their chance as they share their true distance.
        """
        if self._model is None or not any(self.errors.values()):
            return self.known, 1.0
        measured, chance = (
            np.array(list(self.known.values())),
            np.array(list(self.errors.values())) ** 2,
        )
        distance = measured - self._model.predict(list(self.known))
        wrong = max(0.0, float(np.mean(distance**2 - chance)))
        by_chance = np.divide(chance, chance + wrong, out=np.zeros(len(chance)), where=chance > 0)
        moves = np.clip(by_chance * distance, -np.sqrt(chance), np.sqrt(chance))
        total = np.abs(distance).sum()
        trust = 1.0 - float(np.abs(moves).sum() / total) if total > 0 else 1.0
        return dict(zip(self.known, np.clip(measured - moves, 0.0, 1.0).tolist())), trust
