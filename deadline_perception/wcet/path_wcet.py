"""End-to-end bound of an execution path: its layers' bounds, and a regression for the steps between them.

Multi-path paper, section IV-D. Steps are what is no layer: resizing the image, top-k and decoding, dispatch of every
call. They are taken to be linear in the number of layers and in the boxes that are sorted and compared.
"""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deadline_perception.wcet.interval_fit import covering_weights
from deadline_perception.wcet.interval_model import CoveringModel
from deadline_perception.wcet.layers import LayerShape, SuppressionShape


@dataclass(frozen=True)
class PathWcet:
    """Bound on the time of a path on one processor in one state of contention.

    Attributes:
        models: bound of a layer, by family.
        step_ms: time of all steps between layers: once a frame, per layer, per box; ms.
        calibration_factor: factor by which paths that took no part in a fit exceeded it, at least 1.

    Raises:
        ValueError: a time is negative, or the calibration factor is below 1.
    """

    models: Mapping[str, CoveringModel]
    step_ms: tuple[float, float, float] = (0.0, 0.0, 0.0)
    calibration_factor: float = 1.0

    def __post_init__(self) -> None:
        if not all(0 <= value < math.inf for value in self.step_ms):
            raise ValueError(f'step_ms is {self.step_ms}, expected times of at least 0 ms')
        if not 1 <= self.calibration_factor < math.inf:
            raise ValueError(f'calibration_factor of path bound is {self.calibration_factor}, expected at least 1')

    def wcet_ms(self, layers: Sequence[LayerShape]) -> float:
        """The bound of a path with these layers, ms.

        Raises:
            ValueError: no model covers a layer's family.
        """
        return self.calibration_factor * (self.layers_ms(layers) + float(np.dot(_steps(layers), self.step_ms)))

    def layers_ms(self, layers: Sequence[LayerShape]) -> float:
        """The part of the bound that the layers take, ms.

        Raises:
            ValueError: no model covers a layer's family.
        """
        missing = sorted({layer.family for layer in layers} - set(self.models))
        if missing:
            raise ValueError(f'no layer model for {", ".join(missing)}, expected one of each family in the path')
        return math.fsum(self.models[layer.family].wcet_ms(layer) for layer in layers)


def fit_path_wcet(models: Mapping[str, CoveringModel],
                  paths: Sequence[tuple[Sequence[LayerShape], float]]) -> PathWcet:
    """Finds the steps between layers such that no measured path exceeds its bound, with the least over-estimate.

    Args:
        models: bound of a layer, by family.
        paths: layers and longest observed time in ms of each measured path, at least 2.

    Raises:
        ValueError: fewer than two paths, a time that is not positive, or a family without model.
    """
    if len(paths) < 2:
        raise ValueError(f'{len(paths)} measured paths, expected at least 2')
    for layers, worst_ms in paths:
        if not 0 < worst_ms < math.inf:
            raise ValueError(f'longest time of a path is {worst_ms} ms, expected more than 0 ms')
    calibration_factor = 1.0
    for left_out, (layers, worst_ms) in enumerate(paths):
        fitted = _cover(models, [path for i, path in enumerate(paths) if i != left_out])
        calibration_factor = max(calibration_factor, worst_ms / fitted.wcet_ms(layers))
    return PathWcet(models, _cover(models, paths).step_ms, calibration_factor)


def _cover(models: Mapping[str, CoveringModel], paths: Sequence[tuple[Sequence[LayerShape], float]]) -> PathWcet:
    bare = PathWcet(models)
    worst_ms = np.array([worst for _, worst in paths])
    missing_ms = worst_ms - np.array([bare.layers_ms(layers) for layers, _ in paths])
    weights = covering_weights(np.array([_steps(layers) for layers, _ in paths]), missing_ms, worst_ms)
    return PathWcet(models, tuple(weights.tolist()))


def _steps(layers: Sequence[LayerShape]) -> tuple[float, float, float]:
    """What the steps of a path are linear in: one frame, its layers, its boxes."""
    return 1.0, float(len(layers)), float(sum(layer.boxes for layer in layers if isinstance(layer, SuppressionShape)))
