"""Find out which levels of contention this machine has, and which artificial units reproduce each.

    python research/contention_grading/grade.py --help

Runs one path of a network beside whatever the machine runs: nodes that you have started, a COMMAND that is given after
--, or units that follow a schedule. Then, beside units alone, more and more of them. Writes the levels, for the
contention monitor, and a picture of them. Units and command end with this program, however it ends.
"""

from __future__ import annotations

import argparse
import math
import random
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from contention_schedule import SHAPES, Schedule, play, read_schedule
from impact import (
    measure_unit_delays,
    most_units,
    record_delays,
)
from levels import (
    ContentionGrading,
    UnitDelay,
    default_levels_path,
    grade_levels,
    match_units,
)

from deadline_perception.core.device import read_device_facts, use_threads
from deadline_perception.core.share_folder import share_folder
from deadline_perception.networks.model_reference import (
    find_weights,
    load_network,
)
from deadline_perception.runtime.loading import warm_up
from deadline_perception.system.kernel_thread import parse_cores
from deadline_perception.system.priority import MODES, Role, ThreadPriority, inference_thread
from deadline_perception.timing.contention.load import (
    UNIT_SHARE,
    LoadError,
    check_program,
    has_ended,
    start_tied,
    stop_tied,
    units_text,
)
from deadline_perception.timing.profile import time_frame
from deadline_perception.tools.command_line import run_alone
from deadline_perception.tools.profile import read_images, restart_with_environment, say_if_busy
from deadline_perception.tools.support.file_arguments import (
    DEFAULT_WEIGHTS,
    add_device_arguments,
    check_file,
    check_numbers,
)
from deadline_perception.tools.support.terminal import print_table, progress_bar, say

_NEARLY_ALL = 0.98  # of the delays: units need not reproduce single outliers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        'beside',
        nargs='*',
        metavar='COMMAND',
        help='program to run beside, after --; it is ended after the measurement',
    )
    parser.add_argument(
        '--contention',
        metavar='SHAPE_OR_FILE',
        help=f'units to run beside: {", ".join(SHAPES)}, or a '
        f'schedule (JSON); instead of a command',
    )
    parser.add_argument('--seed', type=int, default=0, help='of the schedule')
    parser.add_argument(
        '--seconds',
        type=float,
        default=60.0,
        help='how long to record; long enough to meet all levels',
    )
    parser.add_argument(
        '--model',
        '--weights',
        dest='weights',
        type=Path,
        default=DEFAULT_WEIGHTS,
        help='sample network',
    )
    parser.add_argument(
        '--path', default='', help='execution path that is run; the largest by default'
    )
    add_device_arguments(parser)
    parser.add_argument(
        '--priority',
        choices=MODES,
        default='auto',
        help="as the detector's parameter of that name: a frame that is raised hardly feels busy cores",
    )
    parser.add_argument(
        '--cores',
        default='',
        help="as the detector's parameter of that name, such as 0,2-3; units "
        'keep to the same ones, so that each of them slows the network '
        'down',
    )
    parser.add_argument(
        '--most-units', type=int, help='units of each kind at most; by default 6 per core'
    )
    parser.add_argument(
        '--unit-seconds', type=float, default=2.0, help='how long to measure each number of units'
    )
    parser.add_argument(
        '--reuse',
        type=Path,
        metavar='FILE',
        help='take the delays beside units from an earlier file, for a machine whose programs cannot '
        'be stopped',
    )
    parser.add_argument(
        '--source',
        help='images to run on: a folder, annotation, video or bag file; a rendered drive '
        'otherwise',
    )
    parser.add_argument(
        '--out', type=Path, help="file to write; by default in the folder of the user's own levels"
    )


def run(args: argparse.Namespace) -> int:
    """Records, measures, grades and writes; returns the exit status."""
    check_numbers(args, seconds=(0.5, 86400.0), most_units=(1, 256), unit_seconds=(0.1, 600.0))
    most = most_units() if args.most_units is None else args.most_units
    if args.beside and args.contention:
        raise ValueError(
            f'--contention is {args.contention} and the command {shlex.join(args.beside)!r}, expected one'
        )
    if args.beside:
        check_program(args.beside)
    parse_cores(args.cores)
    units = {'core': most, 'memory': most}
    schedule = (
        read_schedule(args.contention, args.seed, args.seconds, units) if args.contention else None
    )
    if args.out is not None:
        check_file('--out', args.out)
    earlier = ContentionGrading.load(args.reuse) if args.reuse else None
    restart_with_environment(args.threads)
    with inference_thread(
        args.priority, cores=parse_cores(args.cores), lock_memory=args.device == 'cpu'
    ) as priority:
        return _grade(args, most, schedule, earlier, priority)


def _grade(
    args: argparse.Namespace,
    most: int,
    schedule: Schedule | None,
    earlier: ContentionGrading | None,
    priority: ThreadPriority,
) -> int:
    use_threads(args.threads)
    facts = read_device_facts(args.device)
    network, _ = load_network(
        str(find_weights(args.weights)), args.device, share_folder() / 'models'
    )
    path = network.path_space.parse(args.path) if args.path else network.path_space.largest
    if earlier is not None and (earlier.network_hash, earlier.path) != (
        network.network_hash,
        str(path),
    ):
        raise ValueError(
            f'--reuse is {args.reuse}, of the network {earlier.config_name} on the path {earlier.path}, '
            f'expected {network.config_name} on {path}'
        )
    images = read_images(args.source)
    warm_up(network, images[0].shape[:2])
    run_frame = frame_runner(network, images, path, priority)
    run_frame()  # starts the threads that are raised with this one
    priority.raise_thread(Role.INFERENCE)
    say('; '.join((f'running {path} with {priority.in_force}', *priority.refusals)))
    delays_ms, words = _record(args, schedule, run_frame)
    levels = grade_levels(delays_ms)  # too few are told before minutes pass beside units
    longest_ms = sorted(delays_ms)[int(_NEARLY_ALL * (len(delays_ms) - 1))]
    unit_delays = (
        earlier.unit_delays
        if earlier
        else _measure_units(args, most, facts.kind, longest_ms, run_frame)
    )
    grading = ContentionGrading(
        network.config_name,
        network.network_hash,
        str(path),
        str(facts),
        datetime.now(timezone.utc).isoformat(timespec='seconds'),
        words,
        match_units(levels, unit_delays),
        unit_delays,
        tuple(delays_ms),
    )
    file = args.out or default_levels_path(network.config_name, facts)
    grading.save(file)
    plot = file.with_suffix('.png')
    from contention_plot import draw_grading

    draw_grading(grading, plot)
    _print_levels(grading)
    print(f'wrote {file} and {plot}')
    return 0


def frame_runner(network, images: list, path, priority: ThreadPriority) -> Callable[[], float]:
    """What runs one frame of a path and gives its delay in ms."""
    rng = random.Random(0)

    def run_frame() -> float:
        took_ms = time_frame(network, rng.choice(images), path)[0]
        priority.between_frames()
        return took_ms

    return run_frame


def _record(
    args: argparse.Namespace, schedule: Schedule | None, run_frame: Callable[[], float]
) -> tuple[list[float], str]:
    """Delays beside what is to be graded, and that in words."""
    with progress_bar(f'recording for {args.seconds:.0f} s', args.seconds, 'passed') as update:
        record = partial(
            record_delays,
            run_frame,
            args.seconds,
            progress=lambda frames, passed_s: update(completed=passed_s),
        )
        if schedule is not None:
            faults: list[LoadError] = []
            with play(schedule, repeats=True, failed=faults.append, cores=parse_cores(args.cores)):
                delays_ms = record(goes_on=lambda: not faults)
            if faults:
                raise faults[0]
            return delays_ms, f'units ({args.contention})'
        if not args.beside:
            return record(), 'what the machine runs'
        with _program(args.beside) as program:
            delays_ms = record(goes_on=lambda: not has_ended(program))
            if has_ended(program) and program.wait() != 0:
                raise LoadError(
                    f'command {shlex.join(args.beside)!r} ended with status {program.returncode} after '
                    f'{len(delays_ms)} frames, expected it to run, or to end with 0'
                )
    return delays_ms, Path(args.beside[0]).name


@contextmanager
def _program(command: list[str]) -> Iterator[subprocess.Popen]:
    """Meanwhile a program runs, which is asked to end, and killed if it does not; so are the ones that it started."""
    program = start_tied(command, ending=signal.SIGTERM, stdout=subprocess.DEVNULL)
    try:
        yield program
    finally:
        stop_tied(program, asks=True)


def _measure_units(
    args: argparse.Namespace,
    most: int,
    device_kind: str,
    longest_ms: float,
    run_frame: Callable[[], float],
) -> tuple[UnitDelay, ...]:
    if not (args.beside or args.contention):
        say_if_busy(
            'levels measured beside them come out too low. Stop them once to measure units, and name that file '
            'with --reuse later.'
        )
    kinds = ('core', 'memory', *(('gpu',) if device_kind == 'cuda' else ()))
    with progress_bar('beside units', None, 'passed') as update:
        return measure_unit_delays(
            run_frame,
            kinds,
            most,
            args.unit_seconds,
            up_to_ms=longest_ms,
            cores=parse_cores(args.cores),
            progress=lambda kind, count, of: update(
                description=f'beside {count} of {of} {kind} units'
            ),
        )


def _print_levels(grading: ContentionGrading) -> None:
    rows = []
    for number, level in enumerate(grading.levels):
        beside = '-' if math.isnan(level.units_delay_ms) else f'{level.units_delay_ms:.1f}'
        rows.append(
            (
                str(number),
                f'{level.delay_ms:.1f}',
                f'{100 * level.share:.0f} %',
                f'{level.slowdown:.2f}',
                units_text(level.units),
                beside,
            )
        )
    print_table(
        f'{len(grading.levels)} level{"s" * (len(grading.levels) > 1)} of contention beside {grading.beside}; '
        f'idle {grading.idle_ms:.1f} ms',
        (
            'level',
            'delay ms',
            'share',
            'slowdown',
            f'units of {UNIT_SHARE:g} core',
            'their delay ms',
        ),
        rows,
    )


if __name__ == '__main__':
    sys.exit(run_alone(sys.modules[__name__]))
