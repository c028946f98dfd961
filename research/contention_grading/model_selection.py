"""Methods that choose a model for each frame under contention, all on the same traces: Tables 1 to 5 of the contention
paper.

    python research/contention_grading/model_selection.py [--recording FILE] [--seeds 10] [--frames 3000]

The recording that lies in results/ has the delays of 19 models in rounds at each of twelve combinations of RADAR,
fusion and LiDAR programs, so that what every model takes at every level is known: 15 paths of the weights `compact`,
which no longer ship, and four of them trained alone from these (600 steps each). Methods (selection_methods.py) are
replayed on traces of random levels (selection_replay.py): a random half of the rounds is learnt from, with one contender
left out, the other half is what happens; ten seeds. A frame that takes longer than the threshold is a delay violation.
The cost of a switch (Table 3) is timed on paths of the shipped network.

The paper's predictor has no margin, and so is one point of a curve; another table moves the target miss probability of
ours and the cost of a late frame, and compares violations at equal AP, with an interval over the seeds. Two oracles
show what is possible at all: a clairvoyant knows how long each model would take on the next frame, the other one knows
the level of contention and how the delays at it are distributed. AP in time counts a late frame as AP 0. AP is the mean
over six classes. Prints tables and writes results/model_selection.json.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from selection_methods import ALPHA, BOUNDED, CURVES, METHODS, OUR_CURVES, OURS, PAPERS, Fixed
from selection_replay import (
    Outcome,
    Recording,
    compare,
    mean_outcome,
    violations_ratio,
)
from transition_pruning import pruned_in_stages

from deadline_perception.extras.external_models.model_set.pruning import Candidate
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.networks.model_reference import load_network
from deadline_perception.timing.profile import time_frame

sys.path.append(str(Path(__file__).resolve().parents[2] / 'benchmarks'))
from parts.harness import Run, option, run_script, show

RECORDING = Path(__file__).parent / 'results' / 'model_selection_recording.json'
# Fewer blocks or a lighter head at full width, as an early exit leaves out the rest of a network.
EARLY_EXIT_LIKE = (
    *(f's{skips}-w1.00-p100-h1' for skips in ('000', '001', '010', '100')),
    's000-w1.00-p100-h0',
)
SLIMMABLE_LIKE = tuple(f's000-w{width}-p100-h1' for width in ('1.00', '0.75', '0.50', '0.25'))
IN_TIME = 0.95  # of the frames at a level
SLOPES = (0.05, 3.0)  # points of AP per ms; below: much time for little, above: much AP for no time
SWITCHED = (
    's00000-w1.00-p100-h2',
    'r0.53-s00000-w1.00-p100-h0',
    'r0.44-s00000-w1.00-p100-h2',
    'r0.44-s01100-w0.75-p50-h0',
)
SWITCH_BLOCK = 10
SWITCH_BLOCKS = 40
GOAL_RATIO = 0.5
GOAL_MARGIN = 0.5
GOAL_US = 50.0


def chosen_threshold(recording: Recording, quantile: float = 0.995) -> float:
    """A tenth above what the fastest model takes in all but a few frames, so that some model is mostly in time."""
    fastest_ms = np.quantile(recording.delays_ms[:, :, 0], quantile)
    return round(1.1 * float(fastest_ms), 1)


def pruned_sets(recording: Recording, threshold_ms: float) -> dict[str, list[str]]:
    """The models that each stage of pruning leaves (contention paper, section 3.4). Changed: at a level a model must be
    in time in all but a few frames, where the paper asks that of its mean, by which half of the frames may be late."""
    means_ms = recording.delays_ms.mean((0, 1)).tolist()
    mean_ms = dict(zip(recording.models, means_ms))
    candidates = [
        Candidate(name, mean_ms[name], quality)
        for name, quality in zip(recording.models, recording.qualities)
    ]
    return pruned_in_stages(candidates, SLOPES, recording.by_level(IN_TIME), threshold_ms)


def switching_cost(paths: Sequence[str]) -> dict[str, dict[str, float]]:
    """First frame after a switch against all others, idle, as Table 3 of the contention paper; means, ms."""
    network, _ = load_network('street', 'cpu')
    frames = render_drive(seconds=8.0).frames[::4]
    images = itertools.cycle([frame.load_bgr() for frame in frames])
    rng = random.Random(2)
    first = {name: [] for name in paths}
    others = {name: [] for name in paths}
    for name in paths:
        time_frame(network, next(images), network.path_space.parse(name))
    before = ''
    for _ in range(SWITCH_BLOCKS):
        name = rng.choice([name for name in paths if name != before])
        path = network.path_space.parse(name)
        took = [time_frame(network, next(images), path)[0] for _ in range(SWITCH_BLOCK)]
        first[name].append(took[0])
        others[name] += took[1:]
        before = name
    return {
        name: {
            'first_ms': statistics.fmean(first[name]),
            'other_ms': statistics.fmean(others[name]),
            'switches': len(first[name]),
        }
        for name in paths
        if first[name]
    }


def print_outcomes(title: str, rows: Mapping[str, Outcome]) -> None:
    """One table."""
    show(
        title,
        ' | AP | violations % | unavoidable % | bound missed % | AP in time | us a frame | longest late',
        [(name, *asdict(outcome).values()) for name, outcome in rows.items()],
    )


def tables(run: Run, recording: Recording) -> dict:
    """Tables 1, 2, 4 and 5, printed; and all figures."""
    args = run.args
    threshold_ms = chosen_threshold(recording)
    counts = {'threshold_ms': threshold_ms, 'seeds': args.seeds, 'frames': args.frames}

    def outcomes_of(
        models: Sequence[str],
        methods: Sequence[str] = tuple(METHODS),
        threshold_ms: float = threshold_ms,
    ) -> dict[str, Outcome]:
        models = [name for name in recording.models if name in models]
        chosen = {name: METHODS[name] for name in methods}
        fixed = {}
        if len(methods) > 2:
            fixed = {f'always {model}': lambda terms, model=model: Fixed(model) for model in models}
        terms = {**counts, 'threshold_ms': threshold_ms}
        found = compare(recording.only(models), {**fixed, **chosen}, **terms)
        return {name: mean_outcome(outcomes) for name, outcomes in found.items()}

    sets = pruned_sets(recording, threshold_ms)
    trained = tuple(name for name in recording.models if name in recording.facts)
    print(
        f'threshold {threshold_ms} ms; {args.seeds} seeds of {args.frames} frames; {len(recording.levels)} levels of '
        f'{recording.delays_ms.shape[1]} rounds; {recording.facts["device"]}'
    )
    first = outcomes_of(sets['contention'])
    print_outcomes(f'Table 1: methods on {len(sets["contention"])} models', first)
    second = {
        f'{stage}, {method}': outcome
        for stage, models in sets.items()
        if len(models) > 1
        for method, outcome in outcomes_of(models, (PAPERS, OURS)).items()
    }
    print_outcomes('Table 2: sets of models after each pruning', second)
    final = recording.only([name for name in recording.models if name in sets['contention']])
    curves = {}
    ratios = {}
    papers = compare(final, {PAPERS: METHODS[PAPERS]}, **counts)[PAPERS]
    for name, settings in CURVES.items():
        makers = {str(setting): make for setting, make in settings.items()}
        found = compare(final, makers, **counts)
        curves[name] = {setting: mean_outcome(outcomes) for setting, outcomes in found.items()}
        ratios[name] = dict(
            zip(('ratio', 'low', 'high'), violations_ratio(list(found.values()), papers))
        )
    for name, points in curves.items():
        of_settings = {f'{name}, {setting}': outcome for setting, outcome in points.items()}
        print_outcomes('violations % at AP as the setting moves', of_settings)
        words = '{ratio:.2f} ({low:.2f} to {high:.2f})'.format(**ratios[name])
        print(f"{name}: {words} of the violations of the paper's method at its AP")
    kinds = {}
    for number, kind, models in (
        (4, 'early-exit-like', EARLY_EXIT_LIKE),
        (5, 'slimmable-like', SLIMMABLE_LIKE),
    ):
        # As fair as the paper's: a threshold that the smallest of the kind can keep.
        of_kind_ms = chosen_threshold(
            recording.only([name for name in recording.models if name in models]), IN_TIME
        )
        individual = trained or pruned_sets(recording, of_kind_ms)['contention']
        found = {
            f'{name}, {method}': outcome
            for name, compared in ((kind, models), ('individual', individual))
            for method, outcome in outcomes_of(compared, (PAPERS, OURS), of_kind_ms).items()
        }
        print_outcomes(
            f'Table {number}: {kind} against individual models within {of_kind_ms:.0f} ms',
            found,
        )
        about = {'threshold_ms': of_kind_ms, 'individual': list(individual)}
        kinds[f'table_{number}'] = about | found
    judge(run, first, ratios)
    return {
        **counts,
        'sets': sets,
        'individually_trained': bool(trained),
        'table_1': first,
        'table_2': second,
        'curves': curves,
        'of_the_papers_violations_at_its_ap': ratios,
        **kinds,
    }


def judge(
    run: Run, outcomes: Mapping[str, Outcome], ratios: Mapping[str, Mapping[str, float]]
) -> None:
    """Holds the methods against the goals.

    The target miss probability and the cost of a late frame trade violations for AP, as nothing does in the paper's
    method: compared at equal AP. No method can be expected to be late less often than one that knows the level of every
    frame, which is among the curves.
    """
    ours = [ratios[name]['ratio'] for name in OUR_CURVES]
    least = np.nanmin([math.inf, *ours])
    run.goal("violations over the paper's at no lower AP", float(least), most=GOAL_RATIO)
    avoidable = max(outcomes[name].violations - outcomes[name].unavoidable for name in BOUNDED)
    limit = 100.0 * ALPHA + GOAL_MARGIN
    run.goal('avoidable violations of bounded predictors, %', avoidable, most=limit)
    slowest = max(one.decision_us for name, one in outcomes.items() if name.startswith('ours'))
    run.goal('us a frame', slowest, most=GOAL_US)


def main(run: Run) -> None:
    args = run.args
    if run.quick:
        args.seeds = 2
        args.frames = 600
    recording = Recording.load(args.recording)
    found = tables(run, recording)
    switching = switching_cost(SWITCHED)
    for name, figures in switching.items():
        print(
            f'{name}: {figures["first_ms"]:.2f} ms right after a switch, {figures["other_ms"]:.2f} ms otherwise, '
            f'{figures["switches"]} switches'
        )
    run.write(
        recorded=recording.facts,
        levels=list(recording.levels),
        models=dict(zip(recording.models, recording.qualities)),
        idle_ms=recording.idle_ms,
        **found,
        switching=switching,
    )


if __name__ == '__main__':
    run_script(
        main,
        {
            '--recording': option(RECORDING, 'delays that are replayed'),
            '--seeds': option(10),
            '--frames': option(3000),
        },
        quick='2 seeds of 600 frames',
        threads=1,
    )
