"""What the segments of a network read and gave on some images, to make and to check other forms of them with. Needs no
torch."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np

from deadline_perception.core.execution_path import SCALE, SKIP, ExecutionPath, PathSpace
from deadline_perception.engines.eager import ArrayCompute, Arrays, Compute, Engine, Held
from deadline_perception.engines.segment_run import Network


class Call(Protocol):
    """One run of a segment.

    Attributes:
        arrays: what it read, as a compiled segment takes it.
        outputs: what its reference gave.
    """

    @property
    def arrays(self) -> list[np.ndarray]: ...

    @property
    def outputs(self) -> Arrays: ...

    def run(self) -> object:
        """Runs the reference again."""


C = TypeVar('C', bound=Call)


class Recorder(Engine, Generic[C]):
    """Computes the references of segments and keeps the calls of those that are wanted.

    Attributes:
        wanted: keys of segments whose calls are kept.
        calls: by key.
        asked: keys of segments that the network handed over.
    """

    def __init__(self) -> None:
        self.wanted: set[str] = set()
        self.calls: dict[str, list[C]] = {}
        self.asked: set[str] = set()

    @abstractmethod
    def call(
        self, key: str, compute: Compute, inputs: dict[str, Held], on_arrays: ArrayCompute | None
    ) -> tuple[C, Held]:
        """Runs a segment; returns the call, and what it gives to the next segment."""

    def run(
        self,
        key: str,
        name: str,
        compute: Compute,
        inputs: dict[str, Held],
        *,
        is_selection: bool = False,
        on_arrays: ArrayCompute | None = None,
    ) -> Held:
        """See `Engine`."""
        call, given = self.call(key, compute, inputs, on_arrays)
        self.asked.add(key)
        if key in self.wanted:
            self.calls.setdefault(key, []).append(call)
        return given


def recorded(
    network: Network,
    recorder: Recorder[C],
    images: Sequence[np.ndarray],
    keys: Collection[str],
    paths: Iterable[ExecutionPath],
) -> Iterator[tuple[str, list[C]]]:
    """Each of the keys with its calls on the images, none where the network computes it without an engine.

    Args:
        network: its engine is the recorder meanwhile.
        recorder: of this network.
        images: uint8 `[height, width, 3]`.
        keys: of segments.
        paths: that are run, as far as they have keys that are left.
    """
    space, engine, left = network.path_space, network.engine, set(keys)
    network.engine = recorder
    try:
        for path in paths:
            recorder.wanted = left & set(space.keys(path))
            if not recorder.wanted:
                continue
            left -= recorder.wanted
            _record(network, path, images, recorder)
            for key in recorder.wanted - recorder.asked:
                yield key, []
            for key in list(recorder.calls):
                yield key, recorder.calls.pop(key)
    finally:
        network.engine = engine


def _record(
    network: Network, path: ExecutionPath, images: Sequence[np.ndarray], recorder: Recorder[C]
) -> None:
    """Runs every image up to the last segment that is wanted; in every second one some skips of the path are taken, as
    they will be."""
    space, rng = path.space, random.Random(1)
    last = max(
        number
        for number in range(len(space.segments))
        if space.key(number, path) in recorder.wanted
    )
    skips = [operator.name for operator in space.operators if operator.kind == SKIP]
    for number, image in enumerate(images):
        taken = {
            name: space.operator(name).settings[0]
            for name in skips
            if number % 2 and rng.random() < 0.5
        }
        run = network.start(image, path.replace(**taken) if taken else path)
        while run.segment <= last:
            run.run_segment()


def of_middle_size(space: PathSpace, paths: Iterable[ExecutionPath]) -> list[ExecutionPath]:
    """The paths with images of the size in the middle of those that they choose from."""
    sizes = {
        operator.name: operator.settings[len(operator.settings) // 2]
        for operator in space.operators
        if operator.kind == SCALE
    }
    return [path.replace(**sizes) for path in paths]
