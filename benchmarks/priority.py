"""What priority does for frames beside other programs: the cheapest path and a middle one, alone and beside two busy
programs, under every setting in turn.

    python benchmarks/priority.py [--quick] [--weights models/compact.safetensors]

One process runs frame after frame without a pause, the hardest case for a limit on real-time work. Beside it, as in the
node, a thread that receives holds Python's lock for 2 ms thirty times a second. Settings and conditions alternate in
blocks of 2 s. The busy programs are in sessions of their own: the kernel may weigh sessions before it weighs threads.

`off` asks for nothing; `nice` has niceness alone, as where real-time priority is refused; `auto` is the default:
SCHED_FIFO for its share of each second, niceness for the rest; `receiving not raised` is auto for inference alone;
`without a share` works under SCHED_FIFO all the time, until the kernel's throttle stops it. Takes 2 minutes; run it as
root or with the limits of docs/device.md. Writes results/priority.json.
"""
from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from deadline_perception.contention.load import busy_programs
from deadline_perception.latency.device import process_environment, read_device_facts, use_threads
from deadline_perception.latency.stopwatch import now_ms
from deadline_perception.rendering.drive import render_drive
from deadline_perception.runtime.kernel_thread import name_thread
from deadline_perception.runtime.priority import RealTimeShare, Role, ThreadPriority, read_real_time_share
from parts.harness import Run, run_script, show

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / 'benchmarks' / 'results' / 'priority.json'
CONDITIONS = {'alone': 0, 'beside 2': 2}
MIDDLE_WORK = 0.35  # a middle path takes this share of the largest one's time
BLOCK_S, ROUNDS, QUICK_ROUNDS, SEED = 2.0, 5, 1, 5
RECEIVING_MS, RECEIVED_HZ = 2.0, 30.0
SWITCH_INTERVAL_S = 0.0005  # as in the node detector


@dataclass(frozen=True)
class Setting:
    """One way to ask the kernel."""

    mode: str = 'auto'
    refusal: str = ''  # of real-time priority
    limited: bool = True
    receiving: bool = True


SETTINGS = {'off': Setting('off'), 'nice': Setting(refusal='niceness alone'), 'auto': Setting(),
            'receiving not raised': Setting(receiving=False), 'without a share': Setting(limited=False)}


class Receiver:
    """The thread that receives; it takes the setting that is in force."""

    def __init__(self) -> None:
        self.priority: ThreadPriority | None = None
        self._raised_by: ThreadPriority | None = None
        threading.Thread(target=self._serve, daemon=True, name='receiving').start()

    def _serve(self) -> None:
        while True:
            time.sleep(1.0 / RECEIVED_HZ)
            if self.priority is not self._raised_by:
                self._raised_by = self.priority
                if self.priority is not None:
                    self.priority.raise_thread(Role.SUPPORTING)
            until_ms = now_ms() + RECEIVING_MS
            while now_ms() < until_ms:
                pass


def run_frame(detector, image: np.ndarray, path) -> float:
    """One frame in ms."""
    begun_ms = now_ms()
    run = detector.start(image, path)
    while not run.finished:
        run.run_segment()
    run.result()
    return now_ms() - begun_ms


def middle_path(detector, image: np.ndarray):
    """Of 30 random paths the one whose time comes nearest to `MIDDLE_WORK` of the largest one's."""
    from deadline_perception.latency.measurement_plan import distinct_paths

    wanted_ms = MIDDLE_WORK * min(run_frame(detector, image, detector.path_space.largest) for _ in range(3))
    paths = distinct_paths(detector.path_space, 32, random.Random(SEED))[2:]
    times_ms = {path: min(run_frame(detector, image, path) for _ in range(2)) for path in paths}
    return min(paths, key=lambda path: abs(times_ms[path] - wanted_ms))


def measure(weights: Path, rounds: int) -> dict:
    """Everything, in this process, which must have been started with the settings of one thread."""
    from deadline_perception.model_set.model_reference import load_network

    sys.setswitchinterval(SWITCH_INTERVAL_S)
    use_threads(1)
    name_thread('inference')
    detector, _ = load_network(str(weights), 'cpu', ROOT / 'models')  # by prepared segments, as it ships
    images = [frame.load_bgr() for frame in render_drive(seconds=2.0).frames]
    paths = {'cheapest': detector.path_space.smallest, 'middle': middle_path(detector, images[0])}
    rng, receiver, in_force = random.Random(SEED), Receiver(), {}
    times_ms = {(condition, setting, path): [] for condition in CONDITIONS for setting in SETTINGS for path in paths}
    for _ in range(rounds):
        for condition, count in CONDITIONS.items():
            with busy_programs(count):
                time.sleep(0.5)
                for name in rng.sample(list(SETTINGS), len(SETTINGS)):
                    setting = SETTINGS[name]
                    share = RealTimeShare(refusal=setting.refusal) if setting.refusal else read_real_time_share()
                    priority = ThreadPriority(setting.mode, share=share)
                    priority.raise_thread(Role.INFERENCE)
                    receiver.priority = priority if setting.receiving else None
                    in_force[name] = '; '.join((priority.in_force, *priority.refusals))
                    run_frame(detector, images[0], paths['middle'])
                    until_ms = now_ms() + 1000.0 * BLOCK_S
                    while now_ms() < until_ms:
                        for path in paths:
                            took_ms = run_frame(detector, rng.choice(images), paths[path])
                            times_ms[condition, name, path].append(took_ms)
                            if setting.limited:
                                priority.between_frames()
                    receiver.priority = None
                    priority.restore()
    return {'facts': asdict(read_device_facts()), 'engine': detector.engine.identity, 'in_force': in_force,
            'paths': {name: str(path) for name, path in paths.items()}, 'rows': summary(times_ms)}


def summary(times_ms: dict[tuple[str, str, str], list[float]]) -> list[dict]:
    """Per condition, setting and path: median, 95 % quantile and longest time in ms, and the median over that of the
    same path alone with nothing asked."""
    rows = []
    for (condition, setting, path), times in times_ms.items():
        median, p95 = np.quantile(times, (0.5, 0.95))
        rows.append({'condition': condition, 'setting': setting, 'path': path, 'frames': len(times),
                     'median_ms': float(median), 'p95_ms': float(p95), 'worst_ms': float(max(times)),
                     'over_alone': float(median / np.median(times_ms['alone', 'off', path]))})
    return rows


def show_frames(found: dict) -> None:
    """Prints the table."""
    show(f'frames in ms; middle: {found["paths"]["middle"]}',
         ('condition', 'setting', 'path', 'frames', 'median', 'p95', 'worst', 'median over alone, off'),
         [row.values() for row in found['rows']])
    for name, words in found['in_force'].items():
        print(f'{name}: {words}')


def main(run: Run) -> None:
    args = run.args
    if args.measure:
        print(json.dumps(measure(args.weights, QUICK_ROUNDS if run.quick else ROUNDS)))
        return
    # A session of its own, as the launch files give it to the node.
    done = subprocess.run([sys.executable, __file__, '--measure', '--weights', str(args.weights),
                          *['--quick'] * run.quick], env={**os.environ, **process_environment(1)}, check=True,
                         stdout=subprocess.PIPE, start_new_session=True)
    found = json.loads(done.stdout)
    show_frames(found)
    run.write(**found)


if __name__ == '__main__':
    run_script(main, {
        '--weights': {'type': Path, 'default': Path('models/compact.safetensors')},
        '--measure': {'action': 'store_true', 'help': argparse.SUPPRESS}}, quick='fewer frames')
