"""Every benchmark one after the other, each within its time: the papers' tables and figures, on this machine.

    make benchmarks                                     # or: python benchmarks/all.py
    make benchmarks ARGS="--list"                       # what there is, how long it takes, and what it shows
    make benchmarks ARGS="--only deadlines replay"
    make gpu                                            # or --gpu: what needs a GPU, into out/gpu

What there is, and in which order, are the tables of README.md beside this script. Before each one the machine must be
idle: while its processors are busy by more than a tenth, it waits, up to five minutes, and then goes on with a
remark. A benchmark that takes twice its time is ended. What each prints goes into out/benchmarks/NAME.log; results go to
`results/` beside the script. Ends with status 1 if one failed. Needs prepared segments (`profile --all-paths`), and some
need ../shared/data.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path
from typing import NamedTuple

import psutil
from parts.harness import ROOT, run_logged, show

from deadline_perception.core.device import read_device_facts
from deadline_perception.tools.command_line import exit_status

MOST_BUSY, LOOK_S, PATIENCE_S = 0.1, 3.0, 300.0  # share of processors, over a time; longest wait
OVERTIME = 2.0
_ROW = re.compile(r'^\| \[`\w+\.py`\]\(\.\./(\S+)\) \| .+? \| (.+) \| ([\d.]+) \|$', re.MULTILINE)
_GPU_ROW = re.compile(r'^\| (\w+) \| `(.+)` \| (.+) \| ([\d.]+) \|$', re.MULTILINE)


class Benchmark(NamedTuple):
    """One script below the root of the source tree, or what else Python runs there, and its minutes on two cores."""

    script: str
    command: str
    shows: str
    minutes: float

    @property
    def has_quick(self) -> bool:
        """The script has a quick way."""
        return bool(re.search(r'\bquick=f?\'', (ROOT / self.command).read_text(encoding='utf-8')))


def benchmarks(on_gpu: bool = False) -> list[Benchmark]:
    """Those of a table in README.md, in its order."""
    text = (ROOT / 'benchmarks' / 'README.md').read_text(encoding='utf-8')
    rows = _GPU_ROW.findall(text) if on_gpu else [(Path(r[0]).stem, *r) for r in _ROW.findall(text)]
    return [Benchmark(*words, float(minutes)) for *words, minutes in rows]


def run(benchmark: Benchmark, arguments: list[str], folder: Path) -> str:
    """Waits until the machine is idle, runs one, and says what became of it."""
    until = time.monotonic() + PATIENCE_S
    while (share := psutil.cpu_percent(LOOK_S) / 100.0) > MOST_BUSY and time.monotonic() < until:
        pass
    remark = f', although {share:.0%} of the processors are busy' if share > MOST_BUSY else ''
    print(f'{benchmark.script}{remark}', flush=True)
    status, took_s = run_logged(
        [sys.executable, *benchmark.command.split(), *arguments],
        folder / f'{benchmark.script}.log',
        60.0 * OVERTIME * benchmark.minutes,
        cwd=ROOT,
    )
    said = 'done' if status == 0 else f'failed with {status}'
    said = f'ended after {OVERTIME:g} times its time' if status is None else said
    print(f'  {said}, {took_s / 60.0:.1f} of {benchmark.minutes:g} minutes', flush=True)
    return said


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--only', nargs='+', metavar='NAME')
    parser.add_argument('--quick', action='store_true', help='those that have it: that they work')
    parser.add_argument('--gpu', action='store_true', help='what needs a GPU')
    parser.add_argument('--list', action='store_true', help='only say what there is')
    args = parser.parse_args()
    every = benchmarks(args.gpu)
    names = [benchmark.script for benchmark in every]
    if unknown := {*(args.only or ())} - {*names}:
        raise ValueError(f'--only is {", ".join(unknown)}, expected some of {", ".join(names)}')
    chosen = [one for one in every if one.script in (args.only or names)]
    if args.quick:
        chosen = [one for one in chosen if not args.gpu and one.has_quick]
    rows = [(one.script, one.shows, f'{one.minutes:g}') for one in chosen]
    show('benchmarks', ('benchmark', 'shows', 'minutes'), rows, words=2)
    if args.list:
        return 0
    if args.gpu:
        print(read_device_facts('cuda'))  # or says that there is none
    folder = ROOT / 'out' / ('gpu' if args.gpu else 'benchmarks')
    folder.mkdir(parents=True, exist_ok=True)
    arguments = ['--quick'] if args.quick else []
    failed = [one.script for one in chosen if run(one, arguments, folder) != 'done']
    if failed:
        print(f'failed: {", ".join(failed)}')
    return int(bool(failed))


if __name__ == '__main__':
    sys.exit(exit_status(Path(__file__).name, main))
