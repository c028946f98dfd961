"""Methods that choose a model for each frame under contention, all on the same traces: Tables 1 to 5 of the contention
paper.

    python research/contention_grading/model_selection.py [--minutes 5] [--live-s 30]
        [--individual WEIGHTS:PATH ... --data VAL.json]
    python research/contention_grading/model_selection.py --individual-of FILE  # anew, models of a recording
    python research/contention_grading/model_selection.py --replay FILE [--live-s 300]  # tables anew

First it records: paths of the shipped network, as models of their own, run in rounds at each of twelve combinations of
RADAR, fusion and LiDAR programs (contender_programs.py), so that what every model takes at every level is known. Then
methods (selection_methods.py) are replayed on traces of random levels (selection_replay.py): a random half of the
rounds is learnt from, with one contender left out, the other half is what happens; ten seeds. A frame that takes longer
than the threshold is a delay violation. Memory and start-up are of processes that hold the compiled segments of each
set of models; the cost of a switch is timed on the idle machine; with --live-s methods take turns on the real network
beside real contenders, each for 30 frames that follow each other, the whole detector among them (selection_live.py).

The paper's predictor has no margin. As it is, it is one point of a curve; another table moves the target miss
probability of ours, the cost of a late frame, and a margin on the paper's prediction, and compares violations at equal
AP, with an interval over the seeds. Two oracles show what is possible at all: a clairvoyant knows how long each model
would take on the next frame, the other one knows the level of contention and how the delays at it are distributed. AP
in time counts a late frame as AP 0. A trace holds as many different delays of a model at a level as half of the rounds:
record at least 30.

Individually trained models are given with --individual and evaluated on --data. Each is trained with the same steps,
alone, from the shipped weights, for PATH s010-w1.00-p100-h1, s000-w0.75-p100-h1, s000-w0.50-p100-h1 and
s000-w0.25-p100-h1:
    deadline-perception train --config compact --data train.json --drives 72 --drive-share 0.45
        --start models/street.safetensors --strategy alone:PATH --crop 256 448 --crop-share 0.3 --batch 2
        --learning-rate 3e-4 --steps 600 --seed 51
        --out out/individual/PATH.safetensors
Without any, paths of the shipped network stand for them, which share their weights: the early-exit-like and
slimmable-like sets are then compared with a freer choice of paths, not with other weights. A model takes the time of
its path on the shipped network's engine, whoever trained it. AP is that of models/street.quality.json: the mean over
the six classes. Prints tables and writes results/model_selection.json; the recording is written beside it.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path

import numpy as np
from contender_programs import CODES, Contenders
from selection_live import DETECTOR_COSTS, LiveDetector, Runner, live
from selection_methods import ALPHA, BOUNDED, CURVES, METHODS, OUR_CURVES, OURS, PAPERS, Fixed
from selection_replay import (
    AFTER_CHANGE,
    ROUNDS_A_VISIT,
    Outcome,
    Recording,
    compare,
    mean_outcome,
    origins,
    violations_at,
    violations_ratio,
)
from transition_pruning import transition_prune

from deadline_perception.core.device import read_device_facts, use_threads
from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.extras.external_models.model_set.model_set import ModelSet
from deadline_perception.extras.external_models.model_set.pruning import (
    Candidate,
    contention_prune,
    pareto_prune,
)
from deadline_perception.extras.external_models.model_set.set_file import ModelSpec, load_model
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.networks.model_reference import find_weights
from deadline_perception.timing.profile import time_frame
from deadline_perception.tools.profile import restart_with_environment

sys.path.append(str(Path(__file__).resolve().parents[2] / 'benchmarks'))
from parts.harness import Run, run_script, show

SEEDS, FRAMES, LEVELS, MOST = 10, 3000, 12, {'radar': 2, 'fusion': 2, 'lidar': 2}
LEAST_ROUNDS = 8
# Fewer blocks or a lighter head at full width, as an early exit leaves out the rest of a network.
EARLY_EXIT_LIKE = (
    's000-w1.00-p100-h1',
    's001-w1.00-p100-h1',
    's010-w1.00-p100-h1',
    's100-w1.00-p100-h1',
    's000-w1.00-p100-h0',
)
SLIMMABLE_LIKE = (
    's000-w1.00-p100-h1',
    's000-w0.75-p100-h1',
    's000-w0.50-p100-h1',
    's000-w0.25-p100-h1',
)
FURTHER = (
    's000-w1.00-p25-h1',
    'r0.83-s000-w0.75-p50-h1',
    'r0.67-s000-w0.75-p50-h0',
    's111-w0.50-p25-h0',
    'r0.83-s110-w0.50-p50-h0',
    'r0.67-s111-w0.50-f0.50-p25-h0',
    'r0.50-s111-w0.25-f0.50-p10-h0',
)
IN_TIME = 0.95  # of the frames at a level
SLOPES = (0.05, 3.0)  # points of AP per ms; below: much time for little, above: much AP for no time
SWITCH_BLOCK, SWITCH_BLOCKS = 10, 40
ORIGINS_OF = ('ours, by utility', 'knows the level')
GOAL_MARGIN, GOAL_US = 0.5, 50.0


def level_list(count: int) -> list[dict[str, int]]:
    """No contender, then distinct random combinations of them, each contender alone among them."""
    rng = random.Random(0)
    levels = [{}, *({kind: 1} for kind in CODES)]
    while len(levels) < count:
        level = {kind: rng.randint(0, most) for kind, most in MOST.items()}
        level = {kind: number for kind, number in level.items() if number}
        if level not in levels:
            levels.append(level)
    return levels[:count]


def load_models(args: argparse.Namespace) -> tuple[ModelSet, dict[str, float]]:
    """The models, each a path of its own beside the others, and the AP of each, 0 to 100."""
    weights = find_weights(args.weights)
    network = load_model(ModelSpec('shipped', 'multi-path', weights))
    quality = PathQuality.load(weights.with_suffix('.quality.json'), network.path_space)
    names = dict.fromkeys((*EARLY_EXIT_LIKE, *SLIMMABLE_LIKE, *FURTHER))
    known = {name: 100.0 * quality.quality(network.path_space.parse(name)) for name in names}
    models = {'shipped': network}
    return ModelSet('selection', models), known


def individual_models(args: argparse.Namespace) -> tuple[dict[str, str], dict[str, float]]:
    """Individually trained models by name: the path that each was trained on, and their AP on the data."""
    from deadline_perception.extras.data.class_names import relabelled
    from deadline_perception.extras.data.joined_sequence import joined
    from deadline_perception.extras.data.source import open_source
    from deadline_perception.extras.evaluation.path_accuracy import (
        annotated_frames,
        measure_paths,
        ranking_classes,
    )

    paths, known = {}, {}
    sources = [open_source(source) for source in args.data]
    for number, word in enumerate(args.individual, 1):
        file, _, path = word.partition(':')
        network = load_model(ModelSpec(f'i{number}', 'multi-path', Path(file), path=path))
        sequence = joined(sources, network.class_names)
        frames = annotated_frames(sequence)
        truths = [
            relabelled(frame.ground_truth, sequence.class_names, network.class_names)
            for frame in frames
        ]
        scores = measure_paths(
            network,
            sequence,
            frames,
            [network.path_space.largest],
            ranked_by=tuple(ranking_classes(truths, network.class_names)),
        )
        paths[f'i{number}'], known[f'i{number}'] = (
            path,
            100.0 * scores[network.path_space.largest].pooled,
        )
        print(f'i{number}: {path} trained alone, AP {known[f"i{number}"]:.1f}', flush=True)
    return paths, known


def recorded_individual_models(recording: Recording) -> tuple[dict[str, str], dict[str, float]]:
    """Those of a recording, as `individual_models` gives them."""
    known = dict(zip(recording.models, recording.qualities))
    paths = {name: recording.facts[name] for name in known if name in recording.facts}
    return paths, {name: known[name] for name in paths}


def record(runner: Runner, qualities: dict[str, float], minutes: float, levels: int) -> Recording:
    """Delays of all models at all levels, in rounds; levels take turns too, so that drifts of the machine fall on all.
    A few rounds follow each other at a level, as frames do."""
    names, rng = list(qualities), random.Random(1)
    for name in names * 2:
        runner.run(name)
    combinations = level_list(levels)
    delays: list[list[list[float]]] = [[] for _ in combinations]
    until_s = time.monotonic() + 60.0 * minutes
    with Contenders(MOST) as contenders:
        while time.monotonic() < until_s or len(delays[-1]) < LEAST_ROUNDS:
            for level, combination in enumerate(combinations):
                contenders.set(combination)
                time.sleep(0.1)
                for _ in range(ROUNDS_A_VISIT):
                    took = {name: runner.run(name) for name in rng.sample(names, len(names))}
                    delays[level].append([took[name] for name in names])
            print(
                f'\rrecorded {len(delays[-1])} rounds of {len(names)} models at {len(combinations)} levels',
                end='',
                file=sys.stderr,
                flush=True,
            )
    print(file=sys.stderr)
    table = np.array(delays)
    order = np.argsort(np.median(table[0], axis=0))
    facts = {
        'device': str(read_device_facts()),
        'date': date.today().isoformat(),
        'rounds': str(table.shape[1]),
    }
    return Recording(
        tuple(names[at] for at in order),
        tuple(qualities[names[at]] for at in order),
        tuple(combinations),
        table[:, :, order],
        facts,
    )


def chosen_threshold(recording: Recording, quantile: float = 0.995) -> float:
    """A tenth above what the fastest model takes in all but a few frames, so that some model is mostly in time."""
    return round(1.1 * float(np.quantile(recording.delays_ms[:, :, 0], quantile)), 1)


def pruned_sets(recording: Recording, threshold_ms: float) -> dict[str, tuple[str, ...]]:
    """The models that each stage of pruning leaves (contention paper, section 3.4). Changed: at a level a model must be
    in time in all but a few frames, where the paper asks that of its mean, by which half of the frames may be late."""
    mean_ms = dict(zip(recording.models, recording.delays_ms.mean((0, 1)).tolist()))
    candidates = [
        Candidate(name, mean_ms[name], quality)
        for name, quality in zip(recording.models, recording.qualities)
    ]
    pareto = pareto_prune(candidates)
    transition = transition_prune(pareto, least_slope=SLOPES[0], greatest_slope=SLOPES[1])
    final = contention_prune(transition, recording.by_level(IN_TIME), threshold_ms)
    return {
        stage: tuple(candidate.name for candidate in kept)
        for stage, kept in (
            ('all', candidates),
            ('Pareto-pruned', pareto),
            ('transition-pruned', transition),
            ('final', final),
        )
    }


def memory_of(weights: Path, paths: Sequence[str]) -> dict[str, float]:
    """Memory in MB and start-up in s of a process that holds what these paths of the shipped network run; all for
    `all`."""
    done = subprocess.run(
        [sys.executable, __file__, '--memory-of', ','.join(paths), '--weights', str(weights)],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def tell_memory(args: argparse.Namespace) -> None:
    """The work of that process."""
    import torchvision  # noqa: F401  libraries are not what models take

    from deadline_perception.runtime.loading import warm_up
    from deadline_perception.tools.support.model_probe import resident_mb

    image = np.zeros((380, 640, 3), np.uint8)
    before_mb, begun_ms = resident_mb(), now_ms()
    network = load_model(ModelSpec('shipped', 'multi-path', find_weights(args.weights)))
    if args.memory_of == 'all':
        warm_up(network, image.shape[:2])
    else:
        for name in args.memory_of.split(','):
            time_frame(network, image, network.path_space.parse(name))
    print(
        json.dumps(
            {
                'memory_mb': round(resident_mb() - before_mb, 1),
                'start_s': round((now_ms() - begun_ms) / 1000.0, 2),
            }
        )
    )


def switching_cost(runner: Runner, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """First frame after a switch against all others, idle, as Table 3 of the contention paper; means and medians,
    ms."""
    rng = random.Random(2)
    first: dict[str, list[float]] = {name: [] for name in names}
    others: dict[str, list[float]] = {name: [] for name in names}
    before = ''
    for _ in range(SWITCH_BLOCKS):
        name = rng.choice([name for name in names if name != before])
        took = [runner.run(name) for _ in range(SWITCH_BLOCK)]
        first[name].append(took[0])
        others[name] += took[1:]
        before = name
    return {
        name: {
            'first_ms': statistics.fmean(first[name]),
            'other_ms': statistics.fmean(others[name]),
            'first_median_ms': statistics.median(first[name]),
            'other_median_ms': statistics.median(others[name]),
            'switches': len(first[name]),
        }
        for name in names
        if first[name]
    }


def outcome_cells(outcome: Outcome) -> tuple[str, ...]:
    """AP, AP in time, violations, misses of the bound and switches of an outcome."""
    missed = '-' if np.isnan(outcome.bound_misses) else f'{outcome.bound_misses:.2f}'
    return (
        f'{outcome.ap:.2f}',
        f'{outcome.ap_in_time:.2f}',
        f'{outcome.violations:.2f}',
        missed,
        f'{outcome.switches:.1f}',
    )


def print_outcomes(
    title: str, rows: Mapping[str, Outcome], memory: Mapping[str, dict[str, float]] = {}
) -> None:
    """One table."""
    shown = []
    for name, outcome in rows.items():
        ap, in_time, violations, missed, switches = outcome_cells(outcome)
        cells = [
            name,
            ap,
            in_time,
            violations,
            f'{outcome.unavoidable:.2f}',
            missed,
            switches,
            outcome.most_late,
            f'{outcome.decision_us:.1f}',
        ]
        if memory:
            of_set = memory.get(name)
            cells += (
                [f'{of_set["memory_mb"]:.0f}', f'{of_set["start_s"]:.1f}'] if of_set else ['', '']
            )
        shown.append(cells)
    show(
        title,
        (
            '',
            'AP',
            'AP in time',
            'violations %',
            'unavoidable %',
            'bound missed %',
            'switches %',
            'longest late',
            'us a frame',
            *(('memory MB', 'start-up s') if memory else ()),
        ),
        shown,
    )


def tables(
    args: argparse.Namespace, recording: Recording, shipped: set[str], weights: Path | None
) -> dict:
    """Tables 1, 2, 4 and 5, printed; and all figures."""
    threshold_ms = args.threshold_ms or chosen_threshold(recording)
    counts = {'threshold_ms': threshold_ms, 'seeds': args.seeds, 'frames': args.frames}

    def run(
        models: Sequence[str],
        methods: Sequence[str] = tuple(METHODS),
        threshold_ms: float = threshold_ms,
    ) -> dict[str, Outcome]:
        models = [name for name in recording.models if name in models]
        chosen = {name: METHODS[name] for name in methods}
        fixed = {}
        if len(methods) > 2:
            fixed = {f'always {model}': lambda terms, model=model: Fixed(model) for model in models}
        found = compare(
            recording.only(models),
            {**fixed, **chosen},
            threshold_ms=threshold_ms,
            seeds=args.seeds,
            frames=args.frames,
        )
        return {name: mean_outcome(outcomes) for name, outcomes in found.items()}

    sets = pruned_sets(recording, threshold_ms)
    trained = tuple(name for name in recording.models if name not in shipped)
    memory = {}
    if weights is not None:
        memory['all 2,048 paths'] = memory_of(weights, ['all'])
        memory |= {
            stage: memory_of(weights, models)
            for stage, models in sets.items()
            if shipped.issuperset(models)
        }
        memory |= {
            'early-exit-like': memory_of(weights, EARLY_EXIT_LIKE),
            'slimmable-like': memory_of(weights, SLIMMABLE_LIKE),
        }
    print(
        f'threshold {threshold_ms} ms; {args.seeds} seeds of {args.frames} frames; {len(recording.levels)} levels of '
        f'{recording.delays_ms.shape[1]} rounds; {recording.facts["device"]}'
    )
    first = run(sets['final'])
    print_outcomes(f'Table 1: methods on {len(sets["final"])} models', first)
    second = {
        f'{stage}, {method}': outcome
        for stage, models in sets.items()
        if len(models) > 1
        for method, outcome in run(models, (PAPERS, OURS)).items()
    }
    print_outcomes(
        'Table 2: sets of models after each pruning',
        second,
        {f'{stage}, {OURS}': memory[stage] for stage in sets if stage in memory},
    )
    final = recording.only([name for name in recording.models if name in sets['final']])
    curves, ratios = {}, {}
    given = {'threshold_ms': threshold_ms, 'seeds': args.seeds, 'frames': args.frames}
    papers = compare(final, {PAPERS: METHODS[PAPERS]}, **given)[PAPERS]
    for name, settings in CURVES.items():
        found = compare(
            final,
            {str(setting): make for setting, make in settings.items()},
            threshold_ms=threshold_ms,
            seeds=args.seeds,
            frames=args.frames,
        )
        curves[name] = {setting: mean_outcome(outcomes) for setting, outcomes in found.items()}
        ratios[name] = dict(
            zip(('ratio', 'low', 'high'), violations_ratio(list(found.values()), papers))
        )
    print_curves(curves, ratios, first[PAPERS])
    came_from = {}
    for name, of in ((PAPERS, None), *((name, CURVES[name]) for name in ORIGINS_OF)):
        # The setting of the AP that is nearest to the paper's.
        setting = of and min(
            of, key=lambda setting: abs(curves[name][str(setting)].ap - first[PAPERS].ap)
        )
        after, later = origins(final, METHODS[PAPERS] if of is None else of[setting], **given)
        came_from[name] = {'setting': setting, 'after_a_change': after, 'later_by_level': later}
        print(
            f'{name}{"" if of is None else f", {setting}"}: {after:.2f} % of all frames are late within '
            f'{AFTER_CHANGE} after a change of level; later, by level: '
            f'{", ".join(f"{share:.2f}" for share in later)}'
        )
    kinds = {}
    for number, kind, models in (
        (4, 'early-exit-like', EARLY_EXIT_LIKE),
        (5, 'slimmable-like', SLIMMABLE_LIKE),
    ):
        # As fair as the paper's: a threshold that the smallest of the kind can keep.
        of_kind_ms = args.threshold_ms or chosen_threshold(
            recording.only([name for name in recording.models if name in models]), IN_TIME
        )
        individual = trained or pruned_sets(recording, of_kind_ms)['final']
        found = {
            f'{name}, {method}': outcome
            for name, compared in ((kind, models), ('individual', individual))
            for method, outcome in run(compared, (PAPERS, OURS), of_kind_ms).items()
        }
        print_outcomes(
            f'Table {number}: {kind} against individual models within {of_kind_ms:.0f} ms',
            found,
            {f'{kind}, {OURS}': memory[kind]} if kind in memory else {},
        )
        kinds[f'table_{number}'] = {
            'threshold_ms': of_kind_ms,
            'individual': list(individual),
            **{name: asdict(outcome) for name, outcome in found.items()},
        }
    for name, figures in memory.items():
        print(
            f'{name}: {figures["memory_mb"]:.0f} MB beside the libraries, ready after {figures["start_s"]:.1f} s'
        )
    goals = judged(first, {name: tuple(points.values()) for name, points in curves.items()}, ratios)
    for name, (text, met) in goals.items():
        print(f'{"met   " if met else "MISSED"} {name}: {text}')
    return {
        **counts,
        'sets': {stage: list(models) for stage, models in sets.items()},
        'memory': memory,
        'individually_trained': bool(trained),
        'table_1': {name: asdict(outcome) for name, outcome in first.items()},
        'table_2': {name: asdict(outcome) for name, outcome in second.items()},
        'curves': {
            name: {setting: asdict(outcome) for setting, outcome in points.items()}
            for name, points in curves.items()
        },
        'of_the_papers_violations_at_its_ap': ratios,
        'violations_came_from': came_from,
        **kinds,
        'goals': {name: {'found': text, 'met': met} for name, (text, met) in goals.items()},
    }


def print_curves(
    curves: Mapping[str, Mapping[str, Outcome]],
    ratios: Mapping[str, Mapping[str, float]],
    papers: Outcome,
) -> None:
    """Violations against AP as the one setting of a method moves, and at the AP of the paper's method as it is."""
    show(
        'violations % at AP, by target miss probability, margin, or AP that a late frame costs',
        ('', 'setting', 'AP', 'AP in time', 'violations %', 'bound missed %', 'switches %'),
        [
            (name, setting, *outcome_cells(outcome))
            for name, points in curves.items()
            for setting, outcome in points.items()
        ],
    )
    for name, points in curves.items():
        print(
            f'{name}: {violations_at(tuple(points.values()), papers.ap):.2f} % violations at AP {papers.ap:.2f}, '
            f"where the paper's method has {papers.violations:.2f} %: {as_text(ratios[name])} of it"
        )


def as_text(ratio: Mapping[str, float]) -> str:
    """Ratio and interval."""
    return f'{ratio["ratio"]:.2f} ({ratio["low"]:.2f} to {ratio["high"]:.2f})'


def judged(
    outcomes: Mapping[str, Outcome],
    curves: Mapping[str, Sequence[Outcome]],
    ratios: Mapping[str, Mapping[str, float]],
) -> dict[str, tuple[str, bool]]:
    """Whether the goals are met: words and truth of each.

    The target miss probability and the cost of a late frame trade violations for AP, as a margin would for the paper's
    method: compared at equal AP. No method can be expected to be late less often than one that knows the level of every
    frame, which is among the curves.
    """
    papers = outcomes[PAPERS]
    slowest = max(
        outcome.decision_us for name, outcome in outcomes.items() if name.startswith('ours')
    )
    limit = 100.0 * ALPHA + GOAL_MARGIN
    avoidable = {name: outcomes[name].violations - outcomes[name].unavoidable for name in BOUNDED}
    worst = max(avoidable, key=avoidable.get)
    at_equal = {name: violations_at(points, papers.ap) for name, points in curves.items()}
    return {
        "violations under half of the paper's at no lower AP": (
            ', '.join(
                f'{name} {found:.2f} %, {as_text(ratios[name])} of it'
                for name, found in at_equal.items()
            )
            + f" at AP {papers.ap:.2f}, against {papers.violations:.2f} % of the paper's",
            bool(
                np.nanmin([math.inf, *(at_equal[name] for name in OUR_CURVES)])
                < papers.violations / 2
            ),
        ),
        f'avoidable violations at most {limit} % for every bounded predictor': (
            f'at most {avoidable[worst]:.2f} % ({worst})',
            avoidable[worst] <= limit,
        ),
        f'under {GOAL_US:.0f} us per frame': (f'at most {slowest:.1f} us', slowest < GOAL_US),
    }


def main(run: Run) -> None:
    args = run.args
    restart_with_environment(1)
    use_threads(1)
    if args.memory_of:
        tell_memory(args)
        return
    shipped = {*EARLY_EXIT_LIKE, *SLIMMABLE_LIKE, *FURTHER}
    models, qualities = load_models(args)
    images = [frame.load_bgr() for frame in render_drive(seconds=8.0).frames[::4]]
    if args.replay:
        recording = Recording.load(args.replay)
        content = json.loads(run.file.read_text()) if run.file.is_file() else {}
        found = tables(args, recording, shipped, None)
        content |= {name: value for name, value in found.items() if value != {}}
        individual, _ = recorded_individual_models(recording)
        runner = Runner(models, individual, images)
    else:
        individual, more = (
            individual_models(args)
            if args.individual
            else recorded_individual_models(Recording.load(args.individual_of))
            if args.individual_of
            else ({}, {})
        )
        runner = Runner(models, individual, images)
        recording = record(runner, {**qualities, **more}, args.minutes, args.levels)
        recording.facts.update(individual)
        recording.save(run.file.with_name('model_selection_recording.json'))
        content = {
            **recording.facts,
            'engine': models.engine.identity,
            'levels': list(recording.levels),
            'models': dict(zip(recording.models, recording.qualities)),
            'idle_ms': recording.idle_ms,
        }
        content |= tables(args, recording, shipped, find_weights(args.weights))
        content['switching'] = switching_cost(runner, content['sets']['transition-pruned'][-4:])
        for name, figures in content['switching'].items():
            print(
                f'{name}: {figures["first_ms"]:.2f} ms right after a switch, {figures["other_ms"]:.2f} ms otherwise '
                f'(medians {figures["first_median_ms"]:.2f} and {figures["other_median_ms"]:.2f}), '
                f'{figures["switches"]} switches'
            )
    live_s = (0.0 if args.replay else 30.0) if args.live_s is None else args.live_s
    if live_s > 0:
        final = recording.only(content['sets']['final'])
        try:
            detector = LiveDetector(
                find_weights(args.weights), content['threshold_ms'], DETECTOR_COSTS
            )
        except DeadlinePerceptionError as error:
            print(f'without the whole detector: {error}', file=sys.stderr)
            detector = None
        content['live'] = live(runner, final, MOST, content['threshold_ms'], live_s, detector)
        for name, figures in content['live'].items():
            if 'ratio' in figures:
                print(
                    f"live, {name}: at the AP of the paper's method {as_text(figures)} of its violations"
                )
            else:
                print(
                    f'live, {name}: {figures["violations"]:.2f} % violations, AP {figures["ap"]:.2f}, '
                    f'{figures["frames"]} frames'
                )
    run.write(**content)


if __name__ == '__main__':
    run_script(
        main,
        {
            '--weights': {'type': Path, 'default': Path('models/street.safetensors')},
            '--minutes': {'type': float, 'default': 5.0, 'help': 'to record'},
            '--levels': {'type': int, 'default': LEVELS},
            '--seeds': {'type': int, 'default': SEEDS},
            '--frames': {'type': int, 'default': FRAMES},
            '--threshold-ms': {
                'type': float,
                'help': "longest delay allowed; by default just above the fastest model's",
            },
            '--live-s': {
                'type': float,
                'help': 'of the live run; 0 for none; by default 30, but none with --replay',
            },
            '--individual': {'action': 'append', 'default': [], 'metavar': 'WEIGHTS:PATH'},
            '--individual-of': {
                'type': Path,
                'metavar': 'RECORDING',
                'help': 'an earlier recording, whose individual models and their AP are taken: their times '
                'are those of their paths, so that their weights are not needed',
            },
            '--data': {
                'nargs': '+',
                'default': [],
                'help': 'annotated images for the individual models: those that the qualities of the shipped '
                'network are from',
            },
            '--replay': {'type': Path, 'help': 'recording to take instead of making one'},
            '--memory-of': {'help': argparse.SUPPRESS},
        },
        quick='writes below out/benchmarks',
    )
