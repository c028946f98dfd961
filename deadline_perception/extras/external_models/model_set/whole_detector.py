"""A detector made elsewhere, as a network: it decides nothing, and runs in three segments.

What its labels mean is a list of names with a place for each number that it gives. A place may be empty (a background,
a class that nobody wants), and several places may share a name; so models with different lists speak of the same
classes.
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.execution_path import ExecutionPath, PathSpace, Segment
from deadline_perception.engines.eager import Engine
from deadline_perception.engines.segment_run import Network, SegmentRun, check_image
from deadline_perception.extras.external_models.exported.head import Objects
from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.exported.suppression import suppress
from deadline_perception.extras.external_models.model_set.onnx_runtime import (
    file_digest,
    files_of_values,
)

BACKGROUND = '__background__'  # where names are listed: a label of nothing
WHOLE_SPACE = PathSpace(
    (), (Segment('pre', 'pre'), Segment('layers', 'layers'), Segment('post', 'post'))
)


class OwnEngine(Engine):
    """Of a network that computes its segments itself: names what its times hold for, and prepares nothing.

    Args:
        identity: of the library that computes.
        forms: see `Engine`.
        notice: see `Engine`.
    """

    def __init__(
        self, identity: str, forms: dict[str, str] | None = None, notice: str = ''
    ) -> None:
        self.identity, self._forms, self.notice = identity, dict(forms or {}), notice

    @property
    def forms(self) -> dict[str, str]:
        """See `Engine`."""
        return self._forms


class WholeDetector(Network):
    """The base of detectors that were made elsewhere; see the module and `engines/segment_run.py`.

    Args:
        name: what the model is called.
        outputs: for each label that the model gives, the class; None where it is to be dropped.
        input_size: height and width in px that images are brought to.
        shape: all that execution times depend on, of plain values.
        file: its weights.
        device: that computes it.
        engine: see `Network`.
        options: further values that accuracy depends on.

    Attributes:
        overlapping: an object may have several boxes of one class, of which non-maximum suppression keeps one.

    Raises:
        ModelError: no class is named.
        OSError: the file cannot be read.
    """

    path_space = WHOLE_SPACE
    result_type = Detections

    def __init__(
        self,
        name: str,
        outputs: Sequence[str | None],
        *,
        input_size: tuple[int, int],
        shape: object,
        file: Path,
        device: str,
        engine: Engine,
        options: object = None,
    ) -> None:
        self.config_name, self.device, self.engine = name, device, engine
        self.class_names = tuple(dict.fromkeys(output for output in outputs if output is not None))
        if not self.class_names:
            raise ModelError(f'{name} is to find no class, expected at least one name')
        named = [output for output in outputs if output is not None]
        self.overlapping = len(named) > len(
            self.class_names
        )  # an object may be found as a car and as a truck
        self._labels = np.array(
            [-1 if output is None else self.class_names.index(output) for output in outputs],
            np.int64,
        )
        self.input_size = (int(input_size[0]), int(input_size[1]))
        self.network_hash = _digest(shape, self.input_size, len(self._labels))
        beside = [file_digest(one) for one in files_of_values(file)]
        self.weights_hash = _digest(
            self.network_hash,
            file_digest(file),
            list(outputs),
            options,
            *([beside] if beside else []),
        )

    @abstractmethod
    def prepare(self, image_bgr: np.ndarray) -> object:
        """What the layers read of an image uint8 `[H, W, 3]`."""

    @abstractmethod
    def run_layers(self, prepared: object) -> object:
        """What the layers give."""

    @abstractmethod
    def decode(
        self, given: object, image_size: tuple[int, int]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Boxes `[N, 4]` in px of an image of that height and width, scores `[N]`, and labels `[N]` as the model
        counts.

        Raises:
            ModelError: the layers gave something that means no objects.
        """

    def start(self, image_bgr: np.ndarray, path: ExecutionPath) -> WholeRun:
        """See `Network`."""
        return WholeRun(self, image_bgr, path)

    def found(self, given: object, image_size: tuple[int, int]) -> Detections:
        """The objects of known classes, most certain first, clipped to the image; those with no area there are dropped.

        Raises:
            ModelError: as `decode`; or a label, score or box is none.
        """
        boxes, scores, labels = (np.asarray(part) for part in self.decode(given, image_size))
        labels = labels.astype(np.int64)
        if len(labels) and not 0 <= labels.min() <= labels.max() < len(self._labels):
            raise ModelError(
                f'{self.config_name} gave labels from {labels.min()} to {labels.max()}, expected 0 to '
                f'{len(self._labels) - 1}, the places in its list of {len(self._labels)} classes. Where '
                f'labels begin with a background, put {BACKGROUND} first'
            )
        known = self._labels[labels]
        order = np.argsort(-scores, kind='stable')
        order = order[known[order] >= 0]
        height, width = image_size
        found = Objects(boxes[order].reshape(-1, 4), scores[order], known[order])
        found = suppress(found) if self.overlapping else found
        clipped = np.clip(found.boxes, 0.0, (width, height, width, height))
        kept = ~(clipped[:, 2:] <= clipped[:, :2]).any(1)  # NaN is refused below
        try:
            return Detections(clipped[kept], found.scores[kept], found.labels[kept])
        except ValueError as error:
            raise ModelError(
                f'{self.config_name} gave no detections: {error}. Does the file end before its sigmoid or '
                f'softmax, or read pixels of another range?'
            ) from error


class WholeRun(SegmentRun):
    """One frame of a detector made elsewhere."""

    def __init__(self, network: WholeDetector, image_bgr: np.ndarray, path: ExecutionPath) -> None:
        super().__init__(network.path_space, path, network.device)
        check_image(image_bgr)
        self._network, self._image = network, image_bgr
        self._value: object = None

    def compute(self, name: str, key: str) -> None:
        """See `SegmentRun`."""
        if name == 'pre':
            self._value = self._network.prepare(self._image)
        elif name == 'layers':
            self._value = self._network.run_layers(self._value)
        else:
            self._value = self._network.found(self._value, self._image.shape[:2])

    def result(self) -> Detections:
        """See `SegmentRun`: the objects found, in px of the original image."""
        self.check_finished()
        return self._value


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]
