"""Loads one detector in a process of its own, and says what it is: a file that ends its process spoils nothing else,
and what the process takes is the model's own memory."""
from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from deadline_perception.child_command import module_command
from deadline_perception.errors import DeadlinePerceptionError
from deadline_perception.latency.device import use_threads
from deadline_perception.latency.profile import time_frame
from deadline_perception.latency.stopwatch import now_ms
from deadline_perception.model_set.set_file import ModelSpec, load_model
from deadline_perception.model_set.whole_detector import ModelError
from deadline_perception.runtime.loading import warm_up

_FRAMES = 8
_LIMIT_S = 600.0


@dataclass(frozen=True)
class ModelFacts:
    """What was seen of a detector.

    Attributes:
        class_names: that it finds.
        memory_mb: that it took, with all its paths ready, or those that it keeps.
        start_s: until they were.
        time_ms: median time of its largest path.
        input_size: height and width in px.
        paths: number of its paths.
        notice: what a person should know of its engine.
    """

    class_names: tuple[str, ...]
    memory_mb: float
    start_s: float
    time_ms: float
    input_size: tuple[int, int]
    paths: int
    notice: str


def probe_model(spec: ModelSpec, images: list[np.ndarray], *, device: str, engine: str, threads: int) -> ModelFacts:
    """Loads a detector in a process of its own and runs some frames. Blocks for seconds.

    Args:
        spec: the detector.
        images: at least one, uint8 `[height, width, 3]`.
        device, engine, threads: see `runtime.loading.NetworkOptions`.

    Raises:
        ModelError: it cannot be used; says why.
    """
    with tempfile.TemporaryDirectory() as place:
        np.savez(Path(place) / 'images.npz', *images[:_FRAMES])
        record = {**asdict(spec), 'file': str(spec.file.absolute())}
        order = json.dumps({'spec': record, 'device': device, 'engine': engine, 'threads': threads})
        try:
            done = subprocess.run(module_command('deadline_perception.tools.model_probe', place), input=order,
                                  text=True, stdout=subprocess.PIPE, timeout=_LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            raise ModelError(f'{spec.name} gave no result within {_LIMIT_S:.0f} s') from None
        if done.returncode:
            raise ModelError(f'{spec.name} ({spec.file}) ended the process that loaded it (status {done.returncode})')
        answer = json.loads((Path(place) / 'answer.json').read_text(encoding='utf-8'))
    if 'error' in answer:
        raise ModelError(f'{spec.name}: {answer["error"]}')
    return ModelFacts(**{**answer, 'class_names': tuple(answer['class_names']),
                         'input_size': tuple(answer['input_size'])})


def resident_mb() -> float:
    """Memory of this process that is in use, MB."""
    with open('/proc/self/statm', encoding='ascii') as stream:
        return int(stream.read().split()[1]) * os.sysconf('SC_PAGE_SIZE') / 2**20


def main(place: str) -> None:
    """The work of the process: reads its order, writes its answer."""
    order = json.loads(sys.stdin.read())
    use_threads(order['threads'])
    spec = ModelSpec(**order['spec'])
    import torchvision  # noqa: F401  libraries are not what a model takes
    if spec.kind == 'onnx':
        from deadline_perception.engine.openvino_library import openvino_core
        openvino_core()  # loads what drives the CPU
    try:
        with np.load(Path(place) / 'images.npz') as content:
            images = [content[name] for name in content.files]
        before_mb, begun_ms = resident_mb(), now_ms()
        network = load_model(spec, order['device'], order['engine'])
        warm_up(network, images[0].shape[:2], getattr(network, 'kept_paths', None))
        start_s, memory_mb = (now_ms() - begun_ms) / 1000.0, max(0.0, resident_mb() - before_mb)
        space = network.path_space
        times_ms = [time_frame(network, images[number % len(images)], space.largest)[0] for number in range(_FRAMES)]
        run = network.start(images[0], space.largest)
        while not run.finished:
            run.run_segment()
        run.result()
        facts = ModelFacts(network.class_names, memory_mb, start_s, statistics.median(times_ms[1:]), network.input_size,
                           len(space), network.engine.notice)
        answer = asdict(facts)
    except (DeadlinePerceptionError, ValueError, OSError, RuntimeError) as error:
        answer = {'error': str(error).strip() or type(error).__name__}
    (Path(place) / 'answer.json').write_text(json.dumps(answer), encoding='utf-8')


if __name__ == '__main__':
    main(*sys.argv[1:])
