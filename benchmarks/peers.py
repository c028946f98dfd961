"""Detectors that others use, beside three paths of the shipped network: time and memory of a 640x384 frame.

    python benchmarks/peers.py [--minutes 4] [--threads 1] [--peers SSDLite320 ...] [--quick]

Peers are torchvision's SSDLite320-MobileNetV3, Faster R-CNN MobileNetV3-320-FPN and Faster R-CNN ResNet-50-FPN, each in
eager PyTorch, and as a user of OpenVINO would run them: the whole model through `openvino.convert_model`, in floating point
and in 8 bit by `nncf.quantize`; where one of these does not work, the table says why. The first resizes images to 320x320 px,
the second to 533x320, the third computes them as they are (torchvision's default of 800 px would be four times the work).
Our network runs on its prepared segments: its full, a middle and its cheapest path.

All have one image in and boxes, scores and classes out, as uint8 and as numbers of the CPU, with the same threads. Each has
a process of its own; frames of all are mixed at random, in rounds, so that what else the machine does falls on all alike.
Memory is what a process holds after its frames, with the libraries that it needs.
Weights of the peers are random, for none are at hand that were trained on the same images: this is about time and
memory, and says nothing of accuracy. peer_networks.py says how values are set so that times are those of trained networks:
in the mean they find as many objects as our full path does.

Prints a table and writes results/peers.json; with --quick below out/benchmarks.
"""
from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from datetime import date
from pathlib import Path

import numpy as np
from peer_networks import LEAST_SCORE, PEERS, SIZE, Plain, build, prepared
from rich.console import Console
from rich.table import Table
from served import Served, serve

from deadline_perception.engine.choice import ENGINES
from deadline_perception.execution_path import ExecutionPath
from deadline_perception.latency.device import read_device_facts, use_threads
from deadline_perception.latency.json_file import write_text_atomically
from deadline_perception.latency.stopwatch import now_ms
from deadline_perception.rendering.drive import render_drive
from deadline_perception.runtime.loading import load_network
from deadline_perception.tools.command_line import exit_status
from deadline_perception.tools.profile import restart_with_environment

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / 'benchmarks' / 'results' / 'peers.json'
QUICK_RESULTS = ROOT / 'out' / 'benchmarks' / RESULTS.name  # never in place of published ones
FORMS = ('eager', 'float', '8 bit')
OURS = ('full', 'middle', 'cheapest')
IMAGES, WARM_UP = 24, 3
IMAGES_FILE = 'images.npy'
LEAST_ROUNDS, MOST_ROUNDS = 5, 200


def middle_path(space) -> ExecutionPath:
    """Each operator at the setting in the middle, of two the larger one."""
    return ExecutionPath(tuple(len(operator.settings) // 2 for operator in space.operators), space)


def memory_mb() -> float:
    """What this process holds now."""
    return int(re.search(r'VmRSS:\s+(\d+)', Path('/proc/self/status').read_text())[1]) / 1024.0


def serve_peer(name: str, form: str, folder: Path, images: list[np.ndarray], classes: int, threads: int) -> None:
    """In a process: runs frames of a peer."""
    if form == 'eager':
        import torch

        model = Plain(build(name, classes, folder / 'weights.pt'))

        def detect(image: np.ndarray) -> int:
            with torch.inference_mode():
                return [part.numpy() for part in model(prepared(image))][1].size
    else:
        from deadline_perception.engine.compiled_segments import load_openvino

        openvino = load_openvino()
        compiled = openvino.Core().compile_model(folder / f'{form}.xml', 'CPU', {
            'PERFORMANCE_HINT': 'LATENCY', 'INFERENCE_NUM_THREADS': threads})
        request = compiled.create_infer_request()

        def detect(image: np.ndarray) -> int:
            pixels = np.ascontiguousarray(image[:, :, ::-1].transpose(2, 0, 1)[None], np.float32)
            pixels /= 255.0
            found = request.infer([pixels])
            return [found[index] for index in range(3)][1].size

    def frame(number: int) -> tuple[float, int]:
        begun_ms = now_ms()
        count = detect(images[number])
        return now_ms() - begun_ms, count

    serve({'frame': lambda number, _: frame(number), 'memory': memory_mb})


def serve_ours(weights: str, engine: str, images: list[np.ndarray]) -> None:
    """In a process: runs frames of our network on any of the three paths."""
    from torch.utils.flop_counter import FlopCounterMode

    network, _ = load_network(weights, 'cpu', ROOT / 'models', engine)
    space = network.path_space
    paths = dict(zip(OURS, (space.largest, middle_path(space), space.smallest)))

    def frame(number: int, name: str) -> tuple[float, int]:
        begun_ms = now_ms()
        found = network.detect(images[number], paths[name])
        taken_ms = now_ms() - begun_ms
        return taken_ms, int((found.scores >= LEAST_SCORE).sum())

    def facts() -> dict:
        shipped, gflop = network.engine, {}
        network.engine = load_network(weights, 'cpu', ROOT / 'models', 'eager')[0].engine  # layers are counted as torch's
        for name, path in paths.items():
            with FlopCounterMode(display=False) as counter:
                network.detect(images[0], path)
            gflop[name] = counter.get_total_flops() / 1e9
        network.engine = shipped
        return {'gflop': gflop, 'paths': {name: str(path) for name, path in paths.items()}, 'engine': shipped.identity,
                'notice': shipped.notice, 'weights_hash': network.weights_hash, 'classes': len(network.class_names)}

    serve({'frame': frame, 'memory': memory_mb, 'facts': facts})


def make_peer(name: str, folder: Path, classes: int, wanted: float) -> dict:
    """Has a peer made in a process of its own; its facts."""
    own = folder_of(folder, name)
    own.mkdir()
    done = subprocess.run([sys.executable, ROOT / 'benchmarks' / 'peer_networks.py', name, str(classes),
                           folder / IMAGES_FILE, str(wanted), own], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    if done.returncode:
        raise ValueError(f'{name} could not be made, status {done.returncode}: {done.stdout[-500:]}')
    return json.loads((own / 'facts.json').read_text(encoding='utf-8'))


def folder_of(folder: Path, name: str) -> Path:
    """Where a peer is kept."""
    return folder / re.sub(r'\W+', '_', name).lower()


def measure(asked: dict[str, tuple[Served, str]], images: int, limit_s: float) -> dict[str, list[tuple[float, int]]]:
    """Times in ms and objects of frames by name of what ran, all in turn in random order until the time is up.

    Args:
        asked: process and what it is told, by name.
        images: number of images.
        limit_s: time to measure, but for the first rounds.
    """
    rng, samples = random.Random(0), {name: [] for name in asked}
    begun_ms = now_ms()
    for number in range(WARM_UP + MOST_ROUNDS):
        if number >= WARM_UP + LEAST_ROUNDS and now_ms() - begun_ms > 1000.0 * limit_s:
            break
        for name in rng.sample(list(asked), len(asked)):
            served, words = asked[name]
            taken = served.ask('frame', rng.randrange(images), words)
            if number >= WARM_UP:
                samples[name].append(taken)
    return samples


def row_of(name: str, form: str, taken: list[tuple[float, int]], memory: float, gflop: float, regions: int | None) -> dict:
    """What was measured of one network in one form."""
    times_ms, objects = zip(*taken)
    return {'network': name, 'form': form, 'frames': len(times_ms), 'median_ms': statistics.median(times_ms),
            'p99_ms': float(np.quantile(times_ms, 0.99)), 'gflop': gflop, 'memory_mb': memory, 'regions': regions,
            'objects_per_image': statistics.fmean(objects)}


def show(result: dict, console: Console) -> None:
    """Prints the table."""
    table = Table(title=f'a frame of {SIZE[1]}x{SIZE[0]} px on {result["device"]}, {result["threads"]} thread(s), '
                        f'{result["rows"][0]["frames"]} frames each in turn')
    for title in ('network', 'form', 'median ms', 'p99 ms', 'GFLOP', 'memory MB', 'regions', 'objects'):
        table.add_column(title, justify='left' if title in ('network', 'form') else 'right', no_wrap=True)
    for row in result['rows']:
        table.add_row(row['network'], row['form'], f'{row["median_ms"]:.1f}', f'{row["p99_ms"]:.1f}', f'{row["gflop"]:.1f}',
                      f'{row["memory_mb"]:.0f}', str(row['regions'] or '-'), f'{row["objects_per_image"]:.1f}')
    console.print(table)
    for name, reasons in result['missing'].items():
        for form, reason in reasons.items():
            console.print(f'{name} has no {form} form: {reason}', soft_wrap=True)
    console.print('weights of the peers are random: no accuracy is compared')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--weights', type=Path, default=ROOT / 'models' / 'compact.safetensors', help='our network')
    parser.add_argument('--engine', choices=ENGINES, default='auto', help='that runs it')
    parser.add_argument('--minutes', type=float, default=4.0, help='of measuring; making the peers takes 3 more')
    parser.add_argument('--threads', type=int, default=1, help='CPU threads of every network')
    parser.add_argument('--peers', nargs='+', default=list(PEERS), help='only those whose names hold one of these words')
    parser.add_argument('--quick', action='store_true', help=f'8 images, {LEAST_ROUNDS} rounds: shows that it works')
    parser.add_argument('--serve', nargs=4, metavar=('NAME', 'FORM', 'FOLDER', 'CLASSES'), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.minutes < 0.0:
        parser.error(f'--minutes is {args.minutes}, expected at least 0')
    restart_with_environment(args.threads)
    use_threads(args.threads)
    if args.serve:
        name, form, folder, classes = args.serve
        images = list(np.load(Path(folder) / IMAGES_FILE))
        if form:
            serve_peer(name, form, folder_of(Path(folder), name), images, int(classes), args.threads)
        else:
            serve_ours(str(args.weights), args.engine, images)
        return
    peers = [name for name in PEERS if any(words in name for words in args.peers)]
    load_before = round(os.getloadavg()[0], 2)
    frames = render_drive(width=SIZE[1], height=SIZE[0]).frames
    count = 8 if args.quick else IMAGES
    images = np.stack([frames[index * len(frames) // count].load_bgr() for index in range(count)])

    def command(name: str, form: str, classes: int) -> list[str]:
        return [sys.executable, __file__, '--weights', str(args.weights), '--engine', args.engine, '--threads',
                str(args.threads), '--serve', name, form, str(folder), str(classes)]

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        np.save(folder / IMAGES_FILE, images)
        ours = stack.enter_context(Served(command('ours', '', 0)))
        facts = ours.ask('facts')
        print(f'ours: engine {facts["engine"]}. {facts["notice"]}', flush=True)
        wanted = statistics.fmean(ours.ask('frame', number, 'full')[1] for number in range(count))
        asked = {f'ours {name}': (ours, name) for name in OURS}
        made, missing = {}, {}
        for name in peers:
            made[name] = make_peer(name, folder, facts['classes'], wanted)
            missing[name] = made[name]['missing']
            print(f'{name}: {made[name]}', flush=True)
            for form in FORMS:
                if form not in missing[name]:
                    asked[f'{name} {form}'] = (stack.enter_context(Served(command(name, form, facts['classes']))), '')
        samples = measure(asked, count, 0.0 if args.quick else 60.0 * args.minutes)
        rows = [row_of(f'ours, {name}: {facts["paths"][name]}', 'as shipped', samples[f'ours {name}'], ours.ask('memory'),
                       facts['gflop'][name], None) for name in OURS]
        rows += [row_of(name, form, samples[f'{name} {form}'], asked[f'{name} {form}'][0].ask('memory'),
                        made[name]['gflop'], made[name]['regions'])
                 for name in peers for form in FORMS if form not in missing[name]]
    result = {'date': date.today().isoformat(), 'device': read_device_facts('cpu').name, 'threads': args.threads,
              'load_before': load_before, 'engine': facts['engine'], 'weights_hash': facts['weights_hash'],
              'objects_wanted': wanted, 'quick': args.quick, 'rows': rows, 'missing': missing}
    show(result, Console(width=max(120, Console().width)))
    file = QUICK_RESULTS if args.quick else RESULTS
    write_text_atomically(file, json.dumps(result, indent=1) + '\n')
    print(f'wrote {file.relative_to(ROOT)}')


if __name__ == '__main__':
    sys.exit(exit_status(Path(__file__).name, main))
