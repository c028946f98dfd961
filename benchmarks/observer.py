"""An observer outside of the detector: does what it stamps agree with the published latency, also under stress?

    python benchmarks/observer.py [--frames 1700] [--rate-hz 25]

Three processes: a camera that stamps each image just before it publishes it, the detector, and an observer, whose clock
is read first in the callback of each message. Published is the time from the image's stamp to the return of the call
that published the detections; the observer's, from that stamp to its callback, or to the receipt by its middleware.
Two observers hear the same frames,
one of the usual priority and one that ranks above the detector; beside them a timer of that rank says how late any thread
would wake. Phases of as many answered frames each: without stress, and under stress of processors, memory, disk, network,
and all of them. Each budget lasts one image's period and is drawn, of 0.3 to 1.5 of what both looks take at their longest,
and 6 ms for what lies around them; so these are also the live frames by which the promise is judged: how many of those
promised were late, and how many right after a late one. Prints a table and writes results/observer.json.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from deadline_perception.msg import TimeBudget
from parts.harness import ROOT, Run, option, quantiles, run_script, show
from parts.node_process import StandError, profile_for
from parts.node_stand import START_LIMIT_S, Stand
from parts.observed_latency import (
    AGREEMENT_MS,
    differences,
    join,
    promises,
    spread,
    within,
)
from parts.observer_programs import observe as observe_detector
from parts.observer_programs import send_images, wake_up
from parts.served_process import served_process
from parts.stress_programs import STRESSES, stress, topic_is_flooded

from deadline_perception.core.device import DEFAULT_THREADS
from deadline_perception.networks.model_reference import find_weights
from deadline_perception.nodes.middleware import make_room_for_images
from deadline_perception.tools.demo import check_ros, longest_looks_ms
from deadline_perception.tools.support.file_arguments import DEFAULT_WEIGHTS
from deadline_perception.tools.support.node_run import keep_to_this_machine

PHASES = {'no stress': (), **{kind: (kind,) for kind in STRESSES}, 'all': STRESSES}
OBSERVERS = ('usual', 'raised')
QUICK_FRAMES = 60
SETTLE_S = 3.0  # of a stress, before frames count
LONGEST = 5.0  # times that a phase may take beyond what its images need
LAST_MESSAGES_S = 2.0
SHARES, AROUND_MS = (0.3, 1.5), 6.0  # of the longest looks, and beside them: budgets
MOST_LATE, MOST_AFTER_LATE, MOST_RUN = 0.01, 3.0, 3


@dataclass(frozen=True)
class Phase:
    """When frames counted, ns of the system clock; `name` is of PHASES."""

    name: str
    begin_ns: int
    end_ns: int


@dataclass(frozen=True)
class Notes:
    """What the programs noted in all phases: when each wake-up of the timer was due, and how late it was, ns; messages,
    and the priority that was granted, by observer."""

    wake_ups: Sequence[tuple[int, int]]
    detections: Mapping[str, np.ndarray]
    latencies: Mapping[str, np.ndarray]
    priority: Mapping[str, str]


def answer_of(name: str, asked: Connection, limit_s: float) -> object:
    """What a program says next.

    Raises:
        StandError: it ends, or says nothing within the limit.
    """
    try:
        if asked.poll(limit_s):
            return asked.recv()
    except EOFError as error:
        raise StandError(f'{name} has ended, expected an answer') from error
    raise StandError(f'{name} said nothing, expected an answer in {limit_s:.0f} s')


def run_phase(
    name: str, stand: Stand, observer: Connection, frames: int, limit_s: float, folder: Path
) -> Phase:
    """Blocks under a stress until an observer has heard so many answers."""
    with stress(PHASES[name], folder):
        if 'network' in PHASES[name]:
            stand.wait(lambda: topic_is_flooded(stand.node), 'the flooded topic', limit_s)
        time.sleep(SETTLE_S)
        begin_ns = time.time_ns()
        observer.send(frames)
        answer_of('the observer', observer, limit_s)
        return Phase(name, begin_ns, time.time_ns())


def observe(stand: Stand, frames: int, rate_hz: float, folder: Path) -> tuple[list[Phase], Notes]:
    """All phases, one after the other, and what was noted in them."""
    limit_s = LONGEST * frames / rate_hz + 60.0
    with ExitStack() as programs:
        asked = {
            name: programs.enter_context(served_process(serve, *arguments))
            for name, (serve, *arguments) in {
                **{kind: (observe_detector, stand.namespace, kind) for kind in OBSERVERS},
                'timer': (wake_up,),
                'camera': (send_images, stand.namespace, rate_hz),
            }.items()
        }
        for name, one in asked.items():
            answer_of(name, one, START_LIMIT_S)
        phases = []
        for name in PHASES:
            phases.append(run_phase(name, stand, asked['raised'], frames, limit_s, folder))
            print(phases[-1], flush=True)
        notes = {}
        for name in ('timer', 'camera', *OBSERVERS):
            asked[name].send(None)
            if name == 'camera':
                time.sleep(LAST_MESSAGES_S)
            else:
                notes[name] = answer_of(name, asked[name], limit_s)
    return phases, Notes(
        notes['timer'],
        {kind: notes[kind][1] for kind in OBSERVERS},
        {kind: notes[kind][2] for kind in OBSERVERS},
        {kind: notes[kind][0] for kind in OBSERVERS},
    )


def row_of(phase: Phase, notes: Notes, found: Mapping[str, dict[str, np.ndarray]]) -> dict:
    """What is said of a phase."""
    begin_ns = phase.begin_ns
    end_ns = phase.end_ns
    late_ms = [late_ns / 1e6 for due_ns, late_ns in notes.wake_ups if begin_ns <= due_ns < end_ns]
    return {
        'name': phase.name,
        **promises(within(notes.latencies['raised'], begin_ns, end_ns)),
        'timer_late': spread(late_ms),
        **{
            kind: {
                'frames': len(frames['published']),
                'published': quantiles(frames['published'], 'p50', 'p99'),
                **differences(frames),
            }
            for kind, frames in found.items()
        },
    }


def show_rows(rows: Sequence[dict]) -> None:
    """Prints the phases, a line an observer."""
    show(
        'Observed less published latency, ms; p99 and max of its distance',
        'phase | observer | frames | published p50 | p99 | '
        'callback p50 | p99 | max | received p50 | p99 | max | timer late p99',
        [
            (
                *(row['name'], kind, row[kind]['frames'], *row[kind]['published'].values()),
                *(*row[kind]['callback'].values(), *row[kind]['received'].values()),
                row['timer_late']['p99_distance'],
            )
            for row in rows
            for kind in OBSERVERS
        ],
        words=2,
    )


def judge_promises(run: Run, latencies: np.ndarray) -> dict[str, float | int | None]:
    """What is said of the promised frames of all phases, and whether that meets the goals."""
    found = promises(latencies)
    late = found['late_of_promised']
    run.goal('share of promised frames late', late, most=MOST_LATE)
    run.goal('late promised frames in a row', found['longest_run_late'], most=MOST_RUN)
    if found['late_after_late'] is not None:
        often = found['late_after_late'] / late
        run.goal('times as often late after a late one', often, most=MOST_AFTER_LATE)
    return found


def judge(run: Run, kind: str, frames: dict[str, np.ndarray]) -> dict[str, dict]:
    """What is said of one observer and all phases, and whether that meets the goal."""
    found = differences(frames)
    for moment, difference in found.items():
        run.goal(
            f'{moment} of the observer of {kind} priority: p99 of its distance to the published latency, ms,',
            difference['p99_distance'],
            most=AGREEMENT_MS,
        )
    return {'frames': len(frames['published']), **found}


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
    with (
        tempfile.TemporaryDirectory(dir=ROOT / 'out') as folder,  # on a disk, as /tmp need not be
        Stand(('detector', 'contention_monitor'), Path(folder), profile) as stand,
    ):
        rng = random.Random(0)

        def draw(message: TimeBudget) -> None:
            message.budget_ms = AROUND_MS + longest_ms * rng.uniform(*SHARES)

        stand.feed = replace(
            stand.feed, images_hz=0.0, states_hz=0.0, budgets_hz=args.rate_hz, budget=draw
        )
        phases, notes = observe(stand, frames, args.rate_hz, Path(folder))
    rows = []
    counted = []
    every: dict[str, list[dict[str, np.ndarray]]] = {kind: [] for kind in OBSERVERS}
    for phase in phases:
        span = phase.begin_ns, phase.end_ns
        counted.append(within(notes.latencies['raised'], *span))
        for kind, joined in every.items():
            heard = notes.detections[kind], notes.latencies[kind]
            joined.append(join(*(within(one, *span) for one in heard)))
        rows.append(row_of(phase, notes, {kind: joined[-1] for kind, joined in every.items()}))
    show_rows(rows)
    whole = {
        kind: {name: np.concatenate([one[name] for one in joined]) for name in joined[0]}
        for kind, joined in every.items()
    }
    run.write(
        rate_hz=args.rate_hz,
        kernel=' '.join(os.uname()[2:4]),
        priority=notes.priority,
        promises=judge_promises(run, np.concatenate(counted)),
        all_phases={kind: judge(run, kind, frames) for kind, frames in whole.items()},
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
