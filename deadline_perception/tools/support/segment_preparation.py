"""Has the segments of a network prepared, in a process of its own: a compiler of layers may end the process it runs
in."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from deadline_perception.core.child_command import module_command
from deadline_perception.core.device import (
    DeviceFacts,
    read_device_facts,
    use_threads,
)
from deadline_perception.core.errors import DeadlinePerceptionError, printable
from deadline_perception.core.tied_process import start_tied, stop_tied
from deadline_perception.core.untrusted_file import FileRefused
from deadline_perception.engines.choice import is_installed
from deadline_perception.engines.foreign_writer import foreign_writer
from deadline_perception.engines.segment_store import (
    MODELS_SUFFIX,
    SegmentStore,
    StoreError,
    default_store_folder,
    store_origin,
)
from deadline_perception.extras.preparation.segment_models import SegmentModels
from deadline_perception.extras.preparation.store_lock import store_lock
from deadline_perception.extras.preparation.store_writer import StoreWriter
from deadline_perception.tools.support.terminal import progress_bar, say

_MOST_CRASHES = 20  # each rules one form of one segment out
# Files that both processes share.
_IMAGES, _KEYS, _DONE, _MADE = 'images.npy', 'keys.json', 'done', f'made{MODELS_SUFFIX}'

Progress = Callable[[int], None]  # gets how many segments are done


class PreparationFailed(DeadlinePerceptionError):
    """The segments could not be prepared."""


def prepare_segments(
    weights: Path,
    network,
    images: Sequence[np.ndarray],
    facts: DeviceFacts,
    keys: Collection[str] | None = None,
    show: Progress | None = None,
) -> None:
    """Completes the prepared segments of a network where they are not ready; blocks for minutes then, for seconds where
    their models lie beside the weights (`SegmentModels`). What is made is put there.

    A segment whose preparation ends its process is left to a slower form, and the next process goes on with the others.

    Args:
        weights: file of the network.
        network: what is in it, with `config_name` and `weights_hash`.
        images: uint8 `[height, width, 3]` of one size, to find the ranges of values on, and the errors.
        facts: the device, and the number of threads.
        keys: of the segments that are needed; None: all.
        show: of a bar that others draw; None: one is drawn here.

    Raises:
        ValueError: too few images.
        PreparationFailed: OpenVINO is not installed, others may write where the segments go, or a process failed, and
            said why.
    """
    folder = default_store_folder(network.config_name, network.weights_hash)
    foreign = foreign_writer(folder)
    if foreign:
        raise PreparationFailed(f'the segments could not be prepared: {foreign}')
    try:
        store_origin(facts)
    except StoreError as error:
        raise PreparationFailed(
            f'the segments could not be prepared: {error}; the engine eager runs without them'
        ) from error
    needed = list(network.path_space.carriers() if keys is None else keys)
    if are_ready(network, facts, needed):
        return
    from deadline_perception.extras.preparation.segments import check_images

    check_images(images)
    waiting = 'another process prepares the segments of this network; waiting for it'
    with store_lock(folder, lambda: say(waiting)):
        if not are_ready(network, facts, needed):  # made by another process meanwhile
            with nullcontext(show) if show else segments_bar('preparing', len(needed)) as shown:
                _prepare(weights, network, images, facts, needed, shown)


def are_ready(network, facts: DeviceFacts, keys: Collection[str]) -> bool:
    """Whether some segments of a network were prepared for this device; those that were not are completed, or made
    anew."""
    folder = default_store_folder(network.config_name, network.weights_hash)
    try:
        SegmentStore.load(folder, store_origin(facts)).check(keys)
    except StoreError:
        return False
    return True


@contextlib.contextmanager
def segments_bar(words: str, count: int) -> Iterator[Progress]:
    """A bar while the block runs; gives what moves it.

    Args:
        words: before it.
        count: of all segments.
    """
    with progress_bar(words, count, 'count', 'passed') as update:
        yield lambda done: update(completed=done)


def prepare_for_engine(
    weights: Path,
    network,
    images: Sequence[np.ndarray],
    facts: DeviceFacts,
    engine: str,
    keys: Collection[str] | None = None,
    show: Progress | None = None,
) -> None:
    """`prepare_segments` where the engine uses them, which is one of `ENGINES`; where `auto` has to go on without them,
    why is printed.

    Raises:
        ValueError: too few images.
        PreparationFailed: the engine is `openvino`, and they could not be prepared.
    """
    if facts.kind != 'cpu' or not (engine == 'openvino' or (engine == 'auto' and is_installed())):
        return
    try:
        prepare_segments(weights, network, images, facts, keys, show)
    except PreparationFailed as error:
        if engine == 'openvino':
            raise
        say(error)


def _prepare(
    weights: Path,
    network,
    images: Sequence[np.ndarray],
    facts: DeviceFacts,
    keys: list[str],
    show: Progress,
) -> None:
    """Completes the store of a network by some keys; its lock is held."""
    folder = default_store_folder(network.config_name, network.weights_hash)
    store = StoreWriter.resume(folder, store_origin(facts))
    there = sum(key in store.segments for key in keys)
    with tempfile.TemporaryDirectory() as folder_name:
        place = Path(folder_name)
        np.save(place / _IMAGES, np.stack(images))
        (place / _KEYS).write_text(json.dumps(keys))
        (place / _DONE).touch()
        # Models are kept without the tensors of the weights beside them.
        (place / _MADE).with_suffix('.safetensors').symlink_to(weights.resolve())

        def poll() -> None:
            show(there + len((place / _DONE).read_text().split()))

        command = module_command(
            'deadline_perception.tools.support.segment_preparation',
            str(weights),
            str(place),
            str(facts.threads),
        )
        try:
            run_until_done(command, poll)
        except KeyboardInterrupt:
            StoreWriter.forgive(folder, store_origin(facts))
            raise
        models = SegmentModels.load(place / _MADE, network.weights_hash)
    _keep_models(weights, models, SegmentStore.load(folder, store_origin(facts)))


def run_until_done(command: Sequence[str], watch: Callable[[], None] = lambda: None) -> None:
    """Runs a program; again where a signal ends it, since it then leaves out what it tried last, some times.

    Args:
        command: program and arguments.
        watch: called a few times a second, and at the end.

    Raises:
        PreparationFailed: it failed, or was ended by a signal each time.
    """
    for _ in range(_MOST_CRASHES):
        process = start_tied(command, ending=signal.SIGINT)
        try:
            while (status := process.poll()) is None:
                time.sleep(0.2)
                watch()
        finally:
            stop_tied(process, asks=True)
        if status >= 0:
            break
    watch()
    if status:
        raise PreparationFailed(
            f'the segments could not be prepared (status {status}); the engine eager runs without them'
        )


def _keep_models(weights: Path, models: SegmentModels, store: SegmentStore) -> None:
    """Puts models that were made here beside the weights, where all of the store's are known then."""
    if not models.forms:
        return
    at_hand = models_at_hand(weights, models.weights_hash)
    # What is at hand and was not accurate here stays.
    are_new = not models.forms.keys() <= at_hand.forms.keys()
    models.join(at_hand)
    if are_new and models.forms.keys() >= store.segments.keys():
        # In a folder that others own, they are made anew elsewhere.
        with contextlib.suppress(OSError):
            models.save(weights.with_suffix(MODELS_SUFFIX))


def models_at_hand(weights: Path, weights_hash: str) -> SegmentModels:
    """The models of segments that lie beside the weights; none where they cannot be read, which is logged."""
    try:
        return SegmentModels.load(weights.with_suffix(MODELS_SUFFIX), weights_hash)
    except (OSError, FileRefused) as error:
        say(
            f'{weights.with_suffix(MODELS_SUFFIX)} cannot be used: {printable(error)}; segments are quantised anew'
        )
        return SegmentModels(weights_hash)


def main(weights: str, place: str, threads: str) -> None:
    """Prepares what is not there yet; the work of the process of its own."""
    from deadline_perception.extras.preparation.segments import prepare
    from deadline_perception.networks.model_reference import load_network

    use_threads(int(threads))
    network, _ = load_network(Path(weights), 'cpu')
    folder = default_store_folder(network.config_name, network.weights_hash)
    with (Path(place) / _DONE).open('a', buffering=1) as done:
        made = prepare(
            network,
            np.load(Path(place) / _IMAGES),
            StoreWriter.resume(folder, store_origin(read_device_facts('cpu'))),
            int(threads),
            keys=json.loads((Path(place) / _KEYS).read_text()),
            models=models_at_hand(Path(weights), network.weights_hash),
            progress=lambda key: done.write(f'{key}\n'),
        )
    made.save(Path(place) / _MADE)


if __name__ == '__main__':
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as error:
        sys.exit(
            f'{error.name} is not installed, which segments are made with that have no model beside the weights: '
            'pip install "deadline_perception[quantise]"'
        )
