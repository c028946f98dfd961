"""What the contention monitor costs: its share of one core, and frames that a detector beside it loses.

    python benchmarks/monitor_cost.py [--rounds 100] [--seconds 1]

The node runs as a process and hears frames at 10 Hz, as beside a detector. In turn it works and is stopped by a signal, while
another process runs frames of the smallest path one after the other: the hardest case for what is lost. The share of a core is
the processor time of all its threads, in ns, over the time at work. Frames lost are the median over pairs of short stretches
beside each other, since the machine's own speed changes within seconds by more than what is looked for; the interval of 95 %
is that of the order statistics. Goals: under 2 % of one core, under 1 % of the frames. Takes rounds x 2 x seconds, with 100 and
1 under four minutes; writes results/monitor_cost.json.
"""
from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from scipy.stats import binom

from deadline_perception.contention.load import start_tied, stop_tied
from deadline_perception.latency.device import process_environment
from deadline_perception.latency.stopwatch import now_ms
from deadline_perception.tools.command_line import exit_status

RESULTS = Path(__file__).parent / 'results' / 'monitor_cost.json'
GOAL_CORE, GOAL_FRAMES = 0.02, 0.01
FRAMES_HZ, SEED = 10.0, 2


def work(weights: Path) -> None:
    """Runs frames for as many seconds as each line on stdin says, and answers with how many."""
    from deadline_perception.latency.device import use_threads
    from deadline_perception.latency.profile import time_frame
    from deadline_perception.rendering.drive import render_drive
    from deadline_perception.runtime.loading import load_network, share_folder, warm_up

    use_threads(1)
    network, _ = load_network(str(weights), 'cpu', share_folder() / 'models')
    images = [frame.load_bgr() for frame in render_drive(seconds=2.0).frames]
    warm_up(network, images[0].shape[:2])
    path, rng = network.path_space.smallest, random.Random(SEED)
    print('ready', flush=True)
    for line in sys.stdin:
        until_ms, begun_ms, frames = now_ms() + 1000.0 * float(line), now_ms(), 0
        while now_ms() < until_ms:
            time_frame(network, rng.choice(images), path)
            frames += 1
        print(1000.0 * frames / (now_ms() - begun_ms), flush=True)


def processor_s(pid: int) -> float:
    """Processor time of a process so far."""
    spent_ns = 0
    for thread in Path(f'/proc/{pid}/task').iterdir():
        spent_ns += int((thread / 'schedstat').read_text().split()[0])
    return spent_ns / 1e9


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Between which two of the values the median of what they are drawn from lies with 95 % confidence; NaN for under 6."""
    if len(values) < 6:
        return math.nan, math.nan
    low = int(binom.ppf(0.025, len(values), 0.5))
    ordered = sorted(values)
    return ordered[max(0, low - 1)], ordered[min(len(values) - 1, len(values) - low)]


def measure(weights: Path, rounds: int, seconds: float) -> dict:
    """Share of a core, and frames per second beside the monitor at work and stopped, for each round."""
    from node_process import profile_for
    from node_stand import Feed, Stand

    environment = {**os.environ, **process_environment(1)}
    worker = start_tied([sys.executable, __file__, '--work', '--weights', str(weights)], env=environment,
                        stdout=subprocess.PIPE, text=True, stdin=subprocess.PIPE)
    feed = Feed(images_hz=0.0, budgets_hz=0.0, states_hz=0.0, speeds_hz=0.0, frames_hz=FRAMES_HZ)
    rates: dict[str, list[float]] = {'at work': [], 'stopped': []}
    used_s, lasted_s = 0.0, 0.0
    try:
        with tempfile.TemporaryDirectory() as folder, Stand(
                ('contention_monitor',), Path(folder), profile_for(None), feed=feed) as stand:
            worker.stdout.readline()
            pid = stand.processes['contention_monitor'].pid
            for number in range(2 * rounds):
                name = list(rates)[(number + number // 2) % 2]  # at work, stopped, stopped, at work: drift cancels
                os.kill(pid, signal.SIGCONT if name == 'at work' else signal.SIGSTOP)
                before_s, begun_ms = processor_s(pid), now_ms()
                worker.stdin.write(f'{seconds}\n')
                worker.stdin.flush()
                rates[name].append(float(worker.stdout.readline()))
                if name == 'at work':
                    used_s += processor_s(pid) - before_s
                    lasted_s += (now_ms() - begun_ms) / 1000.0
            os.kill(pid, signal.SIGCONT)
    finally:
        stop_tied(worker)
    lost = [1.0 - working / stopped for working, stopped in zip(rates['at work'], rates['stopped'])]
    return {'core_share': used_s / lasted_s, 'frames_lost': statistics.median(lost),
            'frames_lost_95': median_interval(lost), 'frames_per_s': rates}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--weights', type=Path, default=Path('models/compact.safetensors'))
    parser.add_argument('--rounds', type=int, default=100, help='stretches with the monitor at work, and as many without')
    parser.add_argument('--seconds', type=float, default=1.0, help='length of each')
    parser.add_argument('--work', action='store_true', help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.weights)
        return
    if args.rounds < 1 or not args.seconds > 0.0:
        parser.error(f'--rounds is {args.rounds} and --seconds {args.seconds}, expected at least 1 and more than 0')
    found = measure(args.weights, args.rounds, args.seconds)
    print(f'core: {100 * found["core_share"]:.2f} % of one, goal under {100 * GOAL_CORE:g} %')
    low, high = found['frames_lost_95']
    print(f'frames lost: {100 * found["frames_lost"]:.2f} % ({100 * low:.2f} to {100 * high:.2f} with 95 % confidence), goal '
          f'under {100 * GOAL_FRAMES:g} %, {args.rounds} pairs of {args.seconds:g} s')
    RESULTS.write_text(json.dumps({'date': date.today().isoformat(), 'rounds': args.rounds, 'seconds': args.seconds, **found},
                                  indent=1) + '\n', encoding='utf-8')
    print(f'wrote {RESULTS}')


if __name__ == '__main__':
    sys.exit(exit_status(Path(__file__).name, main))
