"""Processes that run paths of any weights by any engine on annotated images: what path_accuracy.py and engines.py
score."""
from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from deadline_perception.datasets.source import open_source
from deadline_perception.detector.detections import Detections
from deadline_perception.evaluation.path_accuracy import annotated_frames, detect_on_frames
from deadline_perception.execution_path import ExecutionPath
from deadline_perception.latency.device import use_threads
from deadline_perception.runtime.loading import load_network
from deadline_perception.workers import Workers

MODELS = Path(__file__).resolve().parents[1] / 'models'
Found = dict[ExecutionPath, list[Detections]]
_held: dict = {}  # in each process of the pool: frames, and the network that ran last


class DetectionPool:
    """The processes, each of one thread and with a share of the images.

    Args:
        data: annotated images, as `open_source` takes them.
        limit: only so many of them, spread evenly.
        processes: number of processes.
        device: `cpu` or `cuda`.
    """

    def __init__(self, data: Path, limit: int | None, processes: int, device: str = 'cpu') -> None:
        self._count = processes
        self._pool = ProcessPoolExecutor(processes, multiprocessing.get_context('spawn'), _hold, (device, data, limit))

    def __enter__(self) -> DetectionPool:
        return self

    def __exit__(self, *_) -> None:
        self._pool.shutdown()

    def run(self, weights: Path, paths: list[ExecutionPath], engine: str = 'eager') -> Found:
        """Detections of every path, image by image.

        Args:
            weights: file of the network.
            paths: distinct paths.
            engine: see `choose_engine`.
        """
        parts = [self._pool.submit(_detect_share, weights, paths, engine, Workers(rank, self._count))
                 for rank in range(self._count)]
        shares = [part.result() for part in parts]
        found: Found = {path: [Detections.none()] * sum(len(share[path]) for share in shares) for path in paths}
        for path, detections in found.items():
            for rank, share in enumerate(shares):
                detections[rank::self._count] = share[path]
        return found


def _hold(device: str, data: Path, limit: int | None) -> None:
    use_threads(1)
    _held.update(device=device, frames=annotated_frames(open_source(str(data)), limit), network=None, of=None)


def _detect_share(weights: Path, paths: list[ExecutionPath], engine: str, workers: Workers) -> Found:
    if _held['of'] != (weights, engine):
        _held.update(of=(weights, engine), network=load_network(str(weights), _held['device'], MODELS, engine)[0])
    return detect_on_frames(_held['network'], workers.share(_held['frames']), paths)
