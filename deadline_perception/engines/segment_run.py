"""What a network is to everything that runs it, and one frame's way through its segments. Needs no torch."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.core.stopwatch import now_ms, wait_for_stream
from deadline_perception.engines.eager import Engine
from deadline_perception.engines.segment_store import StoreError


def check_image(image_bgr: object, name: str = 'image') -> None:
    """Makes sure of uint8 `[H, W, 3]` with at least one pixel.

    Raises:
        ValueError: another type or shape.
    """
    if not isinstance(image_bgr, np.ndarray):
        raise ValueError(
            f'{name} is {type(image_bgr).__name__}, expected a numpy array, uint8 [height, width, 3]'
        )
    if (
        image_bgr.dtype != np.uint8
        or image_bgr.ndim != 3
        or image_bgr.shape[2] != 3
        or 0 in image_bgr.shape
    ):
        raise ValueError(
            f'{name} is {image_bgr.dtype} {image_bgr.shape}, expected uint8 [height, width, 3] of at '
            f'least 1 x 1 px'
        )


class Network(ABC):
    """The base of networks: one can be profiled, forecast, decided about and run.

    A subclass has the attributes and `start`; the rest has defaults. Only `engine` and `kept_paths` are ever assigned
    from outside, so the others may be properties.

    Attributes:
        path_space: what it can decide.
        class_names: what its labels mean.
        config_name: name of its shape, part of file names.
        network_hash: identifies its shape, on which times depend.
        weights_hash: identifies its weights, on which accuracy depends.
        input_size: height and width in px that it works on.
        device: processor that computes it: `cpu`, `cuda` or `cuda:INDEX`.
        engine: runs its segments, and names what its times hold for; `Eager()` where it computes them itself.
        result_type: of what its runs give, such as `Detections`.
        kept_paths: the only paths that are warmed up and chosen; None: all.
        quantises: its segments are tried in 8 bit.
    """

    path_space: PathSpace
    class_names: tuple[str, ...]
    config_name: str
    network_hash: str
    weights_hash: str
    input_size: tuple[int, int]
    device: str
    engine: Engine
    result_type: type
    kept_paths: Sequence[ExecutionPath] | None = None
    quantises = True

    @abstractmethod
    def start(self, image_bgr: np.ndarray, path: ExecutionPath) -> SegmentRun:
        """Begins one frame, uint8 `[H, W, 3]` of any size, on a path; nothing is computed yet.

        Raises:
            ValueError: the path is another network's.
        """

    def detect(self, image_bgr: np.ndarray, path: ExecutionPath | None = None) -> Any:
        """What one image, uint8 `[H, W, 3]`, shows: a `result_type`, found on a path; None: the last of those that
        are kept, or the largest."""
        kept = self.kept_paths or (self.path_space.largest,)
        return self.start(image_bgr, path or kept[-1]).finish()

    def example(self, image_bgr: np.ndarray) -> np.ndarray:
        """What it is given of a camera image, to measure its times on: all of it."""
        return image_bgr

    def warm_up(self, paths: Iterable[ExecutionPath], image_size: tuple[int, int]) -> None:
        """Runs paths on noise of that height and width in px, so that no later frame pays for first calls and for
        laying out weights."""
        noise = np.random.default_rng(0).integers(0, 256, (*image_size, 3), dtype=np.uint8)
        for path in paths:
            self.detect(noise, path)

    def use_float16(self) -> None:
        """Computes in float16 from now on, where it can.

        Raises:
            StoreError: it cannot.
        """
        raise StoreError(f'engine is float16, which {self.config_name} does not compute in')

    def use_graphs(self) -> None:
        """Replays CUDA graphs from now on, where it can; for a network on a GPU.

        Raises:
            StoreError: it cannot.
        """
        raise StoreError(f'engine is CUDA graphs, which {self.config_name} does not run as')


class ShapedNetwork(Network):
    """A network whose times depend on a shape that JSON can hold."""

    @property
    @abstractmethod
    def shape(self) -> object:
        """All that decides execution times, as JSON can hold it."""

    @property
    def variant(self) -> list[str]:
        """What execution times depend on beside the shape, and accuracy hardly, such as the precision."""
        return []

    @property
    def network_hash(self) -> str:  # type: ignore[override]  # as `Network` allows
        """Identifies the shape, on which execution times depend; weights of the same shape share it."""
        return _digest([self.shape, self.variant] if self.variant else self.shape)

    def hash_with(self, weights: Iterable[tuple[str, np.ndarray]]) -> str:
        """Identifies shape and weights, on which accuracy depends.

        Args:
            weights: by name, all of them, always in the same order.
        """
        digest = hashlib.sha256(_digest(self.shape).encode())
        for name, values in weights:
            digest.update(name.encode())
            digest.update(values.tobytes())
        return digest.hexdigest()[:16]


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


class SegmentRun(ABC):
    """One frame on its way. A network derives its own, which says what each segment computes and what came of it.

    Args:
        space: the network's paths.
        path: the plan.
        device: processor that computes, which is waited for after each segment.

    Attributes:
        segment: index of the next segment to run.
        path: the plan; settings that are decided are facts.

    Raises:
        ValueError: the path is not one of the network's.
    """

    def __init__(
        self,
        space: PathSpace,
        path: ExecutionPath,
        device: str = 'cpu',
    ) -> None:
        if path.space is not space and path not in space:
            raise ValueError(
                f'path {path} is none of the network, whose largest is {space.largest}'
            )
        self.space = space
        self.path = path
        self.segment = 0
        self._device = device

    @abstractmethod
    def compute(self, name: str, key: str) -> None:
        """Runs one segment.

        Args:
            name: of the segment.
            key: what it runs on this path, as `PathSpace.key` names it.
        """

    @abstractmethod
    def result(self) -> Any:
        """What the network found.

        Raises:
            ValueError: the frame has not finished.
        """

    def result_so_far(self) -> Any | None:
        """What the network has found until now, after a segment that declares a `result`; else None."""
        return None

    @property
    def finished(self) -> bool:
        """True once every segment has run."""
        return self.segment == len(self.space.segments)

    def check_finished(self) -> None:
        """Makes sure that there is a result.

        Raises:
            ValueError: the frame has not finished.
        """
        if not self.finished:
            raise ValueError(
                f'the frame is before segment {self.segment}, expected it to have finished'
            )

    def redirect(self, path: ExecutionPath) -> None:
        """Changes the plan for what has not run yet.

        Raises:
            ValueError: the path is not the network's, or contradicts what has run.
        """
        if path.settings == self.path.settings:
            return
        space = self.space
        planned = self.path.settings
        is_ours = path.space is space or path in space
        if not is_ours or any(
            path.settings[at] != planned[at] for at in space.decided_before[self.segment]
        ):
            raise ValueError(f'path {path} contradicts {self.path} before segment {self.segment}')
        self.path = path

    def run_segment(self, begun_ms: float | None = None) -> float:
        """Runs the next segment, waits until the device has finished it, and returns its time in ms.

        Args:
            begun_ms: when it begins, on the monotonic clock, for who has just read that; None: now.

        Raises:
            ValueError: the frame has finished already.
        """
        if self.segment == len(self.space.segments):
            raise ValueError('the frame has passed its last segment')
        if begun_ms is None:
            begun_ms = now_ms()
        key = self.path.keys_by_segment[self.segment]
        if key is not None:
            self.compute(self.space.segments[self.segment].name, key)
            if self._device != 'cpu':
                wait_for_stream(self._device)
        self.segment += 1
        return now_ms() - begun_ms

    def finish(self) -> Any:
        """Runs all segments that are left; returns what the network found."""
        while not self.finished:
            self.run_segment()
        return self.result()
