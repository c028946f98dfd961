"""Detectors that others use, beside three paths of the shipped network: time and memory of a 640x384 frame.

    python benchmarks/peers.py [--minutes 4] [--threads 1] [--peers SSDLite320 ...] [--trained FOLDER] [--quick]

Peers are torchvision's SSDLite320-MobileNetV3, Faster R-CNN MobileNetV3-320-FPN and Faster R-CNN ResNet-50-FPN, each in
eager PyTorch, and as a user of OpenVINO would run them: the whole model through `openvino.convert_model`, in floating
point and in 8 bit by `nncf.quantize`; where one of these does not work, the table says why. The first resizes images to
320x320 px, the second to 533x320, the third computes them as they are (torchvision's default of 800 px would be four
times the work). Our network runs on its prepared segments: its full, a middle and its cheapest path.

All have one image in and boxes, scores and classes out, as uint8 and as numbers of the CPU, with the same threads. Each
has a process of its own; frames of all are mixed at random, in rounds, so that what else the machine does falls on all
alike. Memory is what a process holds after its frames, with the libraries that it needs.

Timed are peers with random weights. peer_networks.py says how values are set so that times are those of trained
networks: in the mean they find as many objects as our full path does.

--trained is a folder with what peer_training.py wrote: ssdlite.pt and fasterrcnn.pt with their JSON files. The average
precision of these and of our three paths is measured on the same images, by the same protocol, with scores from 0.05
on: AP and AP50 over all classes on the CARLA validation images and three rendered drives that no training saw, and V+L,
the mean AP of vehicles and traffic lights, on the CARLA images alone. Ours is computed by the shipped engine; peers in
eager PyTorch, so that their 8 bit form may be worse than what stands beside it. Steps, images and minutes of a peer's
training are told beside it: it had one run from random weights, ours had several, each from those before (see its card
in models).

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
from peer_networks import LEAST_SCORE, PEERS, SIZE, TRAINED
from peer_process import memory_mb
from rich.console import Console
from rich.table import Table
from served import Served, serve

from deadline_perception.engine.choice import ENGINES
from deadline_perception.engine.eager import Eager
from deadline_perception.execution_path import ExecutionPath
from deadline_perception.latency.device import read_device_facts, use_threads
from deadline_perception.latency.json_file import write_text_atomically
from deadline_perception.latency.stopwatch import now_ms
from deadline_perception.rendering.drive import render_drive
from deadline_perception.model_set.model_reference import load_network
from deadline_perception.tools.command_line import exit_status
from deadline_perception.tools.profile import restart_with_environment

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / 'benchmarks' / 'results' / 'peers.json'
QUICK_RESULTS = ROOT / 'out' / 'benchmarks' / RESULTS.name  # never in place of published ones
FORMS = ('eager', 'float', '8 bit')
OURS = ('full', 'middle', 'cheapest')
SHIPPED = 'as shipped'  # form of ours
IMAGES, WARM_UP = 24, 3
IMAGES_FILE = 'images.npy'
LEAST_ROUNDS, MOST_ROUNDS = 5, 1000
P99_FRAMES = 100  # of fewer there is no 99th percentile
ANNOTATED = ROOT / '..' / 'shared' / 'data' / 'carla' / 'val.json'
QUICK_IMAGES = 8
# Columns of what is scored, and of how a peer was trained, by their names in the rows.
ACCURACY = {'ap': 'AP', 'ap50': 'AP50', 'vehicle_and_light_ap': 'V+L', 'training_steps': 'steps',
            'training_images': 'images', 'training_minutes': 'minutes', 'training_cpu_minutes': 'of CPU'}


def middle_path(space) -> ExecutionPath:
    """Each operator at the setting in the middle, of two the larger one."""
    return ExecutionPath(tuple(len(operator.settings) // 2 for operator in space.operators), space)


def named_paths(space) -> dict[str, ExecutionPath]:
    """The three paths that are compared."""
    return dict(zip(OURS, (space.largest, middle_path(space), space.smallest)))


def serve_ours(weights: str, engine: str, images: list[np.ndarray]) -> None:
    """In a process: runs frames of our network on any of the three paths, or tells its facts."""
    from torch.utils.flop_counter import FlopCounterMode

    network, _ = load_network(weights, 'cpu', ROOT / 'models', engine)
    paths = named_paths(network.path_space)

    def frame(number: int, name: str) -> tuple[float, int]:
        begun_ms = now_ms()
        found = network.detect(images[number], paths[name])
        taken_ms = now_ms() - begun_ms
        return taken_ms, int((found.scores >= LEAST_SCORE).sum())

    def facts() -> dict:
        shipped, gflop = network.engine, {}
        network.engine = Eager()  # whose layers can be counted
        for name, path in paths.items():
            with FlopCounterMode(display=False) as counter:
                network.detect(images[0], path)
            gflop[name] = counter.get_total_flops() / 1e9
        return {'gflop': gflop, 'paths': {name: str(path) for name, path in paths.items()}, 'engine': shipped.identity,
                'notice': shipped.notice, 'weights_hash': network.weights_hash, 'classes': len(network.class_names)}

    serve({'frame': frame, 'memory': memory_mb, 'facts': facts})


def trained_files(folder: Path | None, peers: list[str]) -> dict[str, Path]:
    """Weights of the peers that were trained, by name.

    Raises:
        ValueError: the folder has none of these peers.
    """
    files = {} if folder is None else {TRAINED[name]: folder / f'{name}.pt' for name in TRAINED}
    files = {name: file for name, file in files.items() if name in peers and file.is_file()}
    if folder is not None and not files:
        raise ValueError(f'--trained is {folder}, expected a folder with one of ' +
                         ', '.join(f'{name}.pt' for name in TRAINED))
    return files


def accuracies_of(args: argparse.Namespace, files: dict[str, Path]) -> dict[str, dict]:
    """Accuracy of our paths, by `OURS`, and of trained peers, by name, and how these were trained."""
    from peer_accuracy import accuracies  # here, because what it needs would count as our network's memory

    network, _ = load_network(str(args.weights), 'cpu', ROOT / 'models', args.engine)
    return accuracies(network, named_paths(network.path_space), files, args.data, QUICK_IMAGES if args.quick else None)


def make_peer(name: str, folder: Path, classes: int, wanted: float) -> dict:
    """Has a peer made in a process of its own; its facts."""
    own = folder_of(folder, name)
    own.mkdir()
    done = subprocess.run([sys.executable, ROOT / 'benchmarks' / 'peer_networks.py', name, str(classes),
                           folder / IMAGES_FILE, str(wanted), own], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode and not (done.returncode < 0 and (own / 'facts.json').is_file()):  # a signal: facts say where
        raise ValueError(f'{name} could not be made, status {done.returncode}: {done.stdout[-500:]}')
    return json.loads((own / 'facts.json').read_text(encoding='utf-8'))


def folder_of(folder: Path, name: str) -> Path:
    """Where a peer is kept."""
    return folder / re.sub(r'\W+', '_', name).lower()


def measure(asked: dict[str, tuple[Served, str]], images: int, limit_s: float) -> dict[str, list[tuple[float, int]]]:
    """Times in ms and objects of frames by name of what ran, all in turn in random order until the time is up.

    A network that has had more than its part of the time sits out: of the slowest there are a few frames, of the
    fastest hundreds, at least LEAST_ROUNDS of each.

    Args:
        asked: process and what it is told, by name.
        images: number of images.
        limit_s: time to measure, but for the first rounds.
    """
    rng, samples, spent_ms = random.Random(0), {name: [] for name in asked}, dict.fromkeys(asked, 0.0)
    begun_ms = now_ms()
    for number in range(WARM_UP + MOST_ROUNDS):
        if number >= WARM_UP + LEAST_ROUNDS and now_ms() - begun_ms > 1000.0 * limit_s:
            break
        for name in rng.sample(list(asked), len(asked)):
            if number >= WARM_UP + LEAST_ROUNDS and spent_ms[name] > statistics.fmean(spent_ms.values()):
                continue
            served, words = asked[name]
            taken = served.ask('frame', rng.randrange(images), words)
            if number >= WARM_UP:
                samples[name].append(taken)
                spent_ms[name] += taken[0]
    return samples


def row_of(name: str, form: str, taken: list[tuple[float, int]], memory: float, gflop: float,
           regions: int | None) -> dict:
    """What was measured of one network in one form."""
    times_ms, objects = zip(*taken)
    return {'network': name, 'form': form, 'frames': len(times_ms), 'median_ms': statistics.median(times_ms),
            'p99_ms': float(np.quantile(times_ms, 0.99)) if len(times_ms) >= P99_FRAMES else None, 'gflop': gflop,
            'memory_mb': memory, 'regions': regions, 'objects_per_image': statistics.fmean(objects)}


def show(result: dict, console: Console) -> None:
    """Prints the table."""
    table = Table(title=f'a frame of {SIZE[1]}x{SIZE[0]} px on {result["device"]}, {result["threads"]} thread(s), '
                        'frames of all in turn')
    accuracy = ACCURACY if result['trained'] else {}
    for title in ('network', 'form', 'frames', 'median ms', 'p99 ms', 'GFLOP', 'memory MB', 'regions', 'objects',
                  *accuracy.values()):
        table.add_column(title, justify='left' if title in ('network', 'form') else 'right', no_wrap=True)
    for row in result['rows']:
        p99 = '-' if row['p99_ms'] is None else f'{row["p99_ms"]:.1f}'
        table.add_row(row['network'], row['form'], str(row['frames']), f'{row["median_ms"]:.1f}', p99,
                      f'{row["gflop"]:.1f}', f'{row["memory_mb"]:.0f}', str(row['regions'] or '-'),
                      f'{row["objects_per_image"]:.1f}', *(in_table(row.get(key)) for key in accuracy))
    console.print(table)
    for name, reasons in result['missing'].items():
        for form, reason in reasons.items():
            console.print(f'{name} has no {form} form: {reason}', soft_wrap=True)
    untrained = {row['network']: None for row in result['rows']
                 if row['form'] != SHIPPED and row['network'] not in result['trained']}
    if untrained:
        names = ', '.join(untrained) if result['trained'] else 'the peers'
        console.print(f'{names}: not trained here, no accuracy is compared', soft_wrap=True)


def in_table(value: float | None) -> str:
    """Points and minutes to a tenth, counts as they are."""
    return '-' if value is None else f'{value:.1f}' if isinstance(value, float) else f'{value:,}'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--weights', type=Path, default=ROOT / 'models' / 'compact.safetensors', help='our network')
    parser.add_argument('--engine', choices=ENGINES, default='auto', help='that runs it')
    parser.add_argument('--minutes', type=float, default=4.0, help='of measuring; making the peers takes 3 more')
    parser.add_argument('--threads', type=int, default=1, help='CPU threads of every network')
    parser.add_argument('--peers', nargs='+', default=list(PEERS),
                        help='only those whose names hold one of these words')
    parser.add_argument('--trained', type=Path, metavar='FOLDER', help='weights of peer_training.py, whose accuracy is '
                        'measured too; takes 3 minutes more')
    parser.add_argument('--data', default=str(ANNOTATED), help='annotated images for the accuracy')
    parser.add_argument('--quick', action='store_true',
                        help=f'{QUICK_IMAGES} images, {LEAST_ROUNDS} rounds: shows that it works')
    parser.add_argument('--serve', type=Path, help=argparse.SUPPRESS)  # images of a process of its own
    args = parser.parse_args()
    if args.minutes < 0.0:
        parser.error(f'--minutes is {args.minutes}, expected at least 0')
    restart_with_environment(args.threads)
    use_threads(args.threads)
    if args.serve:
        serve_ours(str(args.weights), args.engine, list(np.load(args.serve)))
        return
    peers = [name for name in PEERS if any(words in name for words in args.peers)]
    trained = trained_files(args.trained, peers)
    load_before = round(os.getloadavg()[0], 2)
    frames = render_drive(width=SIZE[1], height=SIZE[0]).frames
    count = QUICK_IMAGES if args.quick else IMAGES
    images = np.stack([frames[index * len(frames) // count].load_bgr() for index in range(count)])

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        np.save(folder / IMAGES_FILE, images)
        own = [sys.executable, __file__, '--weights', str(args.weights), '--engine', args.engine, '--threads',
               str(args.threads), '--serve', str(folder / IMAGES_FILE)]
        with Served(own) as counted:  # another process than the one whose memory counts
            wanted = statistics.fmean(counted.ask('frame', number, 'full')[1] for number in range(count))
            facts = counted.ask('facts')
        print(f'ours: engine {facts["engine"]}. {facts["notice"]}', flush=True)
        accuracy = accuracies_of(args, trained) if trained else {}
        ours = stack.enter_context(Served(own))
        asked = {f'ours {name}': (ours, name) for name in OURS}
        made, missing = {}, {}
        for name in peers:
            made[name] = make_peer(name, folder, facts['classes'], wanted)
            missing[name] = made[name]['missing']
            print(f'{name}: {made[name]}', flush=True)
            for form in FORMS:
                if form not in missing[name]:
                    command = [sys.executable, str(ROOT / 'benchmarks' / 'peer_process.py'), name, form,
                               str(folder_of(folder, name)), str(folder / IMAGES_FILE), str(facts['classes']),
                               str(args.threads)]
                    asked[f'{name} {form}'] = (stack.enter_context(Served(command)), '')
        samples = measure(asked, count, 0.0 if args.quick else 60.0 * args.minutes)
        rows = [row_of(f'ours, {name}: {facts["paths"][name]}', SHIPPED, samples[f'ours {name}'],
                       ours.ask('memory'), facts['gflop'][name], None) | accuracy.get(name, {}) for name in OURS]
        rows += [row_of(name, form, samples[f'{name} {form}'], asked[f'{name} {form}'][0].ask('memory'),
                        made[name]['gflop'], made[name]['regions']) | accuracy.get(name, {})
                 for name in peers for form in FORMS if form not in missing[name]]
    result = {'date': date.today().isoformat(), 'device': read_device_facts('cpu').name, 'threads': args.threads,
              'load_before': load_before, 'engine': facts['engine'], 'weights_hash': facts['weights_hash'],
              'objects_wanted': wanted, 'quick': args.quick, 'trained': list(trained), 'rows': rows,
              'missing': missing}
    show(result, Console(width=max(200 if trained else 150, Console().width)))
    file = QUICK_RESULTS if args.quick else RESULTS
    write_text_atomically(file, json.dumps(result, indent=1) + '\n')
    print(f'wrote {file.relative_to(ROOT)}')


if __name__ == '__main__':
    sys.exit(exit_status(Path(__file__).name, main))
