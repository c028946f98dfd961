"""Time and accuracy of one YOLOX-Nano beside another, such as with hard swish beside SiLU.

    python research/first_look/compare.py [--before models/yolox-nano.safetensors] [--after models/street-first.safetensors]

Backbone, neck and head of both are compiled as one model for one thread, as OpenVINO takes floating point here, and run
in turn: medians of the ratio of times. AP50 of both in float32 on the images of `benchmarks/first_pass.py`.
Writes results/compare.json.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

from deadline_perception.core.detections import Detections
from deadline_perception.core.device import use_threads
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.engines.compiled_segments import cpu_settings
from deadline_perception.engines.openvino_library import load_openvino
from deadline_perception.networks.model_reference import find_weights
from deadline_perception.networks.yolox.checkpoint import load_yolox
from deadline_perception.networks.yolox.network import YoloxDetector

sys.path.append(str(Path(__file__).resolve().parents[2] / 'benchmarks'))
from first_pass import scores_of
from parts.harness import Run, option, run_script, show
from parts.look_images import KINDS, VIDEO, Images
from street_accuracy import of_classes

PATHS = {'320x192': 'r0.50', '416x256': 'r0.65', '640x384': 'r1.00'}


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
    torch.set_num_threads(1)
    networks = [load_yolox(file) for file in (run.args.before, run.args.after)]
    times = times_ms(networks, 10 if run.quick else 200)
    limit, found = 4 if run.quick else None, {}
    for kind, of in KINDS.items():
        if kind == VIDEO:
            continue
        images = Images.open(run.args.data, kind, of.measured, limit)
        before, after = (scores_of(images, seen_by(one, images)) for one in networks)
        found[kind] = {
            size: {name: [before[size][name], after[size][name]] for name in before[size]}
            for size in PATHS
        }
    changes = {
        size: round(
            statistics.mean(
                pair[1] - pair[0]
                for kind, rows in found.items()
                if KINDS[kind].classes
                for pair in rows[size].values()
            ),
            2,
        )
        for size in PATHS
    }
    rows = [(size, *times[size].values(), changes[size]) for size in PATHS]
    show('before and after', 'size | ms | ms | before over after | AP50 in the mean', rows)
    weights = {
        name: {'activation': one.config.activation, 'weights_hash': one.weights_hash}
        for name, one in zip(('before', 'after'), networks)
    }
    run.write(threads=1, **weights, times=times, ap50_in_the_mean=changes, ap50=found)


def times_ms(networks: list[YoloxDetector], rounds: int) -> dict[str, dict[str, float]]:
    """Medians of both, and of their ratio in each round, by size of the input."""
    openvino, rows = load_openvino(), {}
    for size, path in PATHS.items():
        height, width = networks[0].input_size_on(networks[0].path_space.parse(path))
        pixels = torch.rand(1, 3, height, width) * 255.0
        requests = [
            openvino.Core()
            .compile_model(
                openvino.convert_model(
                    Layers(one).to(memory_format=torch.contiguous_format), example_input=pixels
                ),
                'CPU',
                cpu_settings(1),
            )
            .create_infer_request()
            for one in networks
        ]
        took: list[list[float]] = [[], []]
        for _ in range(rounds):
            for request, of_one in zip(requests, took):
                begun_ms = now_ms()
                request.infer([pixels.numpy()])
                of_one.append(now_ms() - begun_ms)
        rows[size] = {
            'before_ms': round(statistics.median(took[0]), 2),
            'after_ms': round(statistics.median(took[1]), 2),
            'before_over_after': round(
                statistics.median(one / other for one, other in zip(*took)), 2
            ),
        }
    return rows


def seen_by(network: YoloxDetector, images: Images) -> dict[str, list[Detections]]:
    """What a network finds, by size of the input."""
    with torch.inference_mode():
        return {
            size: [
                of_classes(
                    network.start(frame.load_bgr(), network.path_space.parse(path)).finish(),
                    network.class_names,
                )
                for frame in images.frames
            ]
            for size, path in PATHS.items()
        }


if __name__ == '__main__':
    run_script(
        main,
        {
            '--before': option(find_weights('yolox-nano')),
            '--after': option(find_weights('street-first')),
            '--data': option(Path('../shared/data')),
        },
        quick='four images of each kind, and 10 rounds',
    )
