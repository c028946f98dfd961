"""The engines of the CPU against each other, on the same paths and images in one run: time, accuracy, efficiency.

    python benchmarks/engines.py [--paths 60] [--rounds 12] [--threads 1] [--data VAL.json [--limit N]] [--quick]

Needs prepared segments (`profile --all-paths`). Frames of all paths and engines are mixed at random, in rounds,
so that what else the machine does falls on all alike. Efficiency is what the layers of a path compute per second of the
whole frame, over what a large 8-bit matrix product reaches at the same threads, timed between the rounds. With --data
every path is also scored on annotated images with each engine, after the times. Prints tables and writes
results/engines.json, with --quick below out/benchmarks.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch
from parts.harness import Run, run_script, show, timed_ms
from street_accuracy import NAMES
from torch.utils.flop_counter import FlopCounterMode

from deadline_perception.core.device import DeviceFacts, read_device_facts, use_threads
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.engines.choice import choose_engine
from deadline_perception.engines.compiled_segments import CompiledSegment, Compiler
from deadline_perception.engines.eager import Eager, Engine
from deadline_perception.engines.preparation import Call, SegmentMaker
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
ROUNDS, QUICK_ROUNDS = 25, 5
PRODUCT_ROWS, PRODUCT_SIDE = 1024, 2048  # of the matrix product: 8.6 billion operations
MEAN_LOSS_GOAL, PATH_LOSS_GOAL = 0.3, 1.0  # of 8 bit against float, in points of AP


def matrix_product(facts: DeviceFacts, folder: Path) -> tuple[CompiledSegment, Call]:
    """A large matrix product in 8 bit, compiled as segments are, and what to call it with."""
    weight = (
        torch.randn(PRODUCT_SIDE, PRODUCT_SIDE, generator=torch.Generator().manual_seed(0))
        / PRODUCT_SIDE**0.5
    )

    def product(values: dict) -> tuple[torch.Tensor, ...]:
        return (torch.nn.functional.linear(values['x'][0], weight),)

    calls = []
    with torch.inference_mode():
        for _ in range(4):
            inputs = {'x': (torch.randn(PRODUCT_ROWS, PRODUCT_SIDE),)}
            calls.append(Call(product, inputs, product(inputs)))
    store = SegmentStore.resume(folder, store_origin(facts))
    SegmentMaker(store, facts.threads).make('product', calls)
    if store.segments['product'].form is not Form.INT8:
        raise ValueError(
            f'the matrix product runs as {store.segments["product"].form.value}, expected 8 bit: '
            f'{store.segments["product"].reason}'
        )
    return Compiler(facts.threads).load(store.compiled('product')), calls[0]


def operations(network, image: np.ndarray, path: ExecutionPath) -> int:
    """Operations of a frame's layers, a multiplication and an addition each counted as one."""
    with FlopCounterMode(display=False) as counter:
        network.detect(image, path)
    return counter.get_total_flops()


def measure_times(
    network,
    engines: dict[str, Engine],
    paths: list[ExecutionPath],
    images: list[np.ndarray],
    rounds: int,
    between: Callable[[], None],
) -> dict[tuple[str, ExecutionPath], list[float]]:
    """Times of whole frames in ms, by engine and path; one frame of each is dropped.

    Args:
        network: its engine is replaced meanwhile.
        engines: by name.
        paths: distinct.
        images: uint8 `[height, width, 3]`.
        rounds: frames of each path with each engine.
        between: called after each round.
    """
    rng = random.Random(0)
    times = {(name, path): [] for name in engines for path in paths}
    for number in range(rounds + 1):
        for name, path in rng.sample(list(times), len(times)):
            network.engine = engines[name]
            total_ms, _ = time_frame(network, rng.choice(images), path)
            if number:
                times[name, path].append(total_ms)
        between()
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
                row['gflop'],
                row['eager_ms'],
                row['openvino_ms'],
                row['eager_ms'] / row['openvino_ms'],
                f'{row["efficiency"]:.0%}',
                *([found['eager'], found['openvino']] if found else [None, None]),
            )
        )
    show(
        f'whole frames on {result["device"]}, {result["threads"]} thread(s), median ms',
        (
            'path',
            'GFLOP',
            'eager',
            'openvino',
            'eager over openvino',
            'efficiency',
            'AP eager',
            'AP openvino',
        ),
        rows,
    )
    print(
        f'segments: {", ".join(f"{count} {form}" for form, count in result["forms"].items())}; 8-bit matrix '
        f'product: {result["product_gops"]:.0f} billion operations/s'
    )
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
    product_ms: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        product, call = matrix_product(facts, Path(folder))

        work = {path: operations(network, images[0], path) for path in paths}
        times = measure_times(
            network,
            engines,
            paths,
            images,
            QUICK_ROUNDS if run.quick else args.rounds,
            lambda: product_ms.append(timed_ms(lambda: product(call.arrays))),
        )
    product_gops = 2 * PRODUCT_ROWS * PRODUCT_SIDE**2 / median(product_ms) / 1e6
    rows = []
    for path in paths:
        medians = {f'{name}_ms': median(times[name, path]) for name in engines}
        rows.append(
            {
                'path': str(path),
                'gflop': work[path] / 1e9,
                **medians,
                'efficiency': work[path] / medians['openvino_ms'] / 1e6 / product_gops,
            }
        )
    store = SegmentStore.load(
        default_store_folder(network.config_name, network.weights_hash), store_origin(facts)
    )
    result = {
        'device': facts.name,
        'threads': facts.threads,
        'torch': facts.torch_version,
        'engine': engines['openvino'].identity,
        'weights_hash': network.weights_hash,
        'frames_timed_per_path': QUICK_ROUNDS if run.quick else args.rounds,
        'product_gops': product_gops,
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
            '--weights': {'type': Path, 'default': DEFAULT_WEIGHTS},
            '--paths': {
                'type': int,
                'default': 12,
                'help': 'the largest, the smallest, each setting alone, others',
            },
            '--threads': {'type': int, 'default': 1},
            '--data': {'type': Path, 'help': 'annotated images to score each path on'},
            '--limit': {'type': int, 'help': 'score on so many of them, spread evenly'},
            '--rounds': {
                'type': int,
                'default': ROUNDS,
                'least': 1,
                'help': 'frames of each path with each engine',
            },
        },
        quick=f'{QUICK_ROUNDS} frames of each path',
    )
