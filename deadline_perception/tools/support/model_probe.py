"""Loads one detector in a process of its own, and says what it is: a file that ends its process spoils nothing else,
and what the process takes is the model's own memory."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass

import numpy as np
import psutil

from deadline_perception.core.device import use_threads
from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.model_set.set_file import ModelSpec, load_model
from deadline_perception.runtime.loading import warm_up
from deadline_perception.timing.profile import time_frame
from deadline_perception.tools.support.model_process import ask, serve

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


def probe_model(
    spec: ModelSpec, images: list[np.ndarray], *, device: str, engine: str, threads: int
) -> ModelFacts:
    """Loads a detector in a process of its own and runs some frames. Blocks for seconds.

    Args:
        spec: the detector.
        images: at least one, uint8 `[height, width, 3]`.
        device, engine, threads: see `runtime.loading.NetworkOptions`.

    Raises:
        ModelError: it cannot be used; says why.
    """
    order = {'spec': spec, 'device': device, 'engine': engine, 'threads': threads}
    return ModelFacts(
        **ask('support.model_probe', order, {'images': images[:_FRAMES]}, spec.name, _LIMIT_S)
    )


def resident_mb() -> float:
    """Memory of this process that is in use, MB."""
    return psutil.Process().memory_info().rss / 2**20


def _work(order: dict, arrays: dict[str, list[np.ndarray]]) -> dict:
    use_threads(order['threads'])
    spec, images = ModelSpec(**order['spec']), arrays['images']
    # Libraries are not what a model takes; an exported one needs no torch, which takes seconds to load.
    if spec.kind == 'onnx':
        from deadline_perception.engines.openvino_library import openvino_core

        openvino_core()  # loads what drives the CPU
    else:
        import torchvision  # noqa: F401
    before_mb, begun_ms = resident_mb(), now_ms()
    try:
        network = load_model(spec, order['device'], order['engine'])
    except DeadlinePerceptionError as error:
        raise ModelError(f'{spec.name}: {error}') from error
    warm_up(network, images[0].shape[:2], network.kept_paths)
    start_s, memory_mb = (now_ms() - begun_ms) / 1000.0, max(0.0, resident_mb() - before_mb)
    space = network.path_space
    times_ms = [
        time_frame(network, images[number % len(images)], space.largest)[0]
        for number in range(_FRAMES)
    ]
    network.start(images[0], space.largest).finish()
    return asdict(
        ModelFacts(
            network.class_names,
            memory_mb,
            start_s,
            statistics.median(times_ms[1:]),
            network.input_size,
            len(space),
            network.engine.notice,
        )
    )


if __name__ == '__main__':
    serve(_work)
