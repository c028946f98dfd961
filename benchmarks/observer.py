"""An observer outside of the detector: does what it stamps agree with the published latency, also under stress?

    python benchmarks/observer.py [--frames 1700] [--rate-hz 25]

Three processes: a camera that stamps each image just before it publishes it, the detector, and an observer, whose clock
is read first in the callback of each message. Published is the time from the image's stamp to the return of the call
that published the detections; the observer's, from that stamp to its callback. The difference has three parts, by the
times that the middleware gives with a message: what the publishing call took after the message was on its way
(negative), the way to the observer's middleware, and from there to its callback. Two observers hear the same frames,
one of the usual priority and one that ranks above the detector; beside them a timer of that rank says how late any thread
would wake. Phases of as many answered frames each: without stress, and under stress of processors, memory, disk, network,
and all of them. Each budget lasts one image's period and is drawn, of 0.3 to 1.5 of what both looks take at their longest,
and 6 ms for what lies around them; so these are also the live frames by which the promise is judged: how many of those
promised were late, and how many right after a late one. Prints a table and writes results/observer.json.
"""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil
from deadline_perception.msg import TimeBudget
from parts.harness import ROOT, Run, option, run_script, show
from parts.node_process import StandError, profile_for
from parts.node_stand import START_LIMIT_S, Stand
from parts.observed_latency import (
    AGREEMENT_MS,
    Heard,
    HeardLatency,
    Joined,
    ObservedFrame,
    figures,
    join,
    promises,
    spread,
    within,
)
from parts.stress_programs import STRESSES, stress, topic_is_flooded

from deadline_perception.core.device import DEFAULT_THREADS
from deadline_perception.core.tied_process import start_tied, stop_tied
from deadline_perception.networks.model_reference import find_weights
from deadline_perception.nodes.middleware import make_room_for_images
from deadline_perception.runtime.job import Outcome
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
    """When frames counted, ns of the system clock, and how busy the machine was meanwhile.

    Attributes:
        name: of PHASES.
        load: average of the last minute at its end.
        busy: share of all processors.
        stolen: share of them that the host of a virtual machine took.
        disk_mb_s, loopback_mb_s: written to and read from disks, and sent over the loopback interface.
    """

    name: str
    begin_ns: int
    end_ns: int
    load: float
    busy: float
    stolen: float
    disk_mb_s: float
    loopback_mb_s: float


@dataclass(frozen=True)
class Notes:
    """What the programs noted in all phases.

    Attributes:
        stamps_ns: of the images that were published.
        wake_ups: when each of the timer was due, and how late it was, ns.
        detections, latencies: messages by observer.
        priority: that was granted to each observer.
    """

    stamps_ns: Sequence[int]
    wake_ups: Sequence[tuple[int, int]]
    detections: Mapping[str, Sequence[Heard]]
    latencies: Mapping[str, Sequence[HeardLatency]]
    priority: Mapping[str, str]


@contextmanager
def program(name: str, *arguments: str) -> Iterator[subprocess.Popen]:
    """Meanwhile a program of `parts/` runs; its input is a pipe, and what it says is read with `await_line`."""
    process = start_tied(
        [sys.executable, str(ROOT / 'benchmarks' / 'parts' / f'{name}.py'), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        stop_tied(process)


def await_line(process: subprocess.Popen, line: str, limit_s: float) -> None:
    """Blocks until a program says this.

    Raises:
        StandError: it says something else, ends, or says nothing within the limit.
    """
    is_told = bool(select.select([process.stdout], [], [], limit_s)[0])
    said = process.stdout.readline() if is_told else ''
    if said != f'{line}\n':
        raise StandError(f'{process.args[-1]} said {said!r}, expected {line!r} in {limit_s:.0f} s')


def last_words(process: subprocess.Popen) -> object:
    """Ends a program of `program`; what it has noted."""
    process.stdin.close()
    return json.loads(process.stdout.read())


def counters() -> tuple[float, float, float, int, int]:
    """Busy, stolen and all seconds of the processors, bytes of the disks and of the loopback interface."""
    times, disks = psutil.cpu_times(), psutil.disk_io_counters()
    return (
        sum(times[:8]) - times.idle - times.iowait,
        times.steal,
        sum(times[:8]),
        0 if disks is None else disks.read_bytes + disks.write_bytes,
        psutil.net_io_counters(pernic=True)['lo'].bytes_sent,
    )


def run_phase(
    name: str, stand: Stand, observer: subprocess.Popen, frames: int, limit_s: float, folder: Path
) -> Phase:
    """Blocks under a stress until an observer has heard so many answers."""
    with stress(PHASES[name], folder):
        if 'network' in PHASES[name]:
            stand.wait(lambda: topic_is_flooded(stand.node), 'the flooded topic', limit_s)
        time.sleep(SETTLE_S)
        before, begin_ns = counters(), time.time_ns()
        observer.stdin.write(f'{frames}\n')
        observer.stdin.flush()
        await_line(observer, 'heard', limit_s)
        end_ns = time.time_ns()
        busy_s, stolen_s, every_s, disk, loopback = (
            now - then for now, then in zip(counters(), before, strict=True)
        )
    passed_s = (end_ns - begin_ns) / 1e9
    return Phase(
        name,
        begin_ns,
        end_ns,
        load=round(os.getloadavg()[0], 2),
        busy=round(busy_s / every_s, 3),
        stolen=round(stolen_s / every_s, 4),
        disk_mb_s=round(disk / passed_s / 1e6, 1),
        loopback_mb_s=round(loopback / passed_s / 1e6, 1),
    )


def observe(stand: Stand, frames: int, rate_hz: float, folder: Path) -> tuple[list[Phase], Notes]:
    """All phases, one after the other, and what was noted in them."""
    limit_s = LONGEST * frames / rate_hz + 60.0
    with ExitStack() as programs:
        observers = {
            kind: programs.enter_context(program('observer_process', stand.namespace, kind))
            for kind in OBSERVERS
        }
        timer = programs.enter_context(program('timer_process'))
        camera = programs.enter_context(program('image_process', stand.namespace, str(rate_hz)))
        for process in (*observers.values(), timer, camera):
            await_line(process, 'ready', START_LIMIT_S)
        phases = []
        for name in PHASES:
            phases.append(run_phase(name, stand, observers['raised'], frames, limit_s, folder))
            print(phases[-1], flush=True)
        stamps_ns, wake_ups = last_words(camera), last_words(timer)
        time.sleep(LAST_MESSAGES_S)
        found = {kind: last_words(process) for kind, process in observers.items()}
    return phases, Notes(
        stamps_ns,
        wake_ups,
        {kind: [Heard(*one) for one in said['detections']] for kind, said in found.items()},
        {kind: [HeardLatency(*one) for one in said['latencies']] for kind, said in found.items()},
        {kind: said['priority'] for kind, said in found.items()},
    )


def join_phase(kind: str, phase: Phase, notes: Notes) -> Joined:
    """What one observer heard of the images of a phase."""
    span = phase.begin_ns, phase.end_ns
    return join(within(notes.detections[kind], *span), within(notes.latencies[kind], *span))


def row_of(phase: Phase, notes: Notes, found: Mapping[str, Joined]) -> dict:
    """What is said of a phase."""
    begin_ns, end_ns = phase.begin_ns, phase.end_ns
    late_ms = [late_ns / 1e6 for due_ns, late_ns in notes.wake_ups if begin_ns <= due_ns < end_ns]
    outcomes = Counter(
        Outcome(said.outcome).name.lower()
        for said in within(notes.latencies['raised'], begin_ns, end_ns)
    )
    return {
        **{key: value for key, value in asdict(phase).items() if not key.endswith('_ns')},
        'seconds': round((end_ns - begin_ns) / 1e9, 1),
        'images': sum(begin_ns <= stamp < end_ns for stamp in notes.stamps_ns),
        'outcomes': dict(outcomes),
        **promises(within(notes.latencies['raised'], begin_ns, end_ns)),
        'timer_late': spread(late_ms),
        **{
            kind: {
                'frames': len(joined.frames),
                'without_latency': joined.without_latency,
                'without_detections': joined.without_detections,
                'unknown_age': joined.unknown_age,
                **figures(joined.frames),
            }
            for kind, joined in found.items()
        },
    }


def show_rows(rows: Sequence[dict]) -> None:
    """Prints the phases, a line an observer."""
    beyond = f'> {AGREEMENT_MS:g} ms, %'
    heads = (
        *('phase', 'observer', 'load', 'frames', 'published p50', 'p99', 'observed p99'),
        *('difference p50', 'p99', 'max', beyond, 'received p99', f'timer late {beyond}'),
    )
    cells = []
    for row in rows:
        for kind in OBSERVERS:
            found = row[kind]
            difference, published = found['difference'], found['published']
            cells.append(
                (
                    *(row['name'], kind, row['load'], found['frames']),
                    *(published['p50'], published['p99'], found['observed']['p99']),
                    *(difference[name] for name in ('p50', 'p99_distance', 'max_distance')),
                    100.0 * difference['share_beyond'],
                    found['difference_as_received']['p99_distance'],
                    100.0 * row['timer_late']['share_beyond'],
                )
            )
    show('Observed less published latency, ms; p99 and max of its distance', heads, cells, words=2)


def judge_promises(run: Run, latencies: Sequence[HeardLatency]) -> dict[str, float | int | None]:
    """What is said of the promised frames of all phases, and whether that meets the goals."""
    found = promises(latencies)
    late = found['late_of_promised']
    run.goal('share of promised frames late', late, most=MOST_LATE)
    run.goal('late promised frames in a row', found['longest_run_late'], most=MOST_RUN)
    if found['late_after_late'] is not None:
        often = found['late_after_late'] / late
        run.goal('times as often late after a late one', often, most=MOST_AFTER_LATE)
    return found


def judge(run: Run, kind: str, frames: Sequence[ObservedFrame]) -> dict[str, dict]:
    """What is said of one observer and all phases, and whether that meets the goal."""
    found = {
        'callback': spread([frame.difference_ms for frame in frames]),
        'received': spread([frame.received_difference_ms for frame in frames]),
    }
    for moment, difference in found.items():
        run.goal(
            f'{moment} of the observer of {kind} priority: p99 of its distance to the published latency, ms,',
            difference['p99_distance'],
            most=AGREEMENT_MS,
        )
    return {'frames': len(frames), **found}


def main(run: Run) -> None:
    args = run.args
    check_ros()
    keep_to_this_machine()
    make_room_for_images()
    frames = QUICK_FRAMES if run.quick else args.frames
    (ROOT / 'out').mkdir(exist_ok=True)
    profile = profile_for(None)
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
    found = [{kind: join_phase(kind, phase, notes) for kind in OBSERVERS} for phase in phases]
    rows = [row_of(phase, notes, joined) for phase, joined in zip(phases, found, strict=True)]
    show_rows(rows)
    every = {
        kind: [frame for joined in found for frame in joined[kind].frames] for kind in OBSERVERS
    }
    run.write(
        rate_hz=args.rate_hz,
        kernel=' '.join(os.uname()[2:4]),
        priority=notes.priority,
        promises=judge_promises(
            run,
            [
                said
                for phase in phases
                for said in within(notes.latencies['raised'], phase.begin_ns, phase.end_ns)
            ],
        ),
        all_phases={kind: judge(run, kind, heard) for kind, heard in every.items()},
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
