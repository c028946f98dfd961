"""What this package's own detectors and their runs have in common."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from deadline_perception.core.detections import Detections
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.engines.segment_run import SegmentRun
from deadline_perception.engines.torch_network import TorchModule
from deadline_perception.networks.multi_path.declaration import scale_of, scaled_size
from deadline_perception.networks.multi_path.score_calibration import ScoreCalibration


class OwnDetector(TorchModule):
    """A detector whose scores can be calibrated.

    Attributes:
        score_calibration: what makes its scores probabilities; None where nobody has fitted one.
    """

    result_type = Detections
    score_calibration: ScoreCalibration | None = None

    def input_size_on(self, path: ExecutionPath) -> tuple[int, int]:
        """Height and width in px that images are brought to on a path."""
        return scaled_size(self.input_size, scale_of(path))


class DetectorRun(SegmentRun):
    """One frame of such a detector, whose segments hand on the values of an engine."""

    def __init__(self, network: OwnDetector, image_bgr: np.ndarray, path: ExecutionPath) -> None:
        super().__init__(network.path_space, path, network.device)
        self.network = network
        self._calibration = network.score_calibration
        self._engine = network.engine
        self._image = image_bgr
        self._values: dict[str, tuple[Tensor, ...]] = {}
        self._detections = Detections.none()
        self._number = network.engine.begin_frame()

    def fork(self) -> DetectorRun:
        """See `SegmentRun`.

        Raises:
            ValueError: the engine's buffers serve one run at a time.
        """
        if self._engine.reuses_buffers:
            raise ValueError(
                f'engine {self._engine.identity} reuses its buffers, expected one that runs can share'
            )
        other = super().fork()
        other._values = dict(self._values)
        return other

    def result(self) -> Detections:
        """See `SegmentRun`: the objects found, in px of the original image."""
        self.check_finished()
        return self._detections

    def _calibrated(self, boxes: np.ndarray, scores: np.ndarray, labels: np.ndarray) -> Detections:
        if self._calibration is None:
            return Detections(boxes, scores, labels)
        scores = self._calibration.apply(scores, labels)
        order = np.argsort(-scores, kind='stable')
        return Detections(boxes[order], scores[order], labels[order])
