"""Has the segments of a network prepared, in a process of its own: a compiler of layers may end the process it runs
in."""
from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from deadline_perception.engine.segment_store import SegmentStore, StoreError, default_store_folder, store_origin
from deadline_perception.errors import DeadlinePerceptionError
from deadline_perception.latency.device import DeviceFacts, read_device_facts, use_threads

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
        images: uint8 `[height, width, 3]` of one size, to find the ranges of values on, and the errors.
        facts: the device, and the number of threads.

    Raises:
        ValueError: too few images.
        PreparationFailed: the process failed, and said why.
    """
    try:
        folder = default_store_folder(network.config_name, network.weights_hash)
        SegmentStore.load(folder, store_origin(facts, network)).check()
        return
    except StoreError:
        pass  # what is there is completed, or made anew
    from deadline_perception.engine.preparation import check_images

    check_images(images)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / 'images.npy'
        np.save(file, np.stack(images))
        run_until_done([sys.executable, '-m', 'deadline_perception.tools.segment_preparation', str(weights), str(file),
                        str(facts.threads)])


def run_until_done(command: list[str]) -> None:
    """Runs a program again as long as a signal ends it, some times; each time it goes on where it was.

    Raises:
        PreparationFailed: it failed, or was ended by a signal each time.
    """
    for _ in range(_MOST_CRASHES):
        status = subprocess.run(command, check=False).returncode
        if status == 0:
            return
        if status > 0:
            break
    raise PreparationFailed(f'the segments could not be prepared (status {status}); the engine eager runs without them')


def main(weights: str, images: str, threads: str) -> None:
    """Prepares what is not there yet, with a bar of progress; the work of that process."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from deadline_perception.engine.preparation import prepare
    from deadline_perception.runtime.weights_file import load_weights

    use_threads(int(threads))
    network = load_weights(Path(weights))
    store = SegmentStore.resume(default_store_folder(network.config_name, network.weights_hash),
                                store_origin(read_device_facts('cpu'), network))
    columns = (TextColumn('preparing'), BarColumn(), MofNCompleteColumn(), TextColumn('segments, {task.description}'),
               TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        bar = bars.add_task('', total=None)
        prepare(network, np.load(images), store, int(threads),
                lambda done, total, key: bars.update(bar, completed=done, total=total, description=key))


if __name__ == '__main__':
    main(*sys.argv[1:])
