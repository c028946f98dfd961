"""What the contention monitor costs: its share of one core, and frames that a detector beside it loses.

    python benchmarks/monitor_cost.py [--minutes 8]

The node runs as a process and hears frames at 10 Hz, as beside a detector, while another process runs frames of the
smallest path one after the other: the hardest case for what is lost. The share of a core is the processor time of all
the node's threads over that of the clock, while nobody stops it. Goals: under 2 % of one core, under 1 % of the frames.

Frames lost are told by pairs of short stretches, one beside the node at work and one while a signal holds it, in random
order, because the machine's own speed changes within seconds by more than what is looked for. Both stretches have the
same images. The first frames after each signal are left out: in them the node makes up for what came due while it was
held, the messages that wait among it. So that the rest is neither more nor less than the node's usual work, frames lost
are told for its share of a core while nobody stops it, and its share in the stretches that count is told beside. The
estimate is the mean over pairs, those farther than 3 standard deviations (by the median deviation) drawn in to that; a
median would not see work that is done in few of the stretches. Its interval of 95 % is that of 2,000 resamples.

Takes the minutes and half of one more; writes results/monitor_cost.json.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from parts.harness import Run, run_script

from deadline_perception.core.device import process_environment
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.timing.contention.load import start_tied, stop_tied

GOAL_CORE, GOAL_FRAMES = 0.02, 0.01
FRAMES_HZ, SEED = 10.0, 2
LEFT_OUT, COUNTED = 8, 56  # frames of a stretch: 25 and 175 ms where one takes 3 ms
FARTHEST = 3.0  # standard deviations from the median
RESAMPLES = 2000
UNDISTURBED_S = 30.0  # of the node at work, for its share of a core
LEAST_PAIRS = 6


@dataclass(frozen=True)
class Stretch:
    """Frames beside the node, at work or held, without the first ones.

    Attributes:
        frame_ms: mean time of a frame.
        node_share: processor time of the node over that of the clock.
    """

    frame_ms: float
    node_share: float


def work(weights: Path) -> None:
    """Answers each line on stdin, a process and seconds, with what `compare` finds, or `undisturbed` without
    process."""
    from deadline_perception.core.device import use_threads
    from deadline_perception.core.share_folder import share_folder
    from deadline_perception.extras.rendered_drive.drive import render_drive
    from deadline_perception.networks.model_reference import load_network
    from deadline_perception.runtime.loading import warm_up
    from deadline_perception.timing.profile import time_frame

    use_threads(1)
    network, _ = load_network(str(weights), 'cpu', share_folder() / 'models')
    images = [frame.load_bgr() for frame in render_drive(seconds=2.0).frames]
    warm_up(network, images[0].shape[:2])

    def frame(number: int) -> None:
        time_frame(network, images[number % len(images)], network.path_space.smallest)

    print('ready', flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if order['switched']:
            pairs = compare(frame, order['pid'], order['seconds'], random.Random(SEED))
            print(json.dumps([[asdict(stretch) for stretch in pair] for pair in pairs]), flush=True)
        else:
            print(json.dumps(undisturbed(frame, order['pid'], order['seconds'])), flush=True)


def undisturbed(frame: Callable[[int], object], pid: int, seconds: float) -> float:
    """Share of a core that a process takes while frames run and nobody stops it."""
    begun_ms, before_s, number = now_ms(), processor_s(pid), 0
    while now_ms() < begun_ms + 1000.0 * seconds:
        frame(number)
        number += 1
    return 1000.0 * (processor_s(pid) - before_s) / (now_ms() - begun_ms)


def compare(
    frame: Callable[[int], object], pid: int, seconds: float, rng: random.Random
) -> list[tuple[Stretch, Stretch]]:
    """Pairs of stretches beside a process: at work, held. It goes on in the end.

    Args:
        frame: runs one frame; is told its number in the stretch.
        pid: the process.
        seconds: for which pairs are begun.
        rng: for the order within a pair.
    """
    until_ms, pairs = now_ms() + 1000.0 * seconds, []
    try:
        while now_ms() < until_ms:
            found = {}
            for works in rng.sample((True, False), 2):
                os.kill(pid, signal.SIGCONT if works else signal.SIGSTOP)
                for number in range(LEFT_OUT):
                    frame(number)
                before_s, begun_ms = processor_s(pid), now_ms()
                for number in range(LEFT_OUT, LEFT_OUT + COUNTED):
                    frame(number)
                lasted_ms = now_ms() - begun_ms
                found[works] = Stretch(
                    lasted_ms / COUNTED, 1000.0 * (processor_s(pid) - before_s) / lasted_ms
                )
            pairs.append((found[True], found[False]))
    finally:
        os.kill(pid, signal.SIGCONT)
    return pairs


def processor_s(pid: int) -> float:
    """Processor time of a process so far."""
    spent_ns = 0
    for thread in Path(f'/proc/{pid}/task').iterdir():
        spent_ns += int((thread / 'schedstat').read_text().split()[0])
    return spent_ns / 1e9


def drawn_in_mean(values: np.ndarray) -> np.ndarray:
    """Mean over the last axis, values farther than `FARTHEST` standard deviations from the median drawn in to that."""
    middle = np.median(values, axis=-1, keepdims=True)
    most = FARTHEST * 1.4826 * np.median(np.abs(values - middle), axis=-1, keepdims=True)
    return np.clip(values, middle - most, middle + most).mean(axis=-1)


def frames_lost(pairs: Sequence[tuple[Stretch, Stretch]], share: float) -> dict[str, object]:
    """What a process takes from frames beside it.

    Args:
        pairs: of stretches beside it, at work and held.
        share: of a core that it takes while nobody stops it.

    Returns:
        `frames_lost` and its interval of 95 %, as shares of the frames; NaN for fewer than `LEAST_PAIRS`.
    """
    counted = float(np.mean([working.node_share for working, _ in pairs]))
    found = {
        'pairs': len(pairs),
        'core_share_in_stretches': counted,
        'frames_lost': math.nan,
        'frames_lost_95': [math.nan, math.nan],
    }
    if len(pairs) < LEAST_PAIRS:
        return found
    longer = np.log([working.frame_ms / held.frame_ms for working, held in pairs])
    rng = np.random.default_rng(SEED)
    resampled = [drawn_in_mean(rng.choice(longer, len(longer))) for _ in range(RESAMPLES)]
    lost, low, high = (
        share / counted * -np.expm1(-value)
        for value in (drawn_in_mean(longer), *np.percentile(resampled, (2.5, 97.5)))
    )
    return found | {'frames_lost': float(lost), 'frames_lost_95': [float(low), float(high)]}


def measure(weights: Path, minutes: float) -> dict[str, object]:
    """Share of a core, and frames lost, of the node beside frames."""
    from parts.node_process import profile_for
    from parts.node_stand import Feed, Stand

    environment = {**os.environ, **process_environment(1)}
    worker = start_tied(
        [sys.executable, __file__, '--work', '--weights', str(weights)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        stdin=subprocess.PIPE,
    )

    def ask(**order: object) -> object:
        worker.stdin.write(json.dumps(order) + '\n')
        worker.stdin.flush()
        return json.loads(worker.stdout.readline())

    feed = Feed(images_hz=0.0, budgets_hz=0.0, states_hz=0.0, speeds_hz=0.0, frames_hz=FRAMES_HZ)
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            Stand(('contention_monitor',), Path(folder), profile_for(None), feed=feed) as stand,
        ):
            worker.stdout.readline()
            pid = stand.processes['contention_monitor'].pid
            share = ask(switched=False, pid=pid, seconds=min(UNDISTURBED_S, 60.0 * minutes))
            pairs = ask(switched=True, pid=pid, seconds=60.0 * minutes)
    finally:
        stop_tied(worker)
    stretches = [tuple(Stretch(**stretch) for stretch in pair) for pair in pairs]
    return {
        'core_share': share,
        **frames_lost(stretches, share),
        'frame_ms': {
            name: [round(pair[index].frame_ms, 4) for pair in stretches]
            for index, name in enumerate(('at work', 'held'))
        },
    }


def main(run: Run) -> None:
    args = run.args
    if args.work:
        work(args.weights)
        return
    found = measure(args.weights, args.minutes)
    low, high = found['frames_lost_95']
    print(
        f'{found["pairs"]} pairs of {COUNTED} frames: {100 * low:.2f} to {100 * high:.2f} % lost (95 % interval); '
        f'{100 * found["core_share_in_stretches"]:.2f} % of a core in the stretches that count'
    )
    run.goal('share of a core', found['core_share'], most=GOAL_CORE)
    run.goal('share of the frames that is lost', found['frames_lost'], most=GOAL_FRAMES)
    run.write(minutes=args.minutes, **found)


if __name__ == '__main__':
    run_script(
        main,
        {
            '--weights': {'type': Path, 'default': Path('models/street.safetensors')},
            '--minutes': {
                'type': float,
                'default': 8.0,
                'above': 0.0,
                'help': 'of pairs of stretches',
            },
            '--work': {'action': 'store_true', 'help': argparse.SUPPRESS},
        },
    )
