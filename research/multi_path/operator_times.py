"""Time of every operator of `street`: one at a time at each of its settings, the others full.

    python research/multi_path/operator_times.py [--device cpu] [--threads 2] [--network street] [--seconds 25] [--quick]

Frames of all settings and engines are mixed at random, in rounds, so that what else the machine does falls on all
alike: computed eagerly, and by the engine of the detector node, on a CPU prepared segments where `profile --all-
paths` has prepared them for so many threads, on a GPU CUDA graphs, there in float16 as well. `street` has its trained
weights. Any other network is a configuration with random ones, which find as many proposals as a path allows but name
next to nothing, so that their final suppression is lighter than a trained network's: `paper` is the multi-path
paper's at the smallest image scale of its table V, a JSON file with another `input_size` at any other (lengths of the
shorter side, as its table VI confirms).
Writes results/operator_times.json, on a GPU with the device in the name.
"""

from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path

import torch

from deadline_perception.core.device import read_device_facts
from deadline_perception.core.execution_path import SKIP, ExecutionPath, PathSpace, setting_text
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.engines.eager import Eager
from deadline_perception.extras.configuration_file import find_configuration
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.extras.weights_writer import build_detector
from deadline_perception.networks.model_reference import use_engine
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.networks.multi_path.network import MultiPathDetector
from deadline_perception.timing.profile import time_frame

sys.path.append(str(Path(__file__).resolve().parents[2] / 'benchmarks'))
from parts.harness import ROOT, Run, option, quantiles, run_script, show, turns

WEIGHTS = ROOT / 'models' / 'street.safetensors'
CLASSES = ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign')
BACKGROUND_BIAS = 4.0  # of random heads, so that few of their regions are certain of a class
ENDS = ('full', 'cheapest')
IMAGE_SIZE = (1280, 720)
IMAGES = 8
MOST_ROUNDS = 10_000
QUICK_S = 8.0
WARM_UP_SHARE = 0.15  # of the time; a network that takes longer for all paths skips the rest
RANGE_GOAL = 20.0  # of street, as it ships: full path over the cheapest


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


def build(name: str, device: str) -> tuple[MultiPathDetector, str]:
    """The network, and what its weights are."""
    if name == 'street':
        return load_detector(WEIGHTS, device), 'trained'
    network = build_detector(find_configuration(name), CLASSES, device=device)
    with torch.no_grad():
        for head in network.heads.subnets:
            head.classes.bias[0] = BACKGROUND_BIAS
    return network, 'random'


def measure(name: str, device: str, seconds: float) -> dict:
    """Times one network."""
    frames = render_drive(seconds=2.0, width=IMAGE_SIZE[0], height=IMAGE_SIZE[1]).frames
    apart = max(1, len(frames) // IMAGES)
    images = [frame.load_bgr() for frame in frames[::apart]]
    networks = {}
    for way in ('eager', 'auto', 'float16') if device.startswith('cuda') else ('eager', 'auto'):
        network, weights = build(name, device)
        use_engine(network, way, device, WEIGHTS)
        networks[way if way == 'float16' else network.engine.identity] = network
        print(network.engine.notice, flush=True)
    paths = settings(network.path_space)
    rng = random.Random(0)

    def time_path(engine: str, label: str) -> float:
        return time_frame(networks[engine], rng.choice(images), paths[label])[0]

    for engine in networks:
        until_ms = now_ms() + 1000.0 * WARM_UP_SHARE * seconds
        for label in paths:
            time_path(engine, label)
            if engine == Eager.identity and now_ms() > until_ms:
                break
    until_ms = now_ms() + 1000.0 * seconds
    times_ms = {job: [time_path(*job)] for job in itertools.product(networks, ENDS)}
    for _, job in turns(itertools.product(networks, paths), MOST_ROUNDS):
        if now_ms() > until_ms:
            break
        times_ms.setdefault(job, []).append(time_path(*job))
    variants = []
    for engine in networks:
        rows = []
        for label, path in paths.items():
            found = times_ms.get((engine, label), [])
            median_ms, p99_ms = quantiles(found, 'p50', 'p99').values()
            row = {'setting': label, 'path': str(path), 'frames': len(found)}
            rows.append({**row, 'median_ms': median_ms, 'p99_ms': p99_ms})
        full_ms, cheapest_ms = (row['median_ms'] for row in rows[:2])
        share = round(full_ms / cheapest_ms, 2)
        variants.append({'variant': engine, 'rows': rows, 'full_over_cheapest': share})
    return {'input_size': list(network.input_size), 'weights': weights, 'variants': variants}


def main(run: Run) -> None:
    args = run.args
    facts = read_device_facts(args.device)
    if facts.kind != 'cpu':
        run.name = f'operator_times_{facts.slug}'
    found = measure(args.network, args.device, QUICK_S if run.quick else args.seconds)
    size = 'x'.join(str(side) for side in reversed(found['input_size']))
    show(
        f'{args.network} at {size} px, {args.threads} CPU thread(s), {found["weights"]} weights',
        'one operator at a time | engine | median ms | p99 ms | of full | frames',
        [
            (
                *(row['setting'], variant['variant'], row['median_ms'], row['p99_ms']),
                f'{row["median_ms"] / variant["rows"][0]["median_ms"]:.0%}'
                if row['frames']
                else None,
                row['frames'],
            )
            for variant in found['variants']
            for row in variant['rows']
        ],
        words=2,
    )
    for variant in found['variants']:
        words = f'{args.network}, {variant["variant"]}: full over the cheapest path'
        run.goal(words, variant['full_over_cheapest'], least=RANGE_GOAL)
    run.write(
        device=facts.name,
        torch=facts.torch_version,
        network=args.network,
        threads=args.threads,
        **found,
    )


if __name__ == '__main__':
    run_script(
        main,
        {
            '--device': option('cpu', 'cpu, cuda or cuda:INDEX'),
            '--threads': option(2, 'CPU threads', least=1),
            '--seconds': option(25.0, 'time for measuring', above=0.0),
            '--network': option('street', 'or a configuration, by its name or as a JSON file'),
        },
        quick=f'{QUICK_S:g} s',
    )
