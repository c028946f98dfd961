"""Any policy on recorded answers and recorded times: no network runs, so that thousands of frames take seconds.

    python benchmarks/replay.py [--only record trace replay] [--data ../shared/data] [--kept out/replay]
                                [--limit IMAGES] [--trace-frames 3000] [--frames 10000]

`record`: what 15 paths of `street` and three sizes of its first look find in real images of six kinds. `trace`: how long
the segments of the longest frame take alone, beside two busy programs, beside these without priority, and beside
another real-time program; the machine must be quiet. Images come every 1.5 times the longest look's time there, and
every 2.5 times in the replay. What there is of images and conditions below `--kept` is not recorded again.
Both need prepared segments on one thread (`profile --threads 1 --all-paths`, for both networks).
`replay`: each policy over `--frames` frames a condition, a fifth of them under each of five traces of budgets of 0.25
to 1.5 times the full path, with the real time model, policy, frontier and loop. The forecast is the shipped profile's,
brought to this machine by one factor.

AP counts own answers in time alone, any other frame as one without objects; it is the mean over kinds of images, and
within a kind over its classes. The clairvoyant knows what each look of each frame takes and has our qualities. `own` is the
share of images answered by an own result in time, of those that some look could meet. `late` is of frames whose bound
was to fit. `again` is the share of frames late right after a late one, where those without a promise count as late when
some look could have met them. Intervals are of 200 draws of images, the same for all policies. Writes results/replay.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from parts.harness import ROOT, Run, option, run_script, show
from parts.real_images import of_classes
from parts.replay_contenders import Maker, World, contenders
from parts.replay_frames import (
    BUDGETS,
    Course,
    Outcomes,
    clairvoyant,
    fixed,
    reachable,
)
from parts.replay_recording import KINDS, LOOKS, OURS, PUBLIC, SeenImage, read, record
from parts.replay_scores import (
    KindScores,
    after_late,
    interval,
    longest_run,
    overall,
    share,
)
from parts.replay_traces import (
    CONDITIONS,
    LONGEST,
    Trace,
    measure_costs,
    read_traces,
    record_traces,
)
from rich.progress import track

from deadline_perception.core.device import use_threads
from deadline_perception.engines.segment_run import Network
from deadline_perception.networks.model_reference import load_network
from deadline_perception.runtime.loading import SetupError
from deadline_perception.tools.profile import restart_with_environment

STEPS = ('record', 'trace', 'replay')
ORACLE, FIXED = 'clairvoyant', 'best fixed sequence'
QUICK_IMAGES, QUICK_FRAMES = 4, 250
PROCESSES = 2
# From one recorded frame to the next, over the time of the longest look: a network that is busy without a pause would
# give its real-time priority away at the end of each second.
TRACE_PERIOD = 1.5
# Goals by condition: own answers of those that some look could meet, and AP over the clairvoyant's.
GOALS = dict(zip(CONDITIONS, ((0.999, 0.98), (0.995, 0.97), (0.98, 0.92), (0.98, 0.92))))
# Of the median bound over the time of the network.
BOUND_GOALS = {'alone': 1.15, 'periodic stalls': 2.0}


@dataclass(frozen=True, eq=False)
class Recorded:
    """All that is replayed: images in the order of the course, and traces by condition."""

    images: list[SeenImage]
    traces: dict[str, Trace]
    world: World

    @classmethod
    def load(cls, folder: Path) -> Recorded:
        """What the other steps have kept."""
        costs_ms = measure_costs({}, (), folder / 'costs.npz')
        world = World(costs_ms)
        space = world.single.space
        keys = [key for path in LONGEST for key in space.keys(space.parse(path))]
        return cls(read(folder / 'images'), read_traces(folder / 'traces', costs_ms, keys), world)


def main(run: Run) -> None:
    args = run.args
    folder = args.kept / 'quick' if run.quick else args.kept
    steps = args.only or STEPS
    if set(steps) - {'replay'}:
        restart_with_environment(1)
        use_threads(1)
        networks = {name: prepared_network(name) for name in (OURS, PUBLIC)}
        limit = QUICK_IMAGES if run.quick else args.limit
        if 'record' in steps:
            record(networks, args.data, folder / 'images', limit)
        if 'trace' in steps:
            trace(networks, args, folder, QUICK_FRAMES if run.quick else args.trace_frames)
    if 'replay' in steps:
        replay(run, folder, QUICK_FRAMES if run.quick else args.frames)


def prepared_network(name: str) -> Network:
    """A network whose paths of `LOOKS` are prepared."""
    network, _ = load_network(name, 'cpu')
    paths = [network.path_space.parse(path) for of, path in LOOKS if of == name]
    needed = {key for path in paths for key in network.path_space.keys(path)}
    missing = needed - set(network.engine.keys or needed)
    if missing or network.engine.identity == 'eager':
        raise SetupError(
            f'{len(missing or needed)} segments of {name} are not prepared, expected all of {len(paths)} paths: '
            f'deadline-perception profile --model {name} --threads 1 --all-paths --prepare-only'
        )
    network.engine.load(sorted(needed))
    return network


def trace(networks: dict[str, Network], args, folder: Path, frames: int) -> None:
    """Records times."""
    from deadline_perception.extras.data.source import open_source

    sequence = open_source(str(args.data / KINDS['drive'][0]))
    images = [frame.load_bgr() for frame in sequence.frames[::20]]
    with ThreadPoolExecutor(1) as worker:  # whose priority ends with it
        costs_ms = worker.submit(measure_costs, networks, images, folder / 'costs.npz').result()
    space = networks[OURS].path_space
    longest_ms = sum(costs_ms[f'{OURS} {key}'] for key in space.keys(space.parse(LONGEST[1])))
    record_traces(
        lambda: prepared_network(OURS),
        images,
        folder / 'traces',
        frames,
        TRACE_PERIOD * longest_ms,
    )


def replay(run: Run, folder: Path, frames: int) -> None:
    """Replays every policy, and writes what came of it."""
    recorded = Recorded.load(folder)
    print(
        f'{len(recorded.images)} images, {len(recorded.world.answers)} answers to each, '
        + ', '.join(f'{len(one)} frames {name}' for name, one in recorded.traces.items()),
        flush=True,
    )
    names = list(contenders(recorded.images))
    tasks = [
        (condition, name, budget)
        for condition in CONDITIONS
        for name in names
        for budget in range(len(BUDGETS))
    ]
    each = max(frames // len(BUDGETS), 2)
    with ProcessPoolExecutor(PROCESSES, get_context('spawn')) as pool:
        courses = pool.map(partial(_replayed, folder, each), tasks)
        parts = list(track(courses, 'courses', len(tasks)))
    scores = scores_of(recorded)
    found: dict[str, dict[str, list[Outcomes]]] = {}
    for (condition, name, _), outcomes in zip(tasks, parts):
        found.setdefault(condition, {}).setdefault(name, []).append(outcomes)
    conditions = {}
    for condition, of_names in found.items():
        conditions[condition] = rows = summary(recorded, scores, condition, of_names, each)
        tell(condition, rows)
        judge(run, condition, rows)
    run.indent = None
    run.write(
        images={kind: len(one.draws[0]) for kind, one in scores.items()},
        classes={kind: one.classes for kind, one in scores.items()},
        looks=[' '.join(look) for look in LOOKS],
        trace_frames={name: len(one) for name, one in recorded.traces.items()},
        frames_a_condition=each * len(BUDGETS),
        budgets=BUDGETS,
        full_path_ms=round(full_ms(recorded), 2),
        conditions=conditions,
    )


def scores_of(recorded: Recorded) -> dict[str, KindScores]:
    """By kind of image; all answers to all images are matched, which takes a minute."""
    world = recorded.world
    scores = {}
    for kind in track(dict.fromkeys(image.kind for image in recorded.images), 'kinds matched'):
        of_kind = [image for image in recorded.images if image.kind == kind]
        answers = [
            [
                of_classes(world.found(image, answer), world.passes.class_names, image.classes)
                for image in of_kind
            ]
            for answer in world.answers
        ]
        scores[kind] = KindScores(kind, answers, [image.truth for image in of_kind])
    return scores


@cache
def _loaded(folder: Path) -> tuple[Recorded, dict[str, Maker]]:
    """Of a worker."""
    recorded = Recorded.load(folder)
    return recorded, contenders(recorded.images)


def _replayed(folder: Path, frames: int, task: tuple[str, str, int]) -> Outcomes:
    condition, name, budget = task
    recorded, makers = _loaded(folder)
    trace = recorded.traces[condition]
    contender = makers[name](recorded.world, trace, recorded.traces['alone'])
    outcomes = contender.run(course(recorded, condition, budget, frames))
    if not contender.policy.keeps_bounds:
        outcomes.promised = []
    return outcomes


def full_ms(recorded: Recorded) -> float:
    """What the longest look takes on the idle machine."""
    single = recorded.world.single
    return single.results(single.space.parse(LONGEST[1]))[-1][0]


def course(recorded: Recorded, condition: str, budget: int, frames: int) -> Course:
    """The same for every policy."""
    return Course.of(
        BUDGETS[budget],
        frames,
        len(recorded.images),
        len(recorded.traces[condition]),
        full_ms(recorded),
        seed=budget,
    )


def summary(
    recorded: Recorded,
    scores: dict[str, KindScores],
    condition: str,
    found: dict[str, list[Outcomes]],
    frames: int,
) -> dict[str, dict]:
    """Figures of every policy under one condition; those that need no loop are worked out here."""
    trace = recorded.traces[condition]
    world = recorded.world
    courses = [course(recorded, condition, budget, frames) for budget in range(len(BUDGETS))]
    sequences = world.sequences
    found = {ORACLE: [_clairvoyant(recorded, trace, one) for one in courses], **found}
    given_of = {name: given(recorded, courses, outcomes) for name, outcomes in found.items()}
    best = None
    most = -1.0
    for path in sequences.paths:
        times_ms, answers = zip(*sequences.results(path))
        outcomes = [fixed(times_ms, answers, trace, one) for one in courses]
        drawn = given(recorded, courses, outcomes)
        ap = overall(scores, drawn, draws=0)[0]
        if ap > most:
            best, most = (f'{FIXED}: {path}', outcomes, drawn), ap
    found[best[0]], given_of[best[0]] = best[1:]
    least_ms = [min(ms for path in sequences.paths for ms, _ in sequences.results(path))]
    possible = np.concatenate([reachable(least_ms, trace, one) for one in courses])
    oracle = overall(scores, given_of[ORACLE])
    ours = overall(scores, given_of['ours'])
    return {
        name: figures(found[name], overall(scores, given_of[name]), oracle, ours, possible)
        for name in found
    }


def _clairvoyant(recorded: Recorded, trace: Trace, one: Course) -> Outcomes:
    world = recorded.world
    space = world.sequences
    quality = world.quality()
    results = [(path, *space.results(path)[-1]) for path in space.paths]
    by_size = quality.by_size([path for path, _, _ in results])

    def see(image: int, answer) -> None:
        seen = recorded.images[image]
        quality.scene.update(world.found(seen, answer), seen.size)

    return clairvoyant(
        [(ms, answer) for _, ms, answer in results],
        lambda image: by_size @ quality.scene.weights,
        trace,
        one,
        see,
    )


def given(
    recorded: Recorded, courses: Sequence[Course], outcomes: Sequence[Outcomes]
) -> dict[str, np.ndarray]:
    """How often each image of each kind got each answer, see `KindScores.precision`."""
    number = {answer: at for at, answer in enumerate(recorded.world.answers)}
    number[None] = len(number)
    table = np.zeros((len(recorded.images), len(number)))
    for one, part in zip(courses, outcomes):
        np.add.at(table, (one.images, [number[answer] for answer in part.answers]), 1.0)
    kinds = np.array([image.kind for image in recorded.images])
    return {kind: table[kinds == kind] for kind in dict.fromkeys(kinds.tolist())}


def figures(
    outcomes: Sequence[Outcomes],
    ap: np.ndarray,
    oracle: np.ndarray,
    ours: np.ndarray,
    possible: np.ndarray,
) -> dict:
    """What is said about one policy under one condition; AP in points, with those of all draws after the first."""
    in_time = np.concatenate([part.in_time for part in outcomes])
    promised = np.concatenate([np.asarray(part.promised, bool) for part in outcomes])
    late = (promised if len(promised) else possible) & ~in_time
    over = np.concatenate([part.bound_over_time for part in outcomes])
    found = {
        'ap': 100.0 * ap[0],
        'ap_95': [100.0 * limit for limit in interval(ap[1:])],
        'of_clairvoyant': ap[0] / oracle[0],
        'own_of_possible': share(in_time, possible),
        'late_of_promised': share(~in_time, promised) if len(promised) else None,
        'promised': float(promised.mean()) if len(promised) else None,
        'late': float(late.mean()),
        'again': after_late(late),
        'longest_run': longest_run(late),
        'bound_over_time': float(np.median(over)) if len(over) else None,
        'ours_gain': 100.0 * (ours[0] - ap[0]),
        'ours_gain_95': [100.0 * limit for limit in interval((ours - ap)[1:])],
    }
    return rounded(found)


def rounded(value):
    """With four digits behind the point."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return round(float(value), 4) if isinstance(value, (float, np.floating)) else value


def tell(condition: str, rows: dict[str, dict]) -> None:
    """Prints the table of one condition."""

    def percent(value: float | None) -> str | None:
        return None if value is None else f'{100.0 * value:.2f}'

    show(
        f'{condition}: AP of own answers in time, all else in percent',
        'policy | AP | 95 % | of clairvoyant | ours more by | own | promised | late | again | run | bound/time',
        [
            (
                name,
                row['ap'],
                '{:.1f} to {:.1f}'.format(*row['ap_95']),
                percent(row['of_clairvoyant']),
                '{:+.2f} ({:+.2f} to {:+.2f})'.format(row['ours_gain'], *row['ours_gain_95']),
                percent(row['own_of_possible']),
                percent(row['promised']),
                percent(row['late_of_promised']),
                percent(row['again']),
                row['longest_run'],
                row['bound_over_time'],
            )
            for name, row in rows.items()
        ],
    )


def judge(run: Run, condition: str, rows: dict[str, dict]) -> None:
    """The goals of one condition."""
    own = rows['ours']
    least_own, least_share = GOALS[condition]
    run.goal(f'{condition}: own answers in time', own['own_of_possible'], least=least_own)
    run.goal(f'{condition}: late of promised', own['late_of_promised'], most=0.01)
    again = None if own['again'] is None or not own['late'] else own['again'] / own['late']
    run.goal(f'{condition}: late again over late', 0.0 if again is None else again, most=3.0)
    run.goal(f'{condition}: longest run of late frames', own['longest_run'], most=3)
    run.goal(f'{condition}: AP over the clairvoyant', own['of_clairvoyant'], least=least_share)
    if condition in BOUND_GOALS:
        most = BOUND_GOALS[condition]
        run.goal(f'{condition}: bound over time', own['bound_over_time'], most=most)
    rivals = {name: row for name, row in rows.items() if not name.startswith(('ours', ORACLE))}
    nearest = min(rivals, key=lambda name: rivals[name]['ours_gain_95'][0])
    run.goal(
        f'{condition}: AP above every other policy, least of the intervals ({nearest})',
        rivals[nearest]['ours_gain_95'][0],
        least=0.0,
    )


if __name__ == '__main__':
    run_script(
        main,
        {
            '--only': option(None, 'steps to take; all by default', nargs='+', choices=STEPS),
            '--data': option(Path('../shared/data')),
            '--kept': option(ROOT / 'out' / 'replay', 'folder of what is recorded'),
            '--limit': option(None, 'images of each kind; all by default', type=int, least=1),
            '--trace-frames': option(3000, 'of each condition', least=1),
            '--frames': option(10_000, 'replayed by each policy under each condition', least=10),
        },
        quick=f'{QUICK_IMAGES} images of each kind, {QUICK_FRAMES} frames',
    )
