"""How good a sequence of passes is: of every class and size of object what the better of its looks was measured to be.

What both looks find beyond the better of them is nothing in the mean of seven kinds of images (`together` of
benchmarks/results/first_pass.json).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.decision.policy import Quality
from deadline_perception.decision.scene import SIZE_NAMES, Scene, SizeQuality
from deadline_perception.networks.passes import PassesNetwork


@dataclass(frozen=True, eq=False)
class LookQuality:
    """What is known of the paths of one network.

    Attributes:
        overall: over all objects.
        by_size: by class and size; None where nobody measured that.
    """

    overall: Quality
    by_size: SizeQuality | None = None


class PassQuality:
    """Expected average precision of the paths of a `PassesNetwork`; a `Quality`.

    Args:
        network: the passes.
        fine: of the network of the closer look.
        coarse: of that of the first look.
        class_weights: see `Scene`.

    Attributes:
        scene: weighs classes and sizes; whoever has results tells it what the frames hold.
    """

    def __init__(
        self,
        network: PassesNetwork,
        fine: LookQuality,
        coarse: LookQuality,
        class_weights: Mapping[str, float] | None = None,
    ) -> None:
        self._network = network
        self._fine = fine
        self._coarse = coarse
        self.scene = Scene(network.class_names, class_weights)
        self._unknown_scene = self.scene.weights

    def quality(self, path: ExecutionPath) -> float:
        """Expected average precision of one path in a scene of which nothing is known, in [0, 1]."""
        return float(self.table([path])[0])

    def table(self, paths: Sequence[ExecutionPath]) -> np.ndarray:
        """The same for many paths: float64 `[paths]`."""
        return self.by_size(paths) @ self._unknown_scene

    def by_size(self, paths: Sequence[ExecutionPath]) -> np.ndarray:
        """Average precision of classes and sizes, see `Scene.weights`: float64 `[paths, classes * bins]`."""
        parts = [self._network.parts(path) for path in paths]
        coarse = self._looks(
            [part[0] for part in parts], self._coarse, self._network.coarse.class_names
        )
        fine = self._looks([part[1] for part in parts], self._fine, self._network.fine.class_names)
        return np.maximum(coarse, fine).reshape(len(paths), -1)

    def pooled_by_size(self, paths: Sequence[ExecutionPath]) -> np.ndarray:
        """The same in the mean of all classes: float64 `[paths, bins]`."""
        return self.by_size(paths).reshape(len(paths), -1, len(SIZE_NAMES)).mean(axis=1)

    def _looks(
        self,
        paths: Sequence[ExecutionPath | None],
        quality: LookQuality,
        class_names: Sequence[str],
    ) -> np.ndarray:
        """Of one look on many paths: `[paths, classes, bins]`; 0 where it is skipped."""
        distinct = list(dict.fromkeys(path for path in paths if path is not None))
        found = np.zeros((len(paths), len(self._network.class_names), len(SIZE_NAMES)))
        if not distinct:
            return found
        row = {path: number for number, path in enumerate(distinct)}
        if quality.by_size is None:
            table = np.broadcast_to(
                np.asarray(quality.overall.table(distinct))[:, None, None],
                (len(distinct), len(class_names), len(SIZE_NAMES)),
            )
        else:
            table = quality.by_size.table(distinct).reshape(len(distinct), len(class_names), -1)
        places = [self._network.class_names.index(name) for name in class_names]
        for number, path in enumerate(paths):
            if path is not None:
                found[number, places] = table[row[path]]
        return found
