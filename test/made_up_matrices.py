"""A small multi-path network whose segments do real work, so that real times can be measured without weights."""

from __future__ import annotations

import numpy as np
import pytest
from path_spaces import MATRICES

from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.engines.eager import Eager
from deadline_perception.engines.segment_run import Network, SegmentRun


class MatrixNetwork(Network):
    """Every segment is a product of matrices whose size follows from the path's choices."""

    config_name = 'matrices'
    network_hash = '0123456789abcdef'
    input_size = (32, 64)
    device = 'cpu'

    def __init__(self, path_space: PathSpace) -> None:
        self.path_space = path_space
        self.engine = Eager()
        self.started: list[ExecutionPath] = []
        self._weights = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32) / 8.0

    def start(self, image_bgr: np.ndarray, path: ExecutionPath) -> MatrixRun:
        """Begins one frame."""
        self.started.append(path)
        return MatrixRun(self, image_bgr, path)

    def product(self, values: np.ndarray, rows: int, width: float) -> np.ndarray:
        """One segment's work."""
        channels = max(1, int(64 * width))
        return np.tanh(np.resize(values, (rows, channels)) @ self._weights[:channels, :channels])


class MatrixRun(SegmentRun):
    """One frame on its way."""

    def __init__(self, network: MatrixNetwork, image_bgr: np.ndarray, path: ExecutionPath) -> None:
        super().__init__(network.path_space, path)
        self._network, self._values = network, image_bgr.astype(np.float32)

    def compute(self, name: str, key: str) -> None:
        rows = self.path['proposals'] if name in ('head', 'post') else 64
        self._values = self._network.product(self._values, rows, self.path['width'])

    def result(self) -> np.ndarray:
        return self._values


@pytest.fixture()
def network() -> MatrixNetwork:
    return MatrixNetwork(MATRICES)


@pytest.fixture()
def images() -> list[np.ndarray]:
    return list(np.random.default_rng(1).integers(0, 256, (4, 32, 64, 3), dtype=np.uint8))
