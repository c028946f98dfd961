"""What this package's own detectors and their runs have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.engines.eager import Held
from deadline_perception.engines.segment_run import SegmentRun
from deadline_perception.engines.shaped_network import ShapedNetwork
from deadline_perception.networks.multi_path.declaration import scale_of, scaled_size
from deadline_perception.networks.multi_path.score_calibration import ScoreCalibration


class OwnDetector(ShapedNetwork):
    """A detector whose scores can be calibrated. By itself it has no layers, for an engine that has its segments.

    Attributes:
        score_calibration: what makes its scores probabilities; None where nobody has fitted one.
        layers: names of layers and of their parts, as far as their order decides that in which weights are hashed.
        module: loads the same detector with its layers.
        inference: a context within which PyTorch, where it computes, keeps nothing for gradients.
    """

    result_type = Detections
    score_calibration: ScoreCalibration | None = None
    layers: str
    module: Callable[[], Any]
    inference: Callable[[], AbstractContextManager[object]] = nullcontext

    def compute(
        self,
        segment: str,
        path: ExecutionPath,
        values: Any,
    ) -> Any:
        """What a segment makes of tensors, by the layers, which are loaded when they are first asked for."""
        module = self.module()
        with module.inference():
            return module.compute(segment, path, values)

    def hashed_first(self, name: str) -> list[int]:
        """Sorts names of weights as they are hashed."""
        known = f' {self.layers} '
        return [
            int(part) if part.isdigit() else known.find(f' {part} ') for part in name.split('.')
        ]

    def input_size_on(self, path: ExecutionPath) -> tuple[int, int]:
        """Height and width in px that images are brought to on a path."""
        return scaled_size(self.input_size, scale_of(path))


class DetectorRun(SegmentRun):
    """One frame of such a detector, whose segments hand on the values of an engine."""

    def __init__(
        self,
        network: OwnDetector,
        image_bgr: np.ndarray,
        path: ExecutionPath,
    ) -> None:
        super().__init__(network.path_space, path, network.device)
        self.network = network
        self._calibration = network.score_calibration
        self._engine = network.engine
        self._image = image_bgr
        self._values: dict[str, Held] = {}
        self._detections = Detections.none()
        self._number = network.engine.begin_frame()

    def compute(self, name: str, key: str) -> None:
        """See `SegmentRun`.

        Raises:
            ValueError: the image is none, or the engine's buffers hold another frame by now.
        """
        self._engine.check_frame(self._number)
        with self.network.inference():
            self.compute_segment(name, key)

    @abstractmethod
    def compute_segment(self, name: str, key: str) -> None:
        """Runs one segment by the engine; arguments as above."""

    def result(self) -> Detections:
        """See `SegmentRun`: the objects found, in px of the original image."""
        self.check_finished()
        return self._detections

    def _calibrated(
        self,
        boxes: np.ndarray,
        scores: np.ndarray,
        labels: np.ndarray,
    ) -> Detections:
        if self._calibration is None:
            return Detections(boxes, scores, labels)
        scores = self._calibration.apply(scores, labels)
        order = np.argsort(-scores, kind='stable')
        return Detections(boxes[order], scores[order], labels[order])
