"""Every benchmark one after the other, each within its time: the papers' tables and figures, on this machine.

    make benchmarks                                     # or: python benchmarks/all.py
    make benchmarks ARGS="--list"                       # what there is, how long it takes, and what it shows
    make benchmarks ARGS="--only deadlines engines"

Before each one the machine must be idle: while its processors are busy by more than a tenth, it waits, up to --patience
minutes, and then goes on with a remark. A benchmark that takes twice its time is ended. What each prints goes into
out/benchmarks/NAME.log; results go to `results/` beside the script. Ends with a table, and status 1
if one failed. Needs prepared segments (`profile --all-paths`), and some need ../shared/data.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from parts.harness import ROOT, run_logged, show

from deadline_perception.core.device import process_environment, read_device_facts, use_threads
from deadline_perception.engines.choice import choose_engine, is_installed
from deadline_perception.networks.model_reference import find_weights
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.timing.profile import default_profile_path
from deadline_perception.tools.command_line import exit_status
from deadline_perception.tools.support.file_arguments import DEFAULT_WEIGHTS

LOGS = ROOT / 'out' / 'benchmarks'
DASHCAMS = '../shared/data/bdd100k/val.json'
MOST_BUSY, LOOK_S = 0.1, 3.0  # share of all processors, over this time
OVERTIME = 2.0
QUICK = '--quick'
MULTI_PATH, GRADING, JETSON = 'multi-path paper', 'contention paper', 'layer-latency paper'
SUBFLOW, THESIS = 'SubFlow paper', 'nested-network thesis'


@dataclass(frozen=True)
class Benchmark:
    """One script with its arguments.

    Attributes:
        script: file in this folder or in one of `research/`, without its suffix.
        minutes: that it takes on two cores.
        shows: in a few words.
        source: table or figure of a paper that it reproduces, empty where it is the project's own.
        arguments: of the script.
        quick: it has `--quick`.
        profiled: it takes times from a profile of the shipped network: this machine's own, where there is one.
    """

    script: str
    minutes: float
    shows: str
    source: str = ''
    arguments: tuple[str, ...] = ()
    quick: bool = True
    profiled: bool = False

    @property
    def file(self) -> str:
        """The script, below the root of the source tree."""
        (found,) = (
            file
            for folder in ('benchmarks', 'research/*')
            for file in ROOT.glob(f'{folder}/{self.script}.py')
        )
        return found.relative_to(ROOT).as_posix()


BENCHMARKS = (
    Benchmark(
        'demo_drive',
        9,
        'deadlines of the running nodes, alone and beside two busy programs',
        arguments=('--runs', '5', '--loads', '0', '2'),
        quick=False,
    ),
    Benchmark(
        'deadlines',
        21,
        'misses and AP of every policy, alone and beside co-runners',
        f'{MULTI_PATH}, Figs. 8 and 9',
        profiled=True,
    ),
    Benchmark(
        'own_models', 12, 'public detectors as adopt reads them: conventions found, accuracy, 8 bit'
    ),
    Benchmark(
        'street_accuracy', 30, 'accuracy on real streets over time, ours beside public detectors'
    ),
    Benchmark(
        'engines',
        11,
        '8 bit against float on 60 paths: time and accuracy',
        arguments=('--paths', '60', '--rounds', '6', '--data', DASHCAMS, '--limit', '100'),
    ),
    Benchmark('path_bounds', 9, 'coverage and tightness of the bounds of paths'),
    Benchmark('first_pass', 20, 'YOLOX-Nano as the first look, by kind of image'),
    Benchmark('several_cameras', 4, 'memory and time of a further camera'),
    Benchmark(
        'replay',
        40,
        'our decision, each of its parts off, and its rivals on recorded answers and times',
    ),
    Benchmark('time_model', 3, 'what each part of the time model earns, over recorded frames'),
    Benchmark(
        'operator_times',
        4,
        'time of each operator at each setting',
        f'{MULTI_PATH}, scales of Table V',
    ),
    Benchmark(
        'accuracy_by_deadline', 5, 'AP against the relative deadline', f'{MULTI_PATH}, Fig. 9'
    ),
    Benchmark(
        'training_strategies',
        11,
        'AP after training by each strategy at equal compute',
        f'{MULTI_PATH}, Table IV',
        ('--seconds-per-run', '40', '--seeds', '2', '--strategies', 'sandwich', 'ns-rs', 'rs-rs'),
    ),
    Benchmark(
        'layer_wcet',
        5,
        'worst-case times of layers',
        f'{MULTI_PATH}, Table VI and Fig. 10',
        quick=False,
    ),
    Benchmark(
        'wcet_bounds',
        12,
        'the analytical model of the engine in use: predictions, bounds, AP',
        MULTI_PATH,
    ),
    Benchmark('step_model', 6, 'prediction of layer times', f'{JETSON}, Figs. 3.2 to 3.5'),
    Benchmark(
        'contention_grading',
        6,
        'levels of contention, their units, pruned paths',
        f'{GRADING}, Figs. 7 to 12',
        quick=False,
    ),
    Benchmark(
        'model_selection',
        8,
        'methods that choose a model under contention',
        f'{GRADING}, Tables 1 to 5',
    ),
    Benchmark('monitor_cost', 1, 'what the contention monitor costs', quick=False),
    Benchmark(
        'nested_quality',
        3,
        "time and accuracy of the classifier's levels",
        f'{THESIS}, Table 1, Figs. 4 to 6',
    ),
    Benchmark(
        'nested_scheduling',
        4,
        'selections of levels and periods against the optimum',
        f'{THESIS}, Fig. 8',
    ),
    Benchmark(
        'schedulable_sets', 1, 'sets of networks that fit, run whole and preempted between segments'
    ),
    Benchmark('nested_execution', 11, 'several networks under one scheduler and without it'),
    Benchmark(
        'importance', 8, 'rankings of neurons', arguments=('--seeds', '2', '--iterations', '150')
    ),
    Benchmark(
        'subflow_networks',
        8,
        'time and accuracy of sub-networks over utilisation',
        f'{SUBFLOW}, Figs. 6 and 8',
    ),
    Benchmark(
        'subflow_utility',
        8,
        'usefulness over deadlines, budget and time per speed',
        f'{SUBFLOW}, Figs. 7 and 12, Table IV',
    ),
    Benchmark(
        'elastic_network',
        16,
        'a network of torchvision made elastic by one command, and tuned by another',
    ),
    Benchmark('labelling', 4, 'boxes that `label` adds, against labels that were hidden from it'),
    Benchmark(
        'training_gains',
        120,
        'what sources, augmentations and labels of teachers gain, and kinds never seen',
    ),
    Benchmark('tracking', 4, "HOTA of the tracks' ids beside the best of the package trackers"),
    Benchmark('decision_cost', 3, 'time of a decision', profiled=True),
    Benchmark('image_trace', 0.2, 'calls that one image takes', quick=True),
    Benchmark(
        'new_device', 3, "bounds on a device that nobody measured: another one's times, scaled"
    ),
    Benchmark('start_up', 4, 'time until the first answer, memory, the first frames', quick=False),
    Benchmark('node_overhead', 4, "a frame's time outside the network", quick=False),
    Benchmark('image_transport', 3, 'images that reach another process', quick=False),
    Benchmark(
        'observer', 11, 'published latencies against what a process outside stamps, under stress'
    ),
    Benchmark(
        'soak',
        12,
        'memory, threads and descriptors of all nodes',
        arguments=('--minutes', '10'),
        quick=False,
    ),
    Benchmark('faults', 45, 'every fault against the running nodes', quick=False),
    Benchmark('hostile', 5, 'files that were made to harm their reader'),
    Benchmark('mutants', 25, 'faults put into timing, decision and pipeline that the tests find'),
    Benchmark('failing_calls', 10, 'every system call of every write path that fails'),
)


def ticks() -> tuple[int, int]:
    """Busy and all ticks of the processors together, since the system started."""
    values = [int(word) for word in Path('/proc/stat').read_text().splitlines()[0].split()[1:9]]
    return sum(values) - values[3] - values[4], sum(values)


def busy_share(seconds: float) -> float:
    """Share of all processors that is busy, over so many seconds."""
    busy, every = ticks()
    time.sleep(seconds)
    busy_later, every_later = ticks()
    return (busy_later - busy) / max(1, every_later - every)


def wait_until_idle(patience_minutes: float) -> float:
    """Blocks while the machine is busy, not longer than that; the last share."""
    until = time.monotonic() + 60.0 * patience_minutes
    while (share := busy_share(LOOK_S)) > MOST_BUSY and time.monotonic() < until:
        pass
    return share


def run(benchmark: Benchmark, arguments: list[str], log: Path) -> tuple[str, float]:
    """Runs one; what became of it, and its minutes."""
    status, took_s = run_logged(
        [sys.executable, benchmark.file, *arguments],
        log,
        60.0 * OVERTIME * benchmark.minutes,
        cwd=ROOT,
    )
    if status is None:
        return f'ended after {OVERTIME:g} times its time', took_s / 60.0
    return 'done' if status == 0 else f'failed with {status}', took_s / 60.0


def show_list(benchmarks: list[Benchmark], as_markdown: bool) -> None:
    """What there is, as a table for the terminal or for a document."""
    rows = [
        (benchmark.file, benchmark.source or '-', benchmark.shows, f'{benchmark.minutes:g}')
        for benchmark in benchmarks
    ]
    if as_markdown:
        print('| script and result | of | shows | minutes |\n| --- | --- | --- | --- |')
        for file, source, shows, minutes in rows:
            print(f'| [`{Path(file).name}`](../{file}) | {source} | {shows} | {minutes} |')
        return
    show('benchmarks', ('benchmark', 'of', 'shows', 'minutes'), rows, words=3)


def check_prepared() -> Path:
    """Makes sure that the shipped network's segments are prepared for one thread of this CPU; where its profile lies.

    Raises:
        StoreError: they are not, with the command to run.
    """
    use_threads(1)
    weights = find_weights(DEFAULT_WEIGHTS)
    facts = read_device_facts('cpu', environment={**os.environ, **process_environment(1)})
    network = load_detector(weights)
    if is_installed():
        choose_engine('openvino', network, facts, str(weights))
    else:
        print('OpenVINO is not installed: the network runs in eager PyTorch', flush=True)
    return default_profile_path(network.config_name, facts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [benchmark.script for benchmark in BENCHMARKS]
    parser.add_argument(
        '--only',
        nargs='+',
        choices=names,
        default=names,
        metavar='NAME',
        help='in the order of the list',
    )
    parser.add_argument('--skip', nargs='+', choices=names, default=[], metavar='NAME')
    parser.add_argument(
        '--patience',
        type=float,
        default=5.0,
        help='minutes to wait for an idle machine, before each',
    )
    parser.add_argument(
        QUICK,
        action='store_true',
        help='only those that have --quick, with it: shows that they work',
    )
    parser.add_argument('--list', action='store_true', help='only say what there is')
    parser.add_argument(
        '--markdown', action='store_true', help='the same as a table for a document'
    )
    args = parser.parse_args()
    chosen = [
        benchmark
        for benchmark in BENCHMARKS
        if benchmark.script in args.only
        and benchmark.script not in args.skip
        and (benchmark.quick or not args.quick)
    ]
    if args.list or args.markdown:
        show_list(chosen, args.markdown)
        return
    profile = check_prepared()
    LOGS.mkdir(parents=True, exist_ok=True)
    total = sum(benchmark.minutes for benchmark in chosen)
    print(
        f'{len(chosen)} benchmarks, {"much less than " if args.quick else ""}{total:.0f} minutes on two cores; '
        f'logs in {LOGS.relative_to(ROOT)}',
        flush=True,
    )
    failed = []
    for number, benchmark in enumerate(chosen, 1):
        share = wait_until_idle(args.patience)
        remark = f', although {share:.0%} of the processors are busy' if share > MOST_BUSY else ''
        print(f'{number} of {len(chosen)}: {benchmark.script}{remark}', flush=True)
        arguments = [QUICK] if args.quick else list(benchmark.arguments)
        if benchmark.profiled and profile.is_file():
            arguments += ['--profile', str(profile)]
        said, minutes = run(benchmark, arguments, LOGS / f'{benchmark.script}.log')
        print(f'  {said}, {minutes:.1f} of {benchmark.minutes:g} minutes', flush=True)
        if said != 'done':
            failed.append(benchmark.script)
    if failed:
        print(f'failed: {", ".join(failed)}')
        sys.exit(1)


if __name__ == '__main__':
    sys.exit(exit_status(Path(__file__).name, main))
