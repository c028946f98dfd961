"""Networks of other kinds than the package knows, each declared here alone: nothing else mentions what they decide.

`make_magnifier` has an operator of a kind nobody has heard of, `make_single` decides nothing, `make_classifier` finds a
class instead of boxes. Their work is real: products of matrices whose size follows from the settings.
"""

import hashlib

import numpy as np

from deadline_perception.core.detections import Classification, Detections
from deadline_perception.core.execution_path import (
    LEVEL,
    ExecutionPath,
    Operator,
    PathSpace,
    Segment,
)
from deadline_perception.engines.eager import Eager
from deadline_perception.engines.segment_run import Network, SegmentRun

MAGNIFIER = PathSpace(
    (
        Operator('lens', 'magnifier', ('far', 'near', 'tele'), 'z'),
        Operator('passes', 'repetition', (1, 4), 'n'),
    ),
    (
        Segment('focus', 'optics', 'lens', ('lens',)),
        Segment('look', 'optics', 'passes', ('lens', 'passes')),
        Segment('name', 'naming'),
    ),
)
SINGLE = PathSpace((), (Segment('all', 'all'),))
CLASSIFIER = PathSpace(
    (Operator('level', LEVEL, (1, 2, 3, 4), 'l'),),
    (Segment('input', 'pre'), Segment('layers', 'body', 'level', ('level',))),
)
_WORK = np.random.default_rng(0).standard_normal((160, 160)) / 13.0


class InventedNetwork(Network):
    """A network that multiplies matrices, and finds one box in the middle of the image, or a class."""

    config_name, input_size = 'invented', (48, 64)

    def __init__(
        self,
        path_space: PathSpace,
        device: str = 'cpu',
        result_type: type = Detections,
        run_type: type | None = None,
    ):
        self.run_type = run_type or InventedRun
        self.path_space, self.device, self.result_type = path_space, device, result_type
        self.engine = Eager()
        self.class_names = ('thing',) if result_type is Detections else ('cat', 'dog', 'fish')
        digest = hashlib.sha256(str(list(path_space)).encode()).hexdigest()
        self.network_hash = self.weights_hash = digest[:16]

    def start(self, image_bgr: np.ndarray, path: ExecutionPath) -> SegmentRun:
        return self.run_type(self, image_bgr, path)


class InventedRun(SegmentRun):
    """One frame; a segment's work grows with the settings of its operators."""

    def __init__(self, network: InventedNetwork, image_bgr: np.ndarray, path: ExecutionPath):
        super().__init__(network.path_space, path)
        self.network, self._image = network, image_bgr
        self.keys: list[str] = []  # of what has run

    def compute(self, name: str, key: str) -> None:
        self.keys.append(key)
        values = np.resize(self._image.astype(np.float64) / 255.0, (160, 160))
        depends_on = self.space.segments[self.segment].depends_on
        level = sum(self.path.settings[self.space.place[operator]] for operator in depends_on)
        for _ in range(1 + 3 * level):
            values = np.tanh(values @ _WORK)

    def result(self) -> Detections | Classification:
        if self.network.result_type is Classification:
            return Classification(np.array([0.1, 0.7, 0.2]))
        height, width = self._image.shape[:2]
        return Detections([[width / 4, height / 4, width / 2, height / 2]], [0.9], [0])


def make_magnifier(device: str = 'cpu') -> InventedNetwork:
    return InventedNetwork(MAGNIFIER, device)


def make_single(device: str = 'cpu') -> InventedNetwork:
    return InventedNetwork(SINGLE, device)


def make_classifier(device: str = 'cpu') -> InventedNetwork:
    return InventedNetwork(CLASSIFIER, device, Classification)
