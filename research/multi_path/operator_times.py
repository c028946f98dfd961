"""Time of every operator of `street`, `orin` and `paper`: one at a time at each of its settings, the others full.

    python research/multi_path/operator_times.py [--device cpu] [--configurations street orin paper] [--quick]

Frames of all settings and engines are mixed at random, in rounds, so that what else the machine does falls on all alike:
computed eagerly, and by the engine of the detector node, on a CPU prepared segments where `profile --all-paths` has
prepared them for so many threads, on a GPU CUDA graphs. Each network runs in a process of its own with the settings that
the detector node uses. `street` has its trained weights, the others random ones, which find as many proposals as a path
allows but name next to nothing, so that their final suppression is lighter than a trained network's. `paper` runs at the
image scales of the multi-path paper, table V, read as lengths of the shorter side (its table VI, with maps of 136x240,
confirms 540 px): BDD100K 540 to 720, Cityscapes 700 to 950, in multiples of 32. The CPU runs the shorter one of each.
Writes results/operator_times.json, on a GPU with the device in the name.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import torch

from deadline_perception.core.device import process_environment, read_device_facts, use_threads
from deadline_perception.core.execution_path import SKIP, ExecutionPath, PathSpace, setting_text
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.engines.eager import Eager
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.extras.weights_writer import build_detector
from deadline_perception.networks.model_reference import use_engine
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.networks.multi_path.configuration import configurations
from deadline_perception.networks.multi_path.network import MultiPathDetector
from deadline_perception.timing.profile import time_frame

sys.path.append(str(Path(__file__).resolve().parents[2] / 'benchmarks'))
from parts.harness import ROOT, Run, option, quantiles, run_script, show, turns

WEIGHTS = ROOT / 'models' / 'street.safetensors'
SCALES = {
    'BDD100K 540': (544, 960),
    'Cityscapes 700': (704, 1408),
    'BDD100K 720': (736, 1280),
    'Cityscapes 950': (960, 1920),
}  # height and width in px
CPU_SCALES = ('BDD100K 540', 'Cityscapes 700')
CLASSES = ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign')
BACKGROUND_BIAS = 4.0  # of random heads, so that few of their regions are certain of a class
ENDS = ('full', 'cheapest')
IMAGE_SIZE = (1280, 720)
IMAGES = 8
MOST_ROUNDS = 10_000
QUICK_S = 8.0
WARM_UP_SHARE = 0.15  # of the time; the networks that take longer for all paths skip the rest
RANGE_GOAL = 20.0  # of street, as it ships: full path over the cheapest


@dataclass(frozen=True)
class Case:
    """One network in one process; `scale` is of `SCALES`, empty for the configuration's own size."""

    configuration: str
    scale: str
    threads: int
    seconds: float


def cases(device: str, configurations: list[str], quick: bool) -> list[Case]:
    """All networks to measure on a device."""
    if device == 'cpu':
        threads = min(2, len(os.sched_getaffinity(0)))
        found = [Case('street', '', 1, 25.0), Case('street', '', 2, 25.0)]
        found += [Case('orin', '', threads, 25.0)]
        found += [Case('paper', scale, threads, 50.0) for scale in CPU_SCALES]
    else:
        scales = [('street', ''), ('orin', ''), *(('paper', scale) for scale in SCALES)]
        found = [Case(*one, 1, 30.0) for one in scales]
    return [
        replace(case, seconds=QUICK_S) if quick else case
        for case in found
        if case.configuration in configurations
    ]


def settings(space: PathSpace) -> dict[str, ExecutionPath]:
    """Paths by what differs from the full one; `ENDS` first."""
    full = space.largest
    paths = dict(zip(ENDS, (full, space.smallest)))
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
    if case.configuration == 'street':
        return load_detector(WEIGHTS, device), 'trained'
    config = configurations()[case.configuration]
    if case.scale:
        config = replace(config, input_size=SCALES[case.scale])
    network = build_detector(config, CLASSES, device=device)
    with torch.no_grad():
        for head in network.heads.subnets:
            head.classes.bias[0] = BACKGROUND_BIAS
    return network, 'random'


def measure(case: Case, device: str) -> dict:
    """Times one case in this process."""
    use_threads(case.threads)
    frames = render_drive(seconds=2.0, width=IMAGE_SIZE[0], height=IMAGE_SIZE[1]).frames
    apart = max(1, len(frames) // IMAGES)
    images = [frame.load_bgr() for frame in frames[::apart]]
    network, weights = build(case, device)
    use_engine(network, 'auto', device, WEIGHTS)
    engines = {Eager.identity: Eager(), network.engine.identity: network.engine}
    print(network.engine.notice, flush=True)
    paths = settings(network.path_space)
    rng = random.Random(0)

    def time_path(engine: str, label: str) -> float:
        network.engine = engines[engine]
        return time_frame(network, rng.choice(images), paths[label])[0]

    for engine in engines:
        until_ms = now_ms() + 1000.0 * WARM_UP_SHARE * case.seconds
        for label in paths:
            time_path(engine, label)
            if engine == Eager.identity and now_ms() > until_ms:
                break
    until_ms = now_ms() + 1000.0 * case.seconds
    times_ms = {job: [time_path(*job)] for job in itertools.product(engines, ENDS)}
    for _, job in turns(itertools.product(engines, paths), MOST_ROUNDS):
        if now_ms() > until_ms:
            break
        times_ms.setdefault(job, []).append(time_path(*job))
    variants = []
    for engine in engines:
        rows = []
        for label, path in paths.items():
            found = times_ms.get((engine, label), [])
            median_ms, p99_ms = quantiles(found, 'p50', 'p99').values()
            row = {'setting': label, 'path': str(path), 'frames': len(found)}
            rows.append({**row, 'median_ms': median_ms, 'p99_ms': p99_ms})
        full_ms, cheapest_ms = (row['median_ms'] for row in rows[:2])
        share = round(full_ms / cheapest_ms, 2)
        variants.append({'variant': engine, 'rows': rows, 'full_over_cheapest': share})
    return {
        'configuration': case.configuration,
        'scale': case.scale,
        'input_size': list(network.input_size),
        'threads': case.threads,
        'weights': weights,
        'variants': variants,
    }


def show_case(result: dict) -> None:
    """Prints the table of one case."""
    size = 'x'.join(str(side) for side in reversed(result['input_size']))
    show(
        f'{result["configuration"]} at {size} px, {result["scale"]}, {result["threads"]} CPU thread(s), '
        f'{result["weights"]} weights',
        'one operator at a time | engine | median ms | p99 ms | of full | frames',
        [
            (
                *(row['setting'], variant['variant'], row['median_ms'], row['p99_ms']),
                f'{row["median_ms"] / variant["rows"][0]["median_ms"]:.0%}'
                if row['frames']
                else None,
                row['frames'],
            )
            for variant in result['variants']
            for row in variant['rows']
        ],
        words=2,
    )


def main(run: Run) -> None:
    args = run.args
    facts = read_device_facts(args.device)
    if facts.kind != 'cpu':
        run.name = f'operator_times_{facts.slug}'
    measured = []
    for case in cases(args.device, args.configurations, args.quick):
        os.environ |= process_environment(case.threads)
        with ProcessPoolExecutor(1, get_context('spawn')) as process:
            measured.append(process.submit(measure, case, args.device).result())
        show_case(measured[-1])
        for variant in measured[-1]['variants']:
            words = f'{case.configuration}, {variant["variant"]}: full over the cheapest path'
            run.goal(words, variant['full_over_cheapest'], least=RANGE_GOAL)
    run.write(device=facts.name, torch=facts.torch_version, quick=args.quick, cases=measured)


if __name__ == '__main__':
    configurations_of = ['street', 'orin', 'paper']
    run_script(
        main,
        {
            '--device': option('cpu', 'cpu, cuda or cuda:INDEX'),
            '--configurations': option(configurations_of, nargs='+', choices=configurations_of),
        },
        quick=f'{QUICK_S:g} s for each network',
    )
