"""Has the segments of a network prepared, in a process of its own: a compiler of layers may end the process it runs in."""
from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from deadline_perception.engine.segment_store import SegmentStore, StoreError, default_store_folder, store_origin
from deadline_perception.errors import DeadlinePerceptionError
from deadline_perception.latency.device import DeviceFacts, use_threads

_MOST_CRASHES = 20  # each rules one form of one segment out


class PreparationFailed(DeadlinePerceptionError):
    """The segments could not be prepared."""


def prepare_segments(weights: Path, network, images: Sequence[np.ndarray], facts: DeviceFacts) -> None:
    """Completes the prepared segments of a network where they are not ready; blocks for minutes then.

    Memory that preparing takes is given back with its process. A segment whose preparation ends that process is left to
    a slower form, and the others are prepared by the next process.

    Args:
        weights: file of the network.
        network: what is in it, with `config_name` and `weights_hash`.
        images: uint8 `[height, width, 3]`, to find the ranges of values on, and the errors.
        facts: the device, and the number of threads.

    Raises:
        ValueError: too few images.
        PreparationFailed: the process failed, and said why.
    """
    folder = default_store_folder(network.config_name, network.weights_hash)
    try:
        SegmentStore.load(folder, store_origin(facts)).check()
        return
    except StoreError:
        pass  # what is there is completed, or made anew
    from deadline_perception.engine.preparation import check_images

    check_images(images)
    for _ in range(_MOST_CRASHES):
        process = multiprocessing.get_context('spawn').Process(target=_work, args=(weights, images, folder, facts))
        process.start()
        process.join()
        if process.exitcode == 0:
            return
        if process.exitcode > 0:
            break
    raise PreparationFailed(f'the segments could not be prepared (status {process.exitcode}); '
                            f'--engine eager measures without them')


def _work(weights: Path, images: Sequence[np.ndarray], folder: Path, facts: DeviceFacts) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from deadline_perception.detector.checkpoint import load_detector
    from deadline_perception.engine.preparation import prepare

    use_threads(facts.threads)
    columns = (TextColumn('preparing'), BarColumn(), MofNCompleteColumn(), TextColumn('{task.description}'),
               TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        bar = bars.add_task('', total=None)
        prepare(load_detector(weights), images, SegmentStore.resume(folder, store_origin(facts)), facts.threads,
                lambda done, total, key: bars.update(bar, completed=done, total=total, description=key))
