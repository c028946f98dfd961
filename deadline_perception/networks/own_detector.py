"""What this package's own detectors and their runs have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from typing import Any

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.opencv import cv2
from deadline_perception.engines.eager import ArrayCompute, Arrays, Held
from deadline_perception.engines.segment_run import SegmentRun, ShapedNetwork, check_image
from deadline_perception.networks.multi_path.declaration import scale_of, scaled_size
from deadline_perception.networks.multi_path.score_calibration import ScoreCalibration

_PADDING = 114, 114, 114  # of the pixels beside an image, as in the training of YOLOX
_FILLED = 0.94  # of a side, by an image that is brought to fill it: grey pixels show nothing


class OwnDetector(ShapedNetwork):
    """A detector whose scores can be calibrated. By itself it has no layers, for an engine that has its segments.

    Its first segment is `pre`, and its last one `post`.

    Attributes:
        config: the shape.
        score_calibration: what makes its scores probabilities; None where nobody has fitted one.
        layers: names of layers and of their parts, as far as their order decides that in which weights are hashed.
        makes: the value that a segment makes, where that is not one of its own name.
        gathers: the value of several sizes of which a segment reads rows, by the segment's name.
        selects: the segment that compares and chooses; empty where none does.
        module: loads the same detector with its layers.
        inference: a context within which PyTorch, where it computes, keeps nothing for gradients.
    """

    result_type = Detections
    score_calibration: ScoreCalibration | None = None
    config: Any
    layers: str
    makes: Mapping[str, str] = {}
    gathers: Mapping[str, str] = {}
    selects = ''
    module: Callable[[], Any]
    inference: Callable[[], AbstractContextManager[object]] = nullcontext

    def declare(
        self,
        config: Any,
        class_names: tuple[str, ...],
    ) -> None:
        """Takes over a shape, and what the labels mean."""
        self.config = config
        self.config_name = config.name
        self.class_names = class_names
        self.input_size = config.input_size
        self.path_space = config.path_space

    def preprocess(self, image_bgr: np.ndarray, path: ExecutionPath) -> np.ndarray:
        """uint8 `[H, W, 3]` of any size -> uint8 `[1, h, w, 3]` of the path's input size: the image in its own aspect
        in the upper left corner, grey beside or below it.

        Raises:
            ValueError: another type or shape.
        """
        check_image(image_bgr)
        available = self.input_size_on(path)
        height, width = _fitted_size(image_bgr.shape[:2], available)
        if image_bgr.shape[:2] != (height, width):
            image_bgr = cv2.resize(image_bgr, (width, height), interpolation=cv2.INTER_LINEAR)
        below, beside = available[0] - height, available[1] - width
        if below or beside:
            image_bgr = cv2.copyMakeBorder(
                image_bgr, 0, below, 0, beside, cv2.BORDER_CONSTANT, value=_PADDING
            )
        return np.ascontiguousarray(image_bgr)[None]

    @abstractmethod
    def reads(self, segment: str) -> tuple[str, ...]:
        """The segments whose values `compute` takes for one after `pre`."""

    def passes_over(self, segment: str, path: ExecutionPath) -> bool:
        """A segment that the path comes to computes nothing there."""
        return False

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

    def array_form(self, segment: str, path: ExecutionPath) -> ArrayCompute | None:
        """`compute` of a segment on arrays, of those that need no weights; None for the others."""
        return None

    @abstractmethod
    def post(
        self,
        path: ExecutionPath,
        values: Mapping[str, Arrays],
    ) -> Arrays:
        """What was found: boxes `[D, 4]` in px of the path's input size, scores and labels `[D]`, most certain first.

        Args:
            path: the path.
            values: what the segment `reads`, see `compute`; none of one that was passed over.
        """

    def in_the_image(
        self,
        found: Arrays,
        path: ExecutionPath,
        image_size: tuple[int, int],
    ) -> Arrays:
        """What `post` found, in px of an image of that height and width, cut to it."""
        boxes, scores, labels = found
        fitted = _fitted_size(image_size, self.input_size_on(path))
        scales = 2 * (image_size[1] / fitted[1], image_size[0] / fitted[0])  # x and y in turn
        boxes = np.clip(boxes * scales, 0.0, 2 * image_size[::-1])
        inside = ~(boxes[:, 2:] <= boxes[:, :2]).any(1)  # none beside the image
        return boxes[inside], scores[inside], labels[inside]

    def start(self, image_bgr: np.ndarray, path: ExecutionPath) -> DetectorRun:
        """See `Network`; the path may change while the frame runs."""
        return DetectorRun(self, image_bgr, path)

    def hashed_first(self, name: str) -> list[int]:
        """Sorts names of weights as they are hashed."""
        known = f' {self.layers} '
        return [
            int(part) if part.isdigit() else known.find(f' {part} ') for part in name.split('.')
        ]

    def input_size_on(self, path: ExecutionPath) -> tuple[int, int]:
        """Height and width in px that images are brought to on a path."""
        return scaled_size(self.input_size, scale_of(path))


@cache
def _fitted_size(image: tuple[int, int], available: tuple[int, int]) -> tuple[int, int]:
    """Height and width in px, at least 1, of an image that just fits into the available ones in its own aspect; a side that
    it nearly fills it fills."""
    scale = min(have / side for have, side in zip(available, image))
    height, width = (
        have if side * scale >= _FILLED * have else max(1, round(side * scale))
        for have, side in zip(available, image)
    )
    return height, width


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
        network = self.network
        with network.inference():
            if name == 'pre':
                values = self._engine.hold(name, (network.preprocess(self._image, self.path),))
            elif network.passes_over(name, self.path):
                values = ()
            else:
                values = self._made(name, key)
        self._values[network.makes.get(name, name)] = values

    def _made(self, name: str, key: str) -> Held:
        network = self.network
        engine = self._engine
        inputs = {read: self._values[read] for read in network.reads(name)}
        if gathered := network.gathers.get(name):
            inputs[gathered] = engine.joined(inputs[gathered])
        if name == 'post':
            arrays = {read: engine.arrays(values) for read, values in inputs.items()}
            found = network.post(self.path, arrays)
            boxes, scores, labels = network.in_the_image(found, self.path, self._image.shape[:2])
            if network.score_calibration is not None:
                scores = network.score_calibration.apply(scores, labels)
            order = np.argsort(-scores, kind='stable')
            self._detections = Detections(boxes[order], scores[order], labels[order])
            return ()
        return engine.run(
            key,
            network.makes.get(name, name),
            partial(network.compute, name, self.path),
            inputs,
            is_selection=name == network.selects,
            on_arrays=network.array_form(name, self.path),
        )

    def result(self) -> Detections:
        """See `SegmentRun`: the objects found, in px of the original image."""
        self.check_finished()
        return self._detections
