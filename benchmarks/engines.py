"""The engines of the CPU against each other, on the same paths and images in one run: time and accuracy.

    python benchmarks/engines.py [--paths 60] [--rounds 12] [--threads 1] [--data VAL.json [--limit N]] [--quick]

Needs prepared segments (`profile --all-paths`). Frames of all paths and engines are mixed at random, in rounds, so that
what else the machine does falls on all alike. With --data every path is also scored on annotated images with each
engine, after the times. Prints tables and writes results/engines.json.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from statistics import median

import numpy as np
from parts.harness import Run, option, run_script, show
from street_accuracy import NAMES

from deadline_perception.core.device import read_device_facts, use_threads
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.engines.choice import choose_engine
from deadline_perception.engines.eager import Eager, Engine
from deadline_perception.engines.segment_store import (
    Form,
    SegmentStore,
    default_store_folder,
    store_origin,
)
from deadline_perception.extras.data.class_names import relabelled, with_mapping
from deadline_perception.extras.data.source import open_source
from deadline_perception.extras.evaluation.average_precision import average_precision
from deadline_perception.extras.evaluation.path_accuracy import (
    annotated_frames,
    detect_on_frames,
    pooled_ap,
    ranking_classes,
    sample_paths,
)
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.networks.model_reference import find_weights
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.timing.profile import time_frame
from deadline_perception.tools.profile import restart_with_environment
from deadline_perception.tools.support.file_arguments import DEFAULT_WEIGHTS

IMAGES = 10
ROUNDS, QUICK_ROUNDS = 6, 2
MEAN_LOSS_GOAL, PATH_LOSS_GOAL = 0.3, 1.0  # of 8 bit against float, in points of AP


def measure_times(
    network,
    engines: dict[str, Engine],
    paths: list[ExecutionPath],
    images: list[np.ndarray],
    rounds: int,
) -> dict[tuple[str, ExecutionPath], list[float]]:
    """Times of whole frames in ms, by engine and path; one frame of each is dropped.

    Args:
        network: its engine is replaced meanwhile.
        engines: by name.
        paths: distinct.
        images: uint8 `[height, width, 3]`.
        rounds: frames of each path with each engine.
    """
    rng = random.Random(0)
    times = {(name, path): [] for name in engines for path in paths}
    for number in range(rounds + 1):
        for name, path in rng.sample(list(times), len(times)):
            network.engine = engines[name]
            total_ms, _ = time_frame(network, rng.choice(images), path)
            if number:
                times[name, path].append(total_ms)
    return times


def accuracy(
    network, engines: dict[str, Engine], paths: list[ExecutionPath], data: Path, limit: int | None
) -> dict[str, object]:
    """Average precision of each path with each engine on the same annotated images, in points.

    Args:
        network: its engine is replaced.
        engines: by name.
        paths: distinct.
        data: annotated images.
        limit: only so many of them.
    """
    sequence = with_mapping(open_source(str(data)), NAMES)
    frames = annotated_frames(sequence, limit)
    class_names = network.class_names
    ground_truths = [
        relabelled(frame.ground_truth, sequence.class_names, class_names) for frame in frames
    ]
    ranking = ranking_classes(ground_truths, class_names)
    points: dict[str, dict[str, float]] = {}
    for name, network.engine in engines.items():
        for path, found in detect_on_frames(network, frames, paths).items():
            scores = average_precision(found, ground_truths, class_names)
            points.setdefault(str(path), {})[name] = 100.0 * (
                pooled_ap(scores, ranking) if ranking else scores.ap
            )
    return {
        'dataset': data.parent.name,
        'images': len(frames),
        'ranked_by': ranking,
        'points': points,
    }


def loss(points: dict[str, dict[str, float]], engine: str) -> tuple[float, float]:
    """Mean and largest of what an engine's paths reach less than the eager ones, in points."""
    losses = [row['eager'] - row[engine] for row in points.values()]
    return sum(losses) / len(losses), max(losses)


def show_engines(run: Run, result: dict) -> None:
    """Prints the table, and judges the goals."""
    rows = []
    points = result.get('accuracy', {}).get('points', {})
    for row in result['rows']:
        found = points.get(row['path'])
        rows.append(
            (
                row['path'],
                row['eager_ms'],
                row['openvino_ms'],
                row['eager_ms'] / row['openvino_ms'],
                *([found['eager'], found['openvino']] if found else [None, None]),
            )
        )
    show(
        f'whole frames on {result["device"]}, {result["threads"]} thread(s), median ms',
        'path | eager | openvino | eager over openvino | AP eager | AP openvino',
        rows,
    )
    print('segments: ' + ', '.join(f'{count} {form}' for form, count in result['forms'].items()))
    if 'accuracy' in result:
        words = f'points that openvino loses over {len(points)} paths and {result["accuracy"]["images"]} images'
        run.goal(f'{words}: mean', result['accuracy']['mean_loss'], most=MEAN_LOSS_GOAL)
        run.goal(f'{words}: on one path', result['accuracy']['largest_loss'], most=PATH_LOSS_GOAL)


def main(run: Run) -> None:
    args = run.args
    restart_with_environment(args.threads)
    use_threads(args.threads)
    facts = read_device_facts('cpu')
    weights = find_weights(args.weights)
    network = load_detector(weights)
    engines = {
        'eager': Eager(),
        'openvino': choose_engine('openvino', network, facts, str(weights)),
    }
    paths = sample_paths(network.path_space, args.paths)
    drive = render_drive().frames
    images = [frame.load_bgr() for frame in drive[:: len(drive) // IMAGES][:IMAGES]]
    rounds = QUICK_ROUNDS if run.quick else args.rounds
    times = measure_times(network, engines, paths, images, rounds)
    rows = []
    for path in paths:
        medians = {f'{name}_ms': median(times[name, path]) for name in engines}
        rows.append({'path': str(path), **medians})
    store = SegmentStore.load(
        default_store_folder(network.config_name, network.weights_hash), store_origin(facts)
    )
    result = {
        'device': facts.name,
        'threads': facts.threads,
        'torch': facts.torch_version,
        'engine': engines['openvino'].identity,
        'weights_hash': network.weights_hash,
        'frames_timed_per_path': rounds,
        'forms': Counter(segment.form.value for segment in store.segments.values()),
        'least_signal_to_error_db': min(
            s.error_db for s in store.segments.values() if s.form is Form.INT8
        ),
        'rows': rows,
    }
    if args.data is not None:
        result['accuracy'] = accuracy(network, engines, paths, args.data, args.limit)
        found = result['accuracy']
        found['mean_loss'], found['largest_loss'] = loss(found['points'], 'openvino')
    show_engines(run, result)
    run.write(**result)


if __name__ == '__main__':
    run_script(
        main,
        {
            '--weights': option(DEFAULT_WEIGHTS),
            '--paths': option(60, 'the largest, the smallest, each setting alone, others'),
            '--threads': option(1),
            '--data': option(
                Path('../shared/data/bdd100k/val.json'), 'annotated images to score each path on'
            ),
            '--limit': option(100, 'score on so many of them, spread evenly'),
            '--rounds': option(ROUNDS, 'frames of each path with each engine', least=1),
        },
        quick=f'{QUICK_ROUNDS} frames of each path',
    )
