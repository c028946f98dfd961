"""8 bit against eager PyTorch, on the same paths and images in one run: time and accuracy.

    python benchmarks/engines.py [--data ../shared/data/bdd100k/val.json] [--quick]

Needs prepared segments (`profile --all-paths`). Frames of all paths and both engines are mixed at random, in rounds, so
that what else the machine does falls on all alike; then every path is scored on annotated images with each. One thread.
Prints a table and writes results/engines.json.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from pathlib import Path
from statistics import median

from parts.harness import Run, option, run_script, show, turns
from street_accuracy import NAMES

from deadline_perception.core.device import read_device_facts, use_threads
from deadline_perception.engines.choice import choose_engine
from deadline_perception.engines.eager import Eager
from deadline_perception.extras.data.class_names import relabelled, with_mapping
from deadline_perception.extras.data.source import open_source
from deadline_perception.extras.evaluation.path_accuracy import (
    annotated_frames,
    measure_paths,
    ranking_classes,
    sample_paths,
)
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.networks.model_reference import find_weights
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.timing.profile import time_frame
from deadline_perception.tools.profile import restart_with_environment
from deadline_perception.tools.support.file_arguments import DEFAULT_WEIGHTS

PATHS, ROUNDS, SCORED_IMAGES, TIMED_IMAGES = 60, 6, 100, 10
QUICK_PATHS, QUICK_ROUNDS, QUICK_IMAGES = 4, 2, 4
MEAN_LOSS_GOAL, PATH_LOSS_GOAL = 0.3, 1.0  # of 8 bit against float, in points of AP


def median_times(network, engines: dict, paths: list, rounds: int) -> dict[tuple, float]:
    """Of whole frames in ms, by engine and path; the first frame of each is dropped."""
    drive = render_drive().frames
    images = [frame.load_bgr() for frame in drive[:: len(drive) // TIMED_IMAGES][:TIMED_IMAGES]]
    times_ms = defaultdict(list)
    for number, (name, path) in turns(itertools.product(engines, paths), rounds + 1):
        network.engine = engines[name]
        times_ms[name, path].append(time_frame(network, images[number % len(images)], path)[0])
    return {job: median(taken[1:]) for job, taken in times_ms.items()}


def average_precisions(network, engines: dict, paths: list, data: Path, limit: int) -> dict:
    """Mean AP of the classes that paths are ranked by, in points, by engine and path."""
    sequence = with_mapping(open_source(str(data)), NAMES)
    frames = annotated_frames(sequence, limit)
    known = [
        relabelled(frame.ground_truth, sequence.class_names, network.class_names)
        for frame in frames
    ]
    ranked_by = ranking_classes(known, network.class_names) or network.class_names
    found = {}
    for name, network.engine in engines.items():
        scores = measure_paths(network, sequence, frames, paths, ranked_by=ranked_by)
        found |= {(name, path): 100.0 * scores[path].pooled for path in paths}
    return found


def main(run: Run) -> None:
    restart_with_environment(1)
    use_threads(1)
    weights = find_weights(DEFAULT_WEIGHTS)
    network = load_detector(weights)
    engine = choose_engine('openvino', network, read_device_facts('cpu'), str(weights))
    engines = {'eager': Eager(), 'openvino': engine}
    count, rounds, limit = (
        (QUICK_PATHS, QUICK_ROUNDS, QUICK_IMAGES) if run.quick else (PATHS, ROUNDS, SCORED_IMAGES)
    )
    paths = sample_paths(network.path_space, count)
    times_ms = median_times(network, engines, paths, rounds)
    ap = average_precisions(network, engines, paths, run.args.data, limit)
    rows = [
        {
            'path': str(path),
            **{f'{name}_ms': times_ms[name, path] for name in engines},
            **{f'{name}_ap': ap[name, path] for name in engines},
        }
        for path in paths
    ]
    show(
        'whole frames, median ms, and AP',
        'path | eager | openvino | eager over openvino | AP eager | AP openvino',
        [
            (
                *(row['path'], row['eager_ms'], row['openvino_ms']),
                *(row['eager_ms'] / row['openvino_ms'], row['eager_ap'], row['openvino_ap']),
            )
            for row in rows
        ],
    )
    losses = [row['eager_ap'] - row['openvino_ap'] for row in rows]
    words = f'points that openvino loses over {len(rows)} paths and {limit} images'
    run.goal(f'{words}: mean', sum(losses) / len(losses), most=MEAN_LOSS_GOAL)
    run.goal(f'{words}: on one path', max(losses), most=PATH_LOSS_GOAL)
    run.write(engine=engine.identity, weights_hash=network.weights_hash, rows=rows)


if __name__ == '__main__':
    run_script(
        main,
        {'--data': option(Path('../shared/data/bdd100k/val.json'), 'annotated images')},
        quick=f'{QUICK_PATHS} paths',
    )
