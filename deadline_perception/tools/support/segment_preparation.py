"""Has the segments of a network prepared, in processes of their own: a compiler of layers may end the process it runs
in, and most of its work is done by one core."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import numpy as np

from deadline_perception.core.child_command import module_command
from deadline_perception.core.device import (
    DeviceFacts,
    available_memory_mb,
    read_device_facts,
    use_threads,
)
from deadline_perception.core.errors import DeadlinePerceptionError, printable
from deadline_perception.core.untrusted_file import FileRefused
from deadline_perception.engines.choice import is_installed
from deadline_perception.engines.segment_models import SUFFIX, SegmentModels
from deadline_perception.engines.segment_store import (
    SegmentStore,
    StoreError,
    default_store_folder,
    store_origin,
)
from deadline_perception.engines.store_lock import Turns, foreign_writer, store_lock
from deadline_perception.timing.contention.load import start_tied, stop_tied
from deadline_perception.tools.support.terminal import progress_bar, say

_MOST_CRASHES = 20  # each rules one form of one segment out
_LEAST_SEGMENTS = 24  # that are worth a process, which takes some seconds to start
_PROCESS_MB = 2000.0  # that one takes at most
_MOST_PROCESSES = 4  # more of them would mostly wait for each other, as they time what they made
_IMAGES, _KEYS, _TURNS, _DONE = (
    'images.npy',
    'keys.json',
    'turns',
    'done',
)  # files that the processes share


class PreparationFailed(DeadlinePerceptionError):
    """The segments could not be prepared."""


def prepare_segments(
    weights: Path,
    network,
    images: Sequence[np.ndarray],
    facts: DeviceFacts,
    keys: Collection[str] | None = None,
) -> None:
    """Completes the prepared segments of a network where they are not ready; blocks for minutes then, for seconds where
    their models lie beside the weights (`SegmentModels`). What is made is put there.

    As many processes share the work as there are cores and memory for. A segment whose preparation ends its process is
    left to a slower form, and the next process goes on with the others.

    Args:
        weights: file of the network.
        network: what is in it, with `config_name` and `weights_hash`.
        images: uint8 `[height, width, 3]` of one size, to find the ranges of values on, and the errors.
        facts: the device, and the number of threads.
        keys: of the segments that are needed; None: all.

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
        origin = store_origin(facts, network)
    except StoreError as error:
        raise PreparationFailed(
            f'the segments could not be prepared: {error}; the engine eager runs without them'
        ) from error
    needed = list(network.path_space.carriers() if keys is None else keys)
    try:
        SegmentStore.load(folder, origin).check(needed)
        return
    except StoreError:
        pass  # what is there is completed, or made anew
    from deadline_perception.engines.preparation import check_images

    check_images(images)
    waiting = 'another process prepares the segments of this network; waiting for it'
    with store_lock(folder, lambda: say(waiting)) as lock:
        try:
            SegmentStore.load(folder, origin).check(
                needed
            )  # another process may have made them meanwhile
        except StoreError:
            _prepare(
                weights, network, images, facts, SegmentStore.resume(folder, origin), needed, lock
            )


def prepare_for_engine(
    weights: Path,
    network,
    images: Sequence[np.ndarray],
    facts: DeviceFacts,
    engine: str,
    keys: Collection[str] | None = None,
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
        prepare_segments(weights, network, images, facts, keys)
    except PreparationFailed as error:
        if engine == 'openvino':
            raise
        say(error)


def _prepare(
    weights: Path,
    network,
    images: Sequence[np.ndarray],
    facts: DeviceFacts,
    store: SegmentStore,
    keys: list[str],
    lock: int,
) -> None:
    """Completes a store by some keys, with processes that keep its lock."""
    store.take_parts()
    parts = share_out([key for key in keys if key not in store.segments], _most_processes())
    with (
        tempfile.TemporaryDirectory() as folder_name,
        progress_bar(
            'preparing', len(keys), 'count', 'segments, {task.fields[latest]}', 'passed', latest=''
        ) as update,
    ):
        place = Path(folder_name)
        np.save(place / _IMAGES, np.stack(images))
        (place / _KEYS).write_text(json.dumps(parts))
        (place / _DONE).touch()
        for number in range(len(parts)):
            store.part(number)

        def show() -> None:
            done = (place / _DONE).read_text().split()
            update(
                completed=len(keys) - sum(map(len, parts)) + len(done), latest=(done or [''])[-1]
            )

        run_until_done(
            [
                module_command(
                    'deadline_perception.tools.support.segment_preparation',
                    str(weights),
                    str(place),
                    str(facts.threads),
                    str(number),
                )
                for number in range(len(parts))
            ],
            show,
            (lock,),
        )
        models, at_hand = (
            SegmentModels(network.weights_hash),
            models_at_hand(weights, network.weights_hash),
        )
        for number in range(len(parts)):
            models.join(SegmentModels.load(place / f'{number}{SUFFIX}', network.weights_hash))
    store.take_parts()
    store.finish(keys)
    are_new = (
        not models.forms.keys() <= at_hand.forms.keys()
    )  # what is at hand and was not accurate here stays
    models.join(at_hand)
    if are_new and models.forms.keys() >= store.segments.keys():
        with contextlib.suppress(
            OSError
        ):  # of a folder that others own: they are made anew elsewhere
            models.save(weights.with_suffix(SUFFIX))


def models_at_hand(weights: Path, weights_hash: str) -> SegmentModels:
    """The models of segments that lie beside the weights; none where they cannot be read, which is told."""
    try:
        return SegmentModels.load(weights.with_suffix(SUFFIX), weights_hash)
    except (OSError, FileRefused) as error:
        say(
            f'{weights.with_suffix(SUFFIX)} cannot be used: {printable(error)}; segments are quantised anew'
        )
        return SegmentModels(weights_hash)


def share_out(keys: Sequence[str], most: int) -> list[list[str]]:
    """Segments for each of several processes, at most so many; all of one name together, as they share layers."""
    by_name: dict[str, list[str]] = {}
    for key in keys:
        by_name.setdefault(key.partition('@')[0], []).append(key)
    parts: list[list[str]] = [[] for _ in range(max(1, min(most, len(keys) // _LEAST_SEGMENTS)))]
    for of_name in sorted(by_name.values(), key=len, reverse=True):
        min(parts, key=len).extend(of_name)
    return [part for part in parts if part]


def _most_processes() -> int:
    available_mb = available_memory_mb()
    return max(
        1,
        min(
            _MOST_PROCESSES, len(os.sched_getaffinity(0)), int((available_mb or 0.0) / _PROCESS_MB)
        ),
    )


def run_until_done(
    commands: Sequence[Sequence[str]],
    watch: Callable[[], None] = lambda: None,
    inherited: Sequence[int] = (),
) -> None:
    """Runs programs side by side, each again as long as a signal ends it, some times: it goes on where it was.

    Args:
        commands: program and arguments of each.
        watch: called a few times a second, and at the end.
        inherited: open files that they keep.

    Raises:
        PreparationFailed: one failed, or was ended by a signal each time; the others are ended.
    """

    def start(number: int) -> subprocess.Popen:
        return start_tied(commands[number], ending=signal.SIGINT, pass_fds=inherited)

    running, ends = {number: start(number) for number in range(len(commands))}, []
    try:
        while running:
            time.sleep(0.2)
            watch()
            for number, process in list(running.items()):
                status = process.poll()
                if status is None:
                    continue
                if status == 0:
                    del running[number]
                    continue
                ends.append(number)
                if status > 0 or ends.count(number) == _MOST_CRASHES:
                    raise PreparationFailed(
                        f'the segments could not be prepared (status {status}); the engine eager '
                        'runs without them'
                    )
                running[number] = start(number)
    finally:
        for process in running.values():
            stop_tied(process, asks=True)
    watch()


def main(weights: str, place: str, threads: str, number: str) -> None:
    """Prepares one part of what is not there yet; the work of a process of its own."""
    from deadline_perception.engines.preparation import prepare
    from deadline_perception.extras.external_models.model_set.model_reference import load_weights

    use_threads(int(threads))
    turns = Turns(Path(place) / _TURNS)
    network = load_weights(Path(weights))
    folder = default_store_folder(network.config_name, network.weights_hash)
    part = SegmentStore(folder, store_origin(read_device_facts('cpu'), network)).part(int(number))
    keys = json.loads((Path(place) / _KEYS).read_text())[int(number)]
    with (Path(place) / _DONE).open('a', buffering=1) as done:
        made = prepare(
            network,
            np.load(Path(place) / _IMAGES),
            part,
            int(threads),
            keys=keys,
            turns=turns,
            models=models_at_hand(Path(weights), network.weights_hash),
            progress=lambda key: done.write(f'{key}\n'),
        )
    made.save(Path(place) / f'{number}{SUFFIX}')


if __name__ == '__main__':
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
