"""A network that always runs one of its paths: what a model string such as `street:PATH` means."""

from __future__ import annotations

import hashlib

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.execution_path import ExecutionPath, PathSpace, Segment
from deadline_perception.engines.eager import Engine
from deadline_perception.engines.segment_run import Network, SegmentRun


class FixedPathNetwork(Network):
    """A network that always runs one of its paths, and so decides nothing; the rest is its own.

    Args:
        network: with paths.
        path: the one that runs.

    Attributes:
        whole: the network.
        fixed_path: of the network, the one that runs.
        whole_keys: of each of its own segments, by `PathSpace.key`, that of the network.
    """

    def __init__(self, network: Network, path: ExecutionPath) -> None:
        self.whole = network
        self.fixed_path = path
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
        keys = (key for key in path.keys_by_segment if key is not None)
        own = map(str, self.path_space.largest.keys_by_segment)
        self.whole_keys = dict(zip(own, keys))
        self.network_hash, self.weights_hash = (
            hashlib.sha256(f'{known} {path}'.encode()).hexdigest()[:16]
            for known in (network.network_hash, network.weights_hash)
        )

    @property
    def engine(self) -> Engine:  # type: ignore[override]  # to be chosen before the path is fixed
        """That of the network."""
        return self.whole.engine

    def start(self, image_bgr: np.ndarray, path: ExecutionPath) -> InnerRun:
        """See `Network`; the frame runs on the fixed path."""
        return InnerRun(
            self.path_space, path, self.device, self.whole.start(image_bgr, self.fixed_path)
        )


class InnerRun(SegmentRun):
    """A run whose segments are those of another one, `inner`; None until it is known which."""

    def __init__(
        self,
        space: PathSpace,
        path: ExecutionPath,
        device: str,
        inner: SegmentRun | None,
    ) -> None:
        super().__init__(space, path, device)
        self._inner = inner

    def fork(self) -> InnerRun:
        """See `SegmentRun`."""
        other = super().fork()
        other._inner = None if self._inner is None else self._inner.fork()
        return other

    def compute(self, name: str, key: str) -> None:
        """Runs the other's segment of that name; those that its path leaves out before it take no time."""
        inner = self._inner
        assert inner is not None
        while True:
            passed = inner.space.segments[inner.segment].name
            inner.run_segment()
            if passed == name:
                return

    def result(self) -> Detections:
        """See `SegmentRun`."""
        self.check_finished()
        assert self._inner is not None
        return self._inner.result()
