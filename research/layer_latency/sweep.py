"""Measure how the time of a convolution changes with its channels, filters and input, and predict it from four points.

    python research/layer_latency/sweep.py --help

Runs the sweeps of the Jetson paper (Table 3.1; hours on a CPU, `--quick` some minutes), finds the steps in which this
device works, and writes what it measured (sweep.json) and a picture of measured against predicted times (sweep.png). A
run that was stopped goes on where it was when it is started again with the same folder.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from layer_sweep import (
    LayerTimer,
    Repetition,
    measure_layers,
    quick_sweeps,
    table_sweeps,
)
from measured_layers import MeasuredLayers

from deadline_perception.core.device import read_device_facts, use_threads
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.tools.command_line import run_alone
from deadline_perception.tools.profile import restart_with_environment
from deadline_perception.tools.support.file_arguments import (
    add_device_arguments,
    check_folder,
    check_numbers,
)
from deadline_perception.tools.support.terminal import print_table, progress_bar, say

_SAVE_MS = 20_000.0
_DRAW_MS = 500.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    add_device_arguments(parser, 1)
    parser.add_argument(
        '--quick', action='store_true', help='a fourth of the ranges, on small images'
    )
    parser.add_argument(
        '--minutes',
        type=float,
        help='longest time to measure; without it, until every layer is done',
    )
    parser.add_argument(
        '--out', type=Path, default=Path('out/sweep'), help='folder to write to, and to go on from'
    )


def run(args: argparse.Namespace) -> int:
    """Measures, writes and predicts; returns the exit status."""
    check_numbers(args, minutes=(0.001, 10_000.0))
    check_folder('--out', args.out)
    restart_with_environment(args.threads)
    timer = LayerTimer(args.device)
    facts = read_device_facts(args.device)
    sweeps = quick_sweeps() if args.quick else table_sweeps()
    file = args.out / 'sweep.json'
    measured = MeasuredLayers.resume(
        file, facts, (shape for sweep in sweeps for shape in sweep.shapes)
    )
    known = sum(map(bool, measured.samples_ms.values()))
    if known:
        print(
            f'going on from {file}: {known} of {len(measured.samples_ms)} layers were measured before'
        )
    use_threads(args.threads)
    done = measure_to_file(
        measured,
        timer,
        Repetition(),
        file,
        float('inf') if args.minutes is None else args.minutes * 60_000.0,
    )
    print(f'wrote {file}: {done} of {len(measured.samples_ms)} layers finished')
    return _predict(sweeps, measured, args.out / 'sweep.png')


def measure_to_file(
    measured: MeasuredLayers, timer: LayerTimer, repetition: Repetition, file: Path, limit_ms: float
) -> int:
    """Measures with a progress bar until all is done or the time is over; saves now and then, and however it ends.

    Returns:
        How many layers were run often enough.
    """
    total = len(measured.samples_ms)
    done = sum(repetition.enough(samples) for samples in measured.samples_ms.values())
    started = saved = drawn = now_ms()
    with progress_bar(
        'measuring',
        total,
        'count',
        'layers, {task.fields[visits]} visits,',
        'passed',
        redraws=False,
        visits=0,
    ) as update:
        update(completed=done)
        try:
            for visits, done in enumerate(
                measure_layers(measured.samples_ms, timer, repetition, random.Random(0)), 1
            ):
                now = now_ms()
                if now - drawn > _DRAW_MS:
                    drawn = now
                    update(completed=done, visits=visits)
                if now - saved > _SAVE_MS:
                    measured.save(file)
                    saved = now_ms()
                if now - started > limit_ms:
                    break
        finally:
            measured.save(file)
    return done


def _predict(sweeps: tuple, measured: MeasuredLayers, picture: Path) -> int:
    from sweep_result import (
        LEAST_MEASURED,
        draw_sweeps,
        evaluate_sweep,
    )

    results = []
    for sweep in sweeps:
        reached = sum(bool(measured.samples_ms[shape]) for shape in sweep.shapes)
        if reached < LEAST_MEASURED:
            say(
                f'sweep of {sweep.name}: {reached} values measured, too few to predict the others; give it more time'
            )
        else:
            results.append(evaluate_sweep(sweep, measured))
    if not results:
        return 1
    rows = [
        (
            result.sweep.name,
            str(len(result.values)),
            str(result.model),
            f'{result.model.error:.1%}',
            f'{result.few_error:.1%}',
        )
        for result in results
    ]
    print_table(
        f'mean absolute percentage error on {measured.facts}',
        ('sweep', 'values', 'found', 'fitted to all', 'from four'),
        rows,
        left=('sweep', 'found'),
    )
    draw_sweeps(results, picture, str(measured.facts))
    print(f'wrote {picture}')
    return 0


if __name__ == '__main__':
    sys.exit(run_alone(sys.modules[__name__]))
