"""One peer of peers.py in a process that holds what its user would load, and no more: PyTorch, or OpenVINO alone."""
from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from served import serve

from deadline_perception.engine.openvino_library import openvino_core


def memory_mb() -> float:
    """What this process holds now."""
    return int(re.search(r'VmRSS:\s+(\d+)', Path('/proc/self/status').read_text())[1]) / 1024.0


def eager(name: str, folder: Path, classes: int, threads: int) -> Callable[[np.ndarray], int]:
    """Detects in an image uint8 `[H, W, 3]` with PyTorch, and counts."""
    import torch
    from peer_networks import Plain, build, prepared

    torch.set_num_threads(threads)
    model = Plain(build(name, classes, folder / 'weights.pt'))

    def detect(image: np.ndarray) -> int:
        with torch.inference_mode():
            _, scores, _ = (part.numpy() for part in model(prepared(image)))
        return len(scores)

    return detect


def converted(file: Path, threads: int) -> Callable[[np.ndarray], int]:
    """The same with OpenVINO."""
    request = openvino_core().compile_model(file, 'CPU', {
        'PERFORMANCE_HINT': 'LATENCY', 'INFERENCE_NUM_THREADS': threads}).create_infer_request()

    def detect(image: np.ndarray) -> int:
        pixels = np.ascontiguousarray(image[:, :, ::-1].transpose(2, 0, 1)[None], np.float32)
        pixels /= 255.0
        found = request.infer([pixels])
        return len(found[1])

    return detect


def main(name: str, form: str, folder: str, images: str, classes: str, threads: str) -> None:
    """Serves frames: asked for an image by its number, tells the time in ms and how many objects it has."""
    pixels = list(np.load(images))
    detect = (eager(name, Path(folder), int(classes), int(threads)) if form == 'eager' else
              converted(Path(folder) / f'{form}.xml', int(threads)))

    def frame(number: int, _: str) -> tuple[float, int]:
        begun_ns = time.monotonic_ns()
        count = detect(pixels[number])
        return (time.monotonic_ns() - begun_ns) / 1e6, count

    serve({'frame': frame, 'memory': memory_mb})


if __name__ == '__main__':
    main(*sys.argv[1:])
