"""Time of one YOLOX-Nano beside another, such as with hard swish beside SiLU.

    python research/first_look/compare.py [--before FILE] [--after FILE]

Backbone, neck and head of both are compiled as one model for one thread, as OpenVINO takes floating point here, and run
in turn: medians of the ratio of times. Writes results/compare.json.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

from deadline_perception.core.device import use_threads
from deadline_perception.engines.compiled_segments import cpu_settings
from deadline_perception.engines.openvino_library import load_openvino
from deadline_perception.networks.model_reference import find_weights
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.networks.yolox.network import YoloxDetector

sys.path.append(str(Path(__file__).resolve().parents[2] / 'benchmarks'))
from parts.harness import Run, option, run_script, show, timed_ms

SIZES = {'320x192': (192, 320), '416x256': (256, 416), '640x384': (384, 640)}


class Layers(nn.Module):
    """All layers of a network at once."""

    def __init__(self, network: YoloxDetector) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: Tensor) -> tuple[Tensor, ...]:
        """BGR `[1, 3, h, w]` -> what the head gives."""
        return self.network.head(self.network.neck(self.network.backbone(pixels)))


def main(run: Run) -> None:
    use_threads(1)
    networks = [load_detector(file) for file in (run.args.before, run.args.after)]
    times = times_ms(networks, 10 if run.quick else 200)
    show(
        'before and after',
        'size | ms | ms | before over after',
        [(size, *row.values()) for size, row in times.items()],
    )
    weights = {
        name: {'activation': one.config.activation, 'weights_hash': one.weights_hash}
        for name, one in zip(('before', 'after'), networks)
    }
    run.write(threads=1, **weights, times=times)


def times_ms(networks: list[YoloxDetector], rounds: int) -> dict[str, dict[str, float]]:
    """Medians of both, and of their ratio in each round, by size of the input."""
    openvino = load_openvino()
    rows = {}
    for size, sides in SIZES.items():
        pixels = torch.rand(1, 3, *sides) * 255.0
        requests = []
        for network in networks:
            layers = Layers(network).to(memory_format=torch.contiguous_format)
            model = openvino.convert_model(layers, example_input=pixels)
            compiled = openvino.Core().compile_model(model, 'CPU', cpu_settings(1))
            requests.append(compiled.create_infer_request())
        took = [
            [timed_ms(lambda: request.infer([pixels.numpy()])) for request in requests]
            for _ in range(rounds)
        ]
        before_ms, after_ms = map(statistics.median, zip(*took))
        ratio = statistics.median(before / after for before, after in took)
        rows[size] = {
            'before_ms': round(before_ms, 2),
            'after_ms': round(after_ms, 2),
            'before_over_after': round(ratio, 2),
        }
    return rows


if __name__ == '__main__':
    run_script(
        main,
        {
            '--before': option(find_weights('street-open')),
            '--after': option(find_weights('street-first')),
        },
        quick='10 rounds',
    )
