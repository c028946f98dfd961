"""What the objects before the camera are like, and how good paths are for them.

How well a path sees depends on how large things are: far objects want scale, near ones do not. So a path has a quality
for every class and size of object, and what is expected of it now is their mean over the objects that the last frames
had, and over what may enter: one object of every size, of an average class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from deadline_perception.core.detections import Detections, box_sizes
from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.core.json_file import JsonFileError, read_object
from deadline_perception.core.number import number_or_nan
from deadline_perception.decision.path_quality import QualityTableError
from deadline_perception.decision.policy import Quality

# Sizes of objects, as roots of their shares of the image, that tell bins apart: below the first to above the last.
SIZE_EDGES = (0.04, 0.08, 0.16, 0.32)
SIZE_NAMES = ('below 4 %', '4 to 8 %', '8 to 16 %', '16 to 32 %', 'above 32 %')
_ENTERING = 1.0  # objects of each size that may enter
_NEWEST = 0.3  # share that the newest frame has in what is known of the last ones
_ENOUGH = 20.0  # objects of a class and size that weigh as much as those of all classes
_RIDGE = 0.5  # keeps effects of settings small that few measured paths tell apart
_TRUST = 0.5  # of what a path was measured to be beyond what its settings say; the rest is chance
_LIMIT = 1e-3


class Scene:
    """Weights of classes and sizes now. `update` belongs to one thread; any may read `weights`.

    Args:
        class_names: that labels index.
        class_weights: of a class, such as `person`, over the others, > 0; 1 where none is given.

    Attributes:
        weights: float64 `[classes * bins]`, bins of the first class first; sums to 1.
        followers: are called with the weights when these change.

    Raises:
        ValueError: a class is not there, or a weight is not positive.
    """

    def __init__(
        self,
        class_names: Sequence[str],
        class_weights: Mapping[str, float] | None = None,
    ) -> None:
        class_weights = class_weights or {}
        unknown = set(class_weights) - set(class_names)
        numbers = map(number_or_nan, class_weights.values())
        if unknown or not all(0.0 < one < np.inf for one in numbers):
            raise ValueError(
                f'class_weights are {dict(class_weights)}, expected numbers above 0 for some of '
                f'{", ".join(class_names)}'
            )
        self._class_weights = np.array([class_weights.get(name, 1.0) for name in class_names])
        self._seen = np.zeros((len(class_names), len(SIZE_NAMES)))
        self.followers: list[Callable[[np.ndarray], None]] = []
        self._mix()

    def update(self, found: Detections, image_size: tuple[int, int]) -> None:
        """Takes in the objects of a frame, each by its score; boxes larger than the image count to the largest size."""
        now = np.zeros_like(self._seen)
        bins = np.searchsorted(SIZE_EDGES, box_sizes(found.boxes_xyxy_px, image_size), 'right')
        np.add.at(now, (found.labels, bins), found.scores)
        self._seen += _NEWEST * (now - self._seen)
        self._mix()

    def _mix(self) -> None:
        entering = _ENTERING / len(self._class_weights)
        weights = (self._class_weights[:, None] * (self._seen + entering)).reshape(-1)
        self.weights = weights / weights.sum()
        for renew in self.followers:
            renew(self.weights)


class SizeQuality:
    """Average precision of every path for objects of each class and size.

    What a size has beyond all objects, on a logistic scale, is a sum of effects of the path's settings; none is taken
    to be better for being larger. A measured path lies between its measurement and that, any other has the latter.

    Args:
        measured: by path, average precision `[classes, bins]` in [0, 1]; NaN where no object was known. At least one.
        objects: how many of each class and size were known, `[classes, bins]`.
        overall: average precision of every path over all objects; stands where no object of a size was known.

    Raises:
        ValueError: nothing was measured, shapes differ, or a value lies outside its range.
    """

    def __init__(
        self,
        measured: Mapping[ExecutionPath, np.ndarray],
        objects: np.ndarray,
        overall: Quality,
    ) -> None:
        if not measured or objects.ndim != 2 or objects.shape[1] != len(SIZE_NAMES):
            raise ValueError(
                f'{len(measured)} paths were measured for {objects.shape} classes and sizes, expected at '
                f'least one path and {len(SIZE_NAMES)} sizes'
            )
        for path, table in measured.items():
            known = table[~np.isnan(table)]
            if table.shape != objects.shape or not ((known >= 0.0) & (known <= 1.0)).all():
                raise ValueError(
                    f'qualities of path {path} by size are {table.tolist()}, expected numbers in [0, 1] of the '
                    f'shape {objects.shape}'
                )
        self._overall, paths = overall, list(measured)
        of_all = np.asarray(overall.table(paths))
        shrunk = np.array(
            [_shrunk(table, objects, one) for table, one in zip(measured.values(), of_all)]
        ).reshape(len(paths), -1)
        beyond, features = _logit(shrunk) - _logit(of_all)[:, None], self._features(paths)
        self._mean = beyond.mean(axis=0)
        ridge = _RIDGE * np.eye(features.shape[1])
        self._effects = np.linalg.solve(
            features.T @ features + ridge, features.T @ (beyond - self._mean)
        )
        predicted = self._predicted(paths)
        self._known = dict(zip(paths, predicted + _TRUST * (shrunk - predicted)))

    @classmethod
    def load(
        cls,
        file: Path,
        path_space: PathSpace,
        class_names: Sequence[str],
        overall: Quality,
    ) -> SizeQuality | None:
        """Reads the sizes of a table of qualities, see `PathQuality.load`; None where it has none.

        Beside what that reads: `"sizes": {"edges": [0.04, ...], "classes": [name, ...], "objects": [[n, ...], ...]}`,
        and of each path `"by_size": [[ap or null, ...], ...]`, by class and size.

        Raises:
            QualityTableError: the file cannot be read, its edges or classes are others, or a value is none.
        """
        try:
            content = read_object(file, 'path qualities')
            if 'sizes' not in content:
                return None
            sizes = content['sizes']
            if tuple(sizes['edges']) != SIZE_EDGES or list(sizes['classes']) != list(class_names):
                raise ValueError(
                    f'edges are {sizes["edges"]} and classes {sizes["classes"]}, expected {SIZE_EDGES} and '
                    f'{list(class_names)}'
                )
            rows = {path_space.parse(name): row for name, row in content['paths'].items()}
            measured = {
                path: np.array(row['by_size'], np.float64)
                for path, row in rows.items()
                if row.get('by_size') is not None
            }
            return cls(measured, np.array(sizes['objects'], np.float64), overall)
        except JsonFileError as error:
            raise QualityTableError(str(error)) from error
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise QualityTableError(f'sizes of path qualities {file}: {error}') from error

    def table(self, paths: Sequence[ExecutionPath]) -> np.ndarray:
        """Of many paths: float64 `[paths, classes * bins]`, in [0, 1]."""
        unknown = [path for path in paths if path not in self._known]
        predicted = iter(self._predicted(unknown)) if unknown else iter(())
        return np.array(
            [self._known[path] if path in self._known else next(predicted) for path in paths]
        )

    def _predicted(self, paths: Sequence[ExecutionPath]) -> np.ndarray:
        logits = _logit(np.asarray(self._overall.table(paths)))[:, None] + self._mean
        return 1.0 / (1.0 + np.exp(-logits - self._features(paths) @ self._effects))

    @staticmethod
    def _features(paths: Sequence[ExecutionPath]) -> np.ndarray:
        """One column for every setting of every operator: `[paths, settings]`."""
        sizes = paths[0].space.sizes
        begins = np.cumsum([0, *sizes])
        features = np.zeros((len(paths), max(int(begins[-1]), 1)))
        for row, path in enumerate(paths):
            features[row, begins[:-1] + path.settings] = 1.0
        return features


def _shrunk(table: np.ndarray, objects: np.ndarray, overall: float) -> np.ndarray:
    """Average precision of classes and sizes, the nearer to that of all classes the fewer objects there were."""
    known = np.where(np.isnan(table), 0.0, table)
    counts = np.where(np.isnan(table), 0.0, objects)
    found = counts * known
    pooled = (found.sum(axis=0) + _ENOUGH * overall) / (counts.sum(axis=0) + _ENOUGH)
    return (found + _ENOUGH * pooled) / (counts + _ENOUGH)


def _logit(values: np.ndarray) -> np.ndarray:
    kept = np.clip(values, _LIMIT, 1.0 - _LIMIT)
    return np.log(kept / (1.0 - kept))
