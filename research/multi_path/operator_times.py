"""Time of every operator of `street`, `orin` and `paper`: one at a time at each of its settings, the others full.

    python research/multi_path/operator_times.py [--device cpu] [--configurations street orin paper] [--time-scale 1]
        [--quick]

Frames of all settings are mixed at random, in rounds, so that what else the machine does falls on all alike. On a CPU,
those of trained weights run on their prepared segments too, as they ship, where `profile --all-paths` has
prepared them for so many threads. On a GPU, frames in float32 and float16, computed and replayed as CUDA graphs, are
mixed as well; float32 there is what PyTorch does unasked, and named TF32 where its convolutions are rounded to that.
Each network runs in a process of its own with the settings that the detector node uses. `street` has its trained
weights, the others random ones, which find as many proposals as a path allows but name next to nothing, so that their
final suppression is lighter than a trained network's. `paper` runs at the image scales of the multi-path paper, table
V, read as lengths of the shorter side (its table VI, with maps of 136x240, confirms 540 px): BDD100K 540 to 720,
Cityscapes 700 to 950, in multiples of 32. The CPU runs the shorter one of each. Prints tables and writes
results/operator_times.json, on a GPU with the device in the name; with --quick below out/benchmarks.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from deadline_perception.core.device import process_environment, read_device_facts, use_threads
from deadline_perception.core.execution_path import SKIP, ExecutionPath, PathSpace, setting_text
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.engines.choice import choose_engine
from deadline_perception.engines.eager import Eager, Engine
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.extras.weights_writer import build_detector
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.networks.multi_path.configuration import configurations
from deadline_perception.networks.multi_path.network import MultiPathDetector
from deadline_perception.timing.profile import time_frame

sys.path.append(str(Path(__file__).resolve().parents[2] / 'benchmarks'))
from parts.harness import Run, option, run_script, show

WEIGHTS = Path(__file__).parents[2] / 'models' / 'street.safetensors'
SCALES = {
    'BDD100K 540': (544, 960),
    'Cityscapes 700': (704, 1408),
    'BDD100K 720': (736, 1280),
    'Cityscapes 950': (960, 1920),
}  # height and width in px
CPU_SCALES = ('BDD100K 540', 'Cityscapes 700')
CLASSES = ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign')
BACKGROUND_BIAS = 4.0  # of random heads, so that few of their regions are certain of a class
IMAGE_SIZE = (1280, 720)
IMAGES = 8
QUICK_S = 8.0
WARM_UP_SHARE = 0.15  # of the time; on a CPU, where first calls are not much slower, the slow networks skip the rest
RANGE_GOAL = 20.0  # of street, as it ships: full path over the cheapest


@dataclass(frozen=True)
class Case:
    """One network in one process.

    Attributes:
        configuration: name of the network's shape.
        scale: name of its image size in `SCALES`, empty for the configuration's own.
        threads: CPU threads.
        seconds: time to measure.
    """

    configuration: str
    scale: str
    threads: int
    seconds: float


def cases(device: str, configurations: list[str], quick: bool) -> list[Case]:
    """All networks to measure on a device."""
    cores = len(os.sched_getaffinity(0))
    if device == 'cpu':
        found = [
            Case('street', '', 1, 25.0),
            Case('street', '', 2, 25.0),
            Case('orin', '', min(2, cores), 25.0),
        ]
        found += [Case('paper', scale, min(2, cores), 50.0) for scale in CPU_SCALES]
    else:
        found = [Case('street', '', 1, 30.0), Case('orin', '', 1, 30.0)]
        found += [Case('paper', scale, 1, 30.0) for scale in SCALES]
    return [
        replace(case, seconds=QUICK_S) if quick else case
        for case in found
        if case.configuration in configurations
    ]


def settings(space: PathSpace) -> dict[str, ExecutionPath]:
    """Paths by what differs from the full one."""
    full = space.largest
    paths = {'full': full, 'cheapest': space.smallest}
    if skips := space.of_kind(SKIP):
        paths['all skips'] = full.replace(**{skip.name: 'skip' for skip in skips})
    for operator in space.operators:
        for setting in reversed(operator.settings[:-1]):
            paths[f'{operator.name} {setting_text(setting)}'] = full.replace(
                **{operator.name: setting}
            )
    return paths


def build(case: Case, device: str) -> tuple[MultiPathDetector, str]:
    """The network of a case, and what its weights are."""
    if case.configuration == 'street' and WEIGHTS.is_file():
        return load_detector(WEIGHTS, device), 'trained'
    config = configurations()[case.configuration]
    if case.scale:
        config = replace(config, input_size=SCALES[case.scale])
    network = build_detector(config, CLASSES, device=device)
    with torch.no_grad():
        for head in network.heads.subnets:
            head.classes.bias[0] = BACKGROUND_BIAS
    return network, 'random'


class Variant:
    """A network in one precision, run by one engine; the network may serve several.

    Args:
        name: printed name.
        network: the network.
        engine: of this variant.
    """

    def __init__(self, name: str, network: MultiPathDetector, engine: Engine) -> None:
        self.name = name
        self.network = network
        self.engine = engine
        self.memory_mb = 0.0
        self.total_ms: dict[str, list[float]] = {}
        self.segments_ms: dict[str, list[list[float]]] = {}

    def time(self, image: np.ndarray, path: ExecutionPath) -> tuple[float, list[float]]:
        """Time in ms of one frame and of its segments."""
        self.network.engine, idle = self.engine, self.network.engine
        measured = time_frame(self.network, image, path)
        self.network.engine = idle
        return measured

    def row(self, label: str, path: ExecutionPath) -> dict:
        """What was measured of one setting; None where time was too short for it."""
        times = self.total_ms.get(label)
        if not times:
            return {
                'setting': label,
                'path': str(path),
                'frames': 0,
                'median_ms': None,
                'p99_ms': None,
            }
        medians_ms = [statistics.median(times_ms) for times_ms in zip(*self.segments_ms[label])]
        names = [segment.name for segment in self.network.path_space.segments]
        return {
            'setting': label,
            'path': str(path),
            'frames': len(times),
            'median_ms': round(statistics.median(times), 3),
            'p99_ms': round(float(np.quantile(times, 0.99)), 3),
            'segments_ms': {name: round(ms, 3) for name, ms in zip(names, medians_ms)},
        }


def peak_mb(device: str) -> float:
    """Most memory that this process has held on the device, in MB."""
    if device == 'cpu':
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    return torch.cuda.max_memory_reserved(device) / 2**20


def forget_peak(device: str) -> None:
    """Lets `peak_mb` count from what is held now, where that can be: not on a CPU."""
    if device != 'cpu':
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def measure(case: Case, device: str) -> dict:
    """Times one case in this process."""
    use_threads(case.threads)
    frames = render_drive(seconds=2.0, width=IMAGE_SIZE[0], height=IMAGE_SIZE[1]).frames
    images = [frame.load_bgr() for frame in frames[:: max(1, len(frames) // IMAGES)]]
    rng = random.Random(0)
    variants, paths = [], {}
    for precision in ('float32',) if device == 'cpu' else ('float32', 'float16'):
        for replayed in (False,) if device == 'cpu' else (False, True):
            forget_peak(device)
            before_mb = peak_mb(device)
            if not replayed:
                network, weights = build(case, device)
                if precision == 'float16':
                    network.use_float16()
                paths = settings(network.path_space)
            rounded = precision == 'float32' and device != 'cpu' and torch.backends.cudnn.allow_tf32
            if replayed:
                network.use_graphs()
            engine, network.engine = network.engine, Eager()
            variants.append(
                Variant(
                    f'{precision}{" (TF32 convolutions)" * rounded} '
                    f'{"graphs" if replayed else "computed"}',
                    network,
                    engine,
                )
            )
            _warm_up(
                variants[-1],
                paths,
                images,
                case.seconds * WARM_UP_SHARE if device == 'cpu' else float('inf'),
            )
            variants[-1].memory_mb = peak_mb(device) - before_mb
    if device == 'cpu' and weights == 'trained':
        before_mb = peak_mb(device)
        engine = choose_engine('auto', network, read_device_facts(device), str(WEIGHTS))
        if engine.identity == variants[0].engine.identity:
            print(engine.notice)
        else:
            variants.append(Variant(engine.identity, network, engine))
            _warm_up(variants[-1], paths, images, float('inf'))
            variants[-1].memory_mb = peak_mb(device) - before_mb
    selected = _count_proposals(variants[0], images[0], paths['full'])
    started_ms, first = now_ms(), True
    while first or now_ms() - started_ms < case.seconds * 1000.0:
        jobs = [(variant, label) for variant in variants for label in paths]
        rng.shuffle(jobs)
        if first:  # these two come what may
            jobs.sort(key=lambda job: job[1] not in ('full', 'cheapest'))
        for variant, label in jobs:
            if label not in ('full', 'cheapest') and now_ms() - started_ms >= case.seconds * 1000.0:
                break
            total_ms, segments_ms = variant.time(rng.choice(images), paths[label])
            variant.total_ms.setdefault(label, []).append(total_ms)
            variant.segments_ms.setdefault(label, []).append(segments_ms)
        first = False
    measured = []
    for variant in variants:
        rows = [variant.row(label, path) for label, path in paths.items()]
        measured.append(
            {
                'variant': variant.name,
                'memory_mb': round(variant.memory_mb),
                'rows': rows,
                'full_over_cheapest': round(rows[0]['median_ms'] / rows[1]['median_ms'], 2),
                'segments_replayed': len(variant.engine) if variant.engine.reuses_buffers else 0,
                'not_replayed': variant.engine.notice,
            }
        )
    return {
        'configuration': case.configuration,
        'scale': case.scale,
        'input_size': list(network.input_size),
        'threads': case.threads,
        'weights': weights,
        'proposals_found_on_full_path': selected,
        'variants': measured,
    }


def _warm_up(
    variant: Variant, paths: dict[str, ExecutionPath], images: list[np.ndarray], limit_s: float
) -> None:
    started_ms = now_ms()
    for path in paths.values():
        variant.time(images[0], path)
        if now_ms() - started_ms > limit_s * 1000.0:
            return


def _count_proposals(variant: Variant, image: np.ndarray, path: ExecutionPath) -> int:
    select, counts = variant.network.select_proposals, []

    def counted(*args):
        regions = select(*args)
        counts.append(int((regions != 0).any(1).sum()))
        return regions

    variant.network.select_proposals = counted
    variant.time(image, path)
    variant.network.select_proposals = select
    return counts[0]


def show_case(result: dict) -> None:
    """Prints the table of one case."""
    size = 'x'.join(str(side) for side in reversed(result['input_size']))
    scale = f' ({result["scale"]})' if result['scale'] else ''
    heads, rows = ['one operator at a time'], []
    for variant in result['variants']:
        heads += [f'{variant["variant"]}\nmedian ms', 'p99 ms', 'of full', 'frames']
    for index, row in enumerate(result['variants'][0]['rows']):
        cells = [row['setting']]
        for variant in result['variants']:
            mine, full_ms = variant['rows'][index], variant['rows'][0]['median_ms']
            share = f'{mine["median_ms"] / full_ms:.0%}' if mine['frames'] else None
            cells += [mine['median_ms'], mine['p99_ms'], share, mine['frames']]
        rows.append(cells)
    show(
        f'\n{result["configuration"]} at {size} px{scale}, {result["threads"]} CPU thread(s), {result["weights"]} '
        f'weights, {result["proposals_found_on_full_path"]} proposals found on the full path',
        heads,
        rows,
    )
    goal = f' (goal: at least {RANGE_GOAL:g})' if result['configuration'] == 'street' else ''
    for variant in result['variants']:
        print(
            f'{variant["variant"]}: full over cheapest {variant["full_over_cheapest"]:.1f}{goal}, '
            f'memory {variant["memory_mb"]} MB. {variant["not_replayed"]}'
        )


def main(run: Run) -> None:
    args = run.args
    todo = [
        replace(case, seconds=case.seconds * args.time_scale)
        for case in cases(args.device, args.configurations, args.quick)
    ]
    if args.case is not None:
        args.out.write_text(json.dumps(measure(todo[args.case], args.device)), encoding='utf-8')
        return
    facts = read_device_facts(args.device)
    if facts.kind != 'cpu':
        run.name = f'operator_times_{facts.slug}'
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / 'case.json'
        for number, case in enumerate(todo):
            subprocess.run(
                [sys.executable, *sys.argv, '--case', str(number), '--out', str(out)],
                check=True,
                env={**os.environ, **process_environment(case.threads)},
            )
            measured.append(json.loads(out.read_text(encoding='utf-8')))
            show_case(measured[-1])
            run.write(
                device=facts.name,
                torch=facts.torch_version,
                quick=args.quick,
                range_goal_of_street=RANGE_GOAL,
                cases=measured,
            )


if __name__ == '__main__':
    configurations = ['street', 'orin', 'paper']
    run_script(
        main,
        {
            '--device': option('cpu', 'cpu, cuda or cuda:INDEX'),
            '--configurations': option(configurations, nargs='+', choices=configurations),
            '--time-scale': option(
                1.0, 'of the time for each network, in all 3 minutes', above=0.0
            ),
            '--case': option(None, argparse.SUPPRESS, type=int),
        },  # in a process of its own
        quick=f'{QUICK_S:g} s for each network',
    )
