"""An observer outside of the detector: does what it stamps agree with the published latency, also under stress?

    python benchmarks/observer.py [--frames 1700] [--rate-hz 25]

Three processes: this one, whose camera stamps each image just before it publishes it, the detector, and an observer, whose
clock is read first in the callback of each message. Published is the time from the image's stamp to the return of the call
that published the detections; the observer's, from that stamp to its callback, or to the receipt by its middleware. The
observer ranks above the detector. Phases of as many answered frames each: without stress, and under stress of processors,
memory, disk, network, and all of them. Each budget lasts one image's period and is drawn, of 0.3 to 1.5 of what both looks
take at their longest, and 6 ms for what lies around them; so these are also the live frames by which the promise is judged:
how many of those promised were late, and how many right after a late one. Prints a table and writes results/observer.json.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from deadline_perception.msg import TimeBudget
from parts.beside_programs import served_process
from parts.harness import ROOT, Run, option, run_script, show
from parts.node_process import StandError, profile_for
from parts.node_stand import START_LIMIT_S, Stand
from parts.observed_latency import differences, observe, promises, within
from parts.stress_programs import STRESSES, stress, topic_is_flooded

from deadline_perception.core.device import DEFAULT_THREADS
from deadline_perception.networks.model_reference import find_weights
from deadline_perception.nodes.middleware import make_room_for_images
from deadline_perception.tools.demo import check_ros, longest_looks_ms
from deadline_perception.tools.support.file_arguments import DEFAULT_WEIGHTS
from deadline_perception.tools.support.node_run import keep_to_this_machine

PHASES = {'no stress': (), **{kind: (kind,) for kind in STRESSES}, 'all': STRESSES}
QUICK_FRAMES = 60
SETTLE_S = 3.0  # of a stress, before frames count
LONGEST = 5.0  # times that a phase may take beyond what its images need
LAST_MESSAGES_S = 2.0
SHARES, AROUND_MS = (0.3, 1.5), 6.0  # of the longest looks, and beside them: budgets
MOST_LATE, MOST_AFTER_LATE, MOST_RUN = 0.01, 3.0, 3
AGREEMENT_MS = 1.0
Span = tuple[int, int]  # when frames counted, ns of the system clock


def answer_of(asked: Connection, limit_s: float) -> object:
    """What the observer says next.

    Raises:
        StandError: it ends, or says nothing within the limit.
    """
    try:
        if asked.poll(limit_s):
            return asked.recv()
    except EOFError as error:
        raise StandError('the observer has ended, expected an answer') from error
    raise StandError(f'the observer said nothing, expected an answer in {limit_s:.0f} s')


def run_phases(
    stand: Stand, frames: int, rate_hz: float, folder: Path
) -> tuple[dict[str, Span], tuple[str, np.ndarray, np.ndarray]]:
    """All phases, one after the other, each until the observer has heard so many answers; and what it noted."""
    limit_s = LONGEST * frames / rate_hz + 60.0
    spans = {}
    with ExitStack() as programs:
        observer = programs.enter_context(served_process(observe, stand.namespace))
        answer_of(observer, START_LIMIT_S)
        for name, kinds in PHASES.items():
            with stress(kinds, folder):
                if 'network' in kinds:
                    stand.wait(lambda: topic_is_flooded(stand.node), 'the flooded topic', limit_s)
                time.sleep(SETTLE_S)
                begin_ns = time.time_ns()
                observer.send(frames)
                answer_of(observer, limit_s)
                spans[name] = begin_ns, time.time_ns()
            print(name, flush=True)
        stand.feed_for(LAST_MESSAGES_S, images_hz=0.0)
        observer.send(0)
        return spans, answer_of(observer, limit_s)


def main(run: Run) -> None:
    args = run.args
    check_ros()
    keep_to_this_machine()
    make_room_for_images()
    frames = QUICK_FRAMES if run.quick else args.frames
    (ROOT / 'out').mkdir(exist_ok=True)
    profile = profile_for()
    weights = find_weights(DEFAULT_WEIGHTS)
    longest_ms = longest_looks_ms(weights, profile, 'cpu', DEFAULT_THREADS)
    rng = random.Random(0)

    def draw(message: TimeBudget) -> None:
        message.budget_ms = AROUND_MS + longest_ms * rng.uniform(*SHARES)

    with (
        tempfile.TemporaryDirectory(dir=ROOT / 'out') as folder,  # on a disk, as /tmp need not be
        Stand(('detector', 'contention_monitor'), Path(folder), profile) as stand,
    ):
        rates = {'images_hz': args.rate_hz, 'budgets_hz': args.rate_hz}
        stand.feed = replace(stand.feed, states_hz=0.0, speeds_hz=0.0, budget=draw, **rates)
        spans, (priority, *heard) = run_phases(stand, frames, args.rate_hz, Path(folder))
    of_phases = {name: [within(one, *span) for one in heard] for name, span in spans.items()}
    of_phases['every phase'] = list(map(np.concatenate, zip(*of_phases.values())))
    rows = {
        name: promises(latencies) | differences(detections, latencies)
        for name, (detections, latencies) in of_phases.items()
    }
    show(
        'Observed less published latency, ms; p99 and max of its distance',
        'phase | frames | published p50 | p99 | callback p50 | p99 | max | received p50 | p99 | max',
        [
            (
                name,
                row['frames'],
                *(
                    value
                    for of in ('published', 'callback', 'received')
                    for value in row[of].values()
                ),
            )
            for name, row in rows.items()
        ],
    )
    whole = rows['every phase']
    late = whole['late_of_promised']
    run.goal('share of promised frames late', late, most=MOST_LATE)
    run.goal('late promised frames in a row', whole['longest_run_late'], most=MOST_RUN)
    if whole['late_after_late'] is not None:
        often = whole['late_after_late'] / late
        run.goal('times as often late after a late one', often, most=MOST_AFTER_LATE)
    for moment in ('callback', 'received'):
        words = f'{moment}: p99 of its distance to the published latency, ms,'
        run.goal(words, whole[moment]['p99_distance'], most=AGREEMENT_MS)
    run.write(
        rate_hz=args.rate_hz,
        kernel=' '.join(os.uname()[2:4]),
        priority=priority,
        phases=rows,
    )


if __name__ == '__main__':
    run_script(
        main,
        {
            '--frames': option(1700, 'answered, of a phase', least=1),
            '--rate-hz': option(25.0, 'of the camera', above=0.0),
        },
        quick=f'{QUICK_FRAMES} frames of a phase',
    )
