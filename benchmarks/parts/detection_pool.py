"""Processes that run paths of any weights by any engine on annotated images: what path_accuracy.py and engines.py
score."""
from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Many
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from deadline_perception.core.detections import Detections
from deadline_perception.core.device import use_threads
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.workers import Workers
from deadline_perception.datasets.joined_sequence import joined
from deadline_perception.datasets.records import Sequence
from deadline_perception.datasets.source import open_source
from deadline_perception.evaluation.path_accuracy import annotated_frames, detect_on_frames
from deadline_perception.networks.model_set.model_reference import load_network

MODELS = Path(__file__).resolve().parents[2] / 'models'
Found = dict[ExecutionPath, list[Detections]]
Sources = Many[Path | str]
Item, Result = TypeVar('Item'), TypeVar('Result')
_held: dict = {}  # in each process of the pool: frames, and the network that ran last


def read_sources(sources: Sources, limit: int | None, wanted: Many[str] = ()) -> Sequence:
    """The annotated frames of all sources, one source after the other, as `deadline-perception evaluate` scores them.

    Args:
        sources: annotated images, as `open_source` takes them, at least one.
        limit: only so many frames of each source, spread evenly.
        wanted: the classes that are scored; of several sources, one that does not name such a class does not count for
            it, see `joined`.
    """
    sequences = [open_source(str(source)) for source in sources]
    return joined([replace(sequence, frames=tuple(annotated_frames(sequence, limit))) for sequence in sequences],
                  wanted)


class DetectionPool:
    """The processes, each of one thread and with a share of the images.

    Args:
        sources: annotated images, see `read_sources`.
        limit: only so many images of each, spread evenly.
        processes: number of processes.
        device: `cpu` or `cuda`.
    """

    def __init__(self, sources: Sources, limit: int | None, processes: int, device: str = 'cpu') -> None:
        self._count = processes
        self._pool = ProcessPoolExecutor(processes, multiprocessing.get_context('spawn'), _hold,
                                         (device, sources, limit))

    def __enter__(self) -> DetectionPool:
        return self

    def __exit__(self, *_) -> None:
        self._pool.shutdown()

    def each(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """What the function makes of each item, in the processes; both are sent there, and the results back."""
        return list(self._pool.map(function, items))

    def run(self, weights: Path, paths: list[ExecutionPath], engine: str = 'eager',
            images: int | None = None) -> Found:
        """Detections of every path, image by image.

        Args:
            weights: file of the network.
            paths: distinct paths.
            engine: see `choose_engine`.
            images: only the first so many of all images.
        """
        parts = [self._pool.submit(_detect_share, weights, paths, engine, images, Workers(rank, self._count))
                 for rank in range(self._count)]
        shares = [part.result() for part in parts]
        found: Found = {path: [Detections.none()] * sum(len(share[path]) for share in shares) for path in paths}
        for path, detections in found.items():
            for rank, share in enumerate(shares):
                detections[rank::self._count] = share[path]
        return found


def _hold(device: str, sources: Sources, limit: int | None) -> None:
    use_threads(1)
    _held.update(device=device, frames=read_sources(sources, limit).frames, network=None, of=None)


def _detect_share(weights: Path, paths: list[ExecutionPath], engine: str, images: int | None,
                  workers: Workers) -> Found:
    if _held['of'] != (weights, engine):
        _held.update(of=(weights, engine), network=load_network(str(weights), _held['device'], MODELS, engine)[0])
    return detect_on_frames(_held['network'], workers.share(_held['frames'][:images]), paths)
