"""A network that always runs one of its paths, as a model of a set: what `path` of a set file means."""

from __future__ import annotations

import hashlib

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath, PathSpace, Segment
from deadline_perception.engines.eager import Engine
from deadline_perception.engines.segment_run import Network
from deadline_perception.networks.inner_run import InnerRun


class FixedPathNetwork(Network):
    """A network that always runs one of its paths, and so decides nothing; the rest is its own.

    Args:
        network: with paths.
        path: the one that runs.

    """

    def __init__(self, network: Network, path: ExecutionPath) -> None:
        self._whole = network
        self._path = path
        self.class_names = network.class_names
        self.device = network.device
        # A name of its own, because files of times are found by it.
        self.config_name = f'{network.config_name}:{path}'
        self.input_size = network.input_size
        self.result_type = network.result_type
        phases = tuple(
            Segment(segment.name, segment.phase)
            for number, segment in enumerate(network.path_space.segments)
            if network.path_space.key(number, path) is not None
        )
        self.path_space = PathSpace((), phases)
        self.network_hash, self.weights_hash = (
            hashlib.sha256(f'{known} {path}'.encode()).hexdigest()[:16]
            for known in (network.network_hash, network.weights_hash)
        )

    @property
    def engine(self) -> Engine:  # type: ignore[override]  # to be chosen before the path is fixed
        """That of the network."""
        return self._whole.engine

    def start(self, image_bgr: np.ndarray, path: ExecutionPath) -> InnerRun:
        """See `Network`; the frame runs on the fixed path."""
        return InnerRun(
            self.path_space, path, self.device, self._whole.start(image_bgr, self._path)
        )
