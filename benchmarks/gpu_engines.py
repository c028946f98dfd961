"""The ways to run one network on a GPU, interleaved: eager, CUDA graphs, and CUDA graphs in float16.

    python benchmarks/gpu_engines.py [--device cuda] [--weights models/street.safetensors] [--rounds 200] [--quick]

For some paths from the cheapest to the full one: median, 99th percentile and longest time of a frame, from image to
boxes, each way in turn; and how far boxes and scores of float16 lie from those of float32. On a CPU only eager runs,
which shows that the script works. Writes results/gpu_engines.json.
"""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
from parts.harness import Run, option, quantiles, run_script, turns

from deadline_perception.core.device import read_device_facts, use_threads
from deadline_perception.core.measurement_plan import distinct_paths
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.networks.model_reference import find_weights, use_engine
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.timing.profile import time_frame
from deadline_perception.tools.support.file_arguments import DEFAULT_WEIGHTS

PATHS, IMAGES, WARM_UPS = 8, 16, 3


def main(run: Run) -> None:
    device, rounds = run.args.device, 3 if run.quick else run.args.rounds
    use_threads(1)
    facts, weights = read_device_facts(device), find_weights(run.args.weights)
    ways = ('eager', 'auto', 'float16') if facts.kind == 'cuda' else ('eager',)
    networks = {}
    for way in ways:
        networks[way] = load_detector(weights, device)
        use_engine(networks[way], way, device, weights)
    space = networks['eager'].path_space
    paths = sorted(distinct_paths(space, 3 if run.quick else PATHS, random.Random(0)))
    images = [frame.load_bgr() for frame in render_drive(seconds=2.0).frames][:IMAGES]
    for network in networks.values():
        network.warm_up(paths * WARM_UPS, images[0].shape[:2])
    times_ms: dict[tuple[str, str], list[float]] = defaultdict(list)
    for number, (way, path) in turns([(way, path) for way in ways for path in paths], rounds):
        image = images[number % len(images)]
        times_ms[way, str(path)].append(time_frame(networks[way], image, path)[0])
    rows = [
        {'engine': way, 'path': path, **quantiles(times, 'p50', 'p99', 'max')}
        for (way, path), times in sorted(times_ms.items())
    ]
    for row in rows:
        print(row)
    differences = {
        way: difference(networks['eager'], networks[way], images, space.largest) for way in ways[1:]
    }
    for way, found in differences.items():
        print(f'{way} against eager: {found}')
    run.write(
        gpu=str(facts),
        rows=rows,
        differences=differences,
        notices={way: network.engine.notice for way, network in networks.items()},
    )


def difference(one, other, images: list[np.ndarray], path) -> dict[str, float]:
    """How far detections of two networks lie apart, of those that the first is at least half sure of."""
    distances, scores, lost, count = [], [], 0, 0
    for image in images:
        expected, found = one.detect(image, path), other.detect(image, path)
        for box, score in zip(expected.boxes_xyxy_px, expected.scores):
            if score < 0.5:
                continue
            count += 1
            apart = np.abs(found.boxes_xyxy_px - box).max(1) if len(found) else np.array([np.inf])
            nearest = int(apart.argmin())
            if apart[nearest] > 8.0:
                lost += 1
                continue
            distances.append(float(apart[nearest]))
            scores.append(abs(float(found.scores[nearest] - score)))
    return {
        'boxes': count,
        'lost': lost,
        'px': max(distances, default=0.0),
        'score': max(scores, default=0.0),
    }


if __name__ == '__main__':
    run_script(
        main,
        {'--device': option('cuda'), '--weights': option(DEFAULT_WEIGHTS), '--rounds': option(200)},
        quick='3 rounds of 3 paths',
    )
