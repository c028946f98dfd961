"""Grow a network whose longest path keeps a deadline on this device, and which fits a memory limit.

    python research/multi_path/construct.py --help

Times each building block of a family of networks in the engine that will run it, adds blocks and heads while both
limits hold, and writes the result as a configuration, for train --config FILE. The deadline is held against the worst
case: longest executions of all blocks, and what interruptions take of this device meanwhile. Takes one to three
minutes; other programs should rest.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
from construction import (
    SKIP_OPERATORS,
    building_blocks,
    check_limits,
    construct,
)

from deadline_perception.core.device import DeviceFacts, read_device_facts, use_threads
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.engines.choice import is_installed
from deadline_perception.extras.configuration_file import find_configuration, save_configuration
from deadline_perception.extras.faster_rcnn.configuration import DetectorConfig
from deadline_perception.timing.interference import interference_of, watch_interruptions
from deadline_perception.timing.profile import time_frame
from deadline_perception.timing.quantiles import Quantiles
from deadline_perception.timing.wcet.segment_model import EXECUTION
from deadline_perception.tools.command_line import run_alone
from deadline_perception.tools.profile import restart_with_environment
from deadline_perception.tools.support.file_arguments import add_device_arguments, check_file

# As many as Cityscapes has; each costs a row of one layer.
_CLASSES = tuple(f'class{number}' for number in range(8))
_ROUNDS = 24
_LEAST_ROUNDS = 3
_MEASURE_MS = 30_000.0
_CHECKS = 9
_WATCHED_S, _PROBABILITY = 3.0, 0.99  # of windows that interruptions take no more of
_EXAMPLES = 12  # images that segments are prepared with


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        '--deadline-ms',
        type=float,
        required=True,
        help='largest deadline that the network will get',
    )
    parser.add_argument(
        '--memory-mb',
        type=float,
        required=True,
        help='memory for its weights and features, 1e6 bytes',
    )
    parser.add_argument(
        '--family',
        default='compact',
        help='configuration, or JSON file of one, whose blocks and heads it is made of',
    )
    add_device_arguments(parser, 1)
    parser.add_argument(
        '--out', type=Path, default=Path('out/construct/configuration.json'), help='file to write'
    )


def run(args: argparse.Namespace) -> int:
    """Measures, constructs, writes and checks; returns the exit status."""
    # All that can be wrong is told before a minute is spent on measuring.
    check_limits(args.deadline_ms, args.memory_mb)
    check_file('--out', args.out)
    family = find_configuration(args.family)
    if not isinstance(family, DetectorConfig):
        raise ValueError(f'--family is {args.family}, expected a Faster R-CNN, such as compact')
    restart_with_environment(args.threads)
    from deadline_perception.extras.weights_writer import build_detector

    use_threads(args.threads)
    facts = read_device_facts(args.device)
    interference = interference_of(*watch_interruptions(_WATCHED_S), _PROBABILITY)
    # What executes for C ms has ended by the deadline D where C + I(D) <= D.
    taken_ms = float(interference.most_ms(args.deadline_ms))
    print(f'interruptions take up to {taken_ms:.1f} of {args.deadline_ms:g} ms')
    if taken_ms >= args.deadline_ms:
        raise ValueError(
            f'--deadline-ms is {args.deadline_ms:g}, and interruptions take all of that: end other '
            f'programs, or give more'
        )
    blocks = build_detector(building_blocks(family), _CLASSES, device=args.device)
    part_bytes = measure_bytes(blocks)
    with engine_in_use(blocks, facts, block_paths(blocks)):
        segment_ms = measure_times(blocks)
    built = construct(
        family,
        deadline_ms=args.deadline_ms - taken_ms,
        memory_mb=args.memory_mb,
        skips=SKIP_OPERATORS,
        predict_ms=segment_ms.__getitem__,
        weight_bytes=part_bytes,
        name_deadline_ms=args.deadline_ms,
    )
    save_configuration(built.config, args.out)
    network = build_detector(built.config, _CLASSES, device=args.device)
    ends = (network.path_space.smallest, network.path_space.largest)
    with engine_in_use(network, facts, ends):
        network.warm_up(ends, family.input_size)
        smallest_ms, largest_ms = (_whole_frame_ms(network, path) for path in ends)
    worst_ms = float(interference.response_ms(built.longest_ms))
    print(
        f'{built.config.name} for {facts}: {len(built.config.path_space)} paths; longest {worst_ms:.1f} ms at worst '
        f'predicted, {largest_ms:.1f} ms measured; shortest {smallest_ms:.1f} ms measured; '
        f'{built.weight_bytes / 1e6:.1f} MB weights and their narrow copies, '
        f'{built.activation_bytes / 1e6:.1f} MB features'
    )
    print(f'wrote {args.out}')
    return 0


@contextmanager
def engine_in_use(detector, facts: DeviceFacts, paths: Iterable[ExecutionPath]) -> Iterator[None]:
    """Has a detector run on what the node would run it on while the block runs: on a CPU the segments of some paths in
    8 bit, where OpenVINO is installed; on a GPU CUDA graphs.
    """
    before = detector.engine
    try:
        with tempfile.TemporaryDirectory() as folder:
            if facts.kind != 'cpu':
                detector.use_graphs()
            elif is_installed():
                detector.engine = _compiled(detector, facts, Path(folder) / 'segments', paths)
            yield
    finally:
        detector.engine = before


def _compiled(detector, facts: DeviceFacts, folder: Path, paths: Iterable[ExecutionPath]):
    from deadline_perception.engines.compiled_segments import CompiledSegments
    from deadline_perception.engines.segment_store import store_origin
    from deadline_perception.extras.preparation.segments import prepare
    from deadline_perception.extras.preparation.store_writer import StoreWriter

    store = StoreWriter.resume(folder, store_origin(facts))
    images = [_image(detector.config, seed) for seed in range(_EXAMPLES)]
    prepare(
        detector,
        images,
        store,
        facts.threads,
        keys={key for path in paths for key in path.space.keys(path)},
    )
    return CompiledSegments(store, facts.threads)


def block_paths(detector) -> list[ExecutionPath]:
    """Paths of full width that run every block of a family, each head with each number of proposals."""
    space = detector.path_space
    return [
        space.largest.replace(proposals=proposals, head=head)
        for proposals, head in itertools.product(
            space.operator('proposals').settings, space.operator('head').settings
        )
    ]


def measure_times(detector) -> dict[str, float]:
    """Longest execution in ms of every segment at full width, taken in the midst of whole frames; blocks until done."""
    space = detector.path_space
    paths = block_paths(detector)
    image = _image(detector.config)
    detector.warm_up([paths[-1]], detector.input_size)
    samples = defaultdict(list)
    start_ms = now_ms()
    for done in range(_ROUNDS):
        if done >= _LEAST_ROUNDS and now_ms() - start_ms > _MEASURE_MS:
            break
        for path in paths:
            for segment, duration_ms in enumerate(time_frame(detector, image, path)[1]):
                samples[space.key(segment, path)].append(duration_ms)
    return {
        name: getattr(Quantiles.from_samples(durations), EXECUTION)
        for name, durations in samples.items()
    }


def weight_bytes(module) -> int:
    """Memory of a module's weights, with the copies that the cuts used so far have left."""
    from torch import Tensor

    from deadline_perception.engines.sliced_layers import SlicedLayer

    own = {
        tensor.untyped_storage().data_ptr()
        for tensor in itertools.chain(module.parameters(), module.buffers())
    }
    copies = (
        part
        for layer in module.modules()
        if isinstance(layer, SlicedLayer)
        for parts in layer._laid_out.values()
        for part in parts
        if isinstance(part, Tensor)
    )
    return sum(parameter.nbytes for parameter in module.parameters()) + sum(
        copy.nbytes for copy in copies if copy.untyped_storage().data_ptr() not in own
    )


def measure_bytes(detector) -> dict[str, int]:
    """Bytes of the weights by part, with the copies that all widths together keep; runs each width once."""
    space = detector.path_space
    each = {name: space.operator(name).settings for name in ('width', 'pyramid_width', 'head')}
    fewest = space.largest.replace(proposals=space.operator('proposals').settings[0])
    detector.warm_up(
        (
            fewest.replace(**dict(zip(each, settings)))
            for settings in itertools.product(*each.values())
        ),
        detector.input_size,
    )
    backbone = detector.backbone
    parts = {
        f'stage{stage}': weight_bytes(block) for stage, block in enumerate(backbone.first_blocks, 1)
    }
    parts['stage1'] += weight_bytes(backbone.stem)
    parts |= {f'skip{index}': weight_bytes(skip) for index, skip in enumerate(backbone.skips)}
    parts |= {
        f'head{index}': weight_bytes(head) for index, head in enumerate(detector.heads.subnets)
    }
    return parts | {'pyramid': weight_bytes(detector.pyramid), 'rpn': weight_bytes(detector.rpn)}


def _image(config: DetectorConfig, seed: int = 0) -> np.ndarray:
    shape = (*config.input_size, 3)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def _whole_frame_ms(detector, path: ExecutionPath) -> float:
    image = _image(detector.config)
    return median(time_frame(detector, image, path)[0] for _ in range(_CHECKS))


if __name__ == '__main__':
    sys.exit(run_alone(sys.modules[__name__]))
