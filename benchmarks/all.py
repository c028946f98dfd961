"""Every benchmark one after the other, each within its time: the papers' tables and figures, on this machine.

    make benchmarks                                     # or: python benchmarks/all.py
    make benchmarks ARGS="--list"                       # what there is, how long it takes, and what it shows
    make benchmarks ARGS="--only deadlines replay"

What there is, and in which order, is the table of README.md beside this script. Before each one the machine must be
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
from dataclasses import dataclass
from pathlib import Path

import psutil
from parts.harness import ROOT, run_logged, show

from deadline_perception.tools.command_line import exit_status

LOGS = ROOT / 'out' / 'benchmarks'
MOST_BUSY, LOOK_S, PATIENCE_S = 0.1, 3.0, 300.0  # share of processors, over a time; longest wait
OVERTIME = 2.0
QUICK = '--quick'
DOCUMENT = ROOT / 'benchmarks' / 'README.md'
_ROW = re.compile(r'^\| \[`\w+\.py`\]\(\.\./(\S+)\) \| .+? \| (.+) \| ([\d.]+) \|$', re.MULTILINE)


@dataclass(frozen=True)
class Benchmark:
    """One script below the root of the source tree, run with its defaults, and its minutes on two cores."""

    file: str
    shows: str
    minutes: float

    @property
    def script(self) -> str:
        """Name of the script."""
        return Path(self.file).stem

    @property
    def has_quick(self) -> bool:
        """The script has a quick way."""
        return bool(re.search(r'\bquick=f?\'', (ROOT / self.file).read_text(encoding='utf-8')))


def benchmarks() -> list[Benchmark]:
    """Those of the table in README.md, in its order."""
    rows = _ROW.findall(DOCUMENT.read_text(encoding='utf-8'))
    return [Benchmark(file, shows, float(minutes)) for file, shows, minutes in rows]


def wait_until_idle() -> float:
    """Blocks while the machine is busy, not longer than `PATIENCE_S`; the last share."""
    until = time.monotonic() + PATIENCE_S
    while (share := psutil.cpu_percent(LOOK_S) / 100.0) > MOST_BUSY and time.monotonic() < until:
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = benchmarks()
    names = [benchmark.script for benchmark in every]
    parser.add_argument('--only', nargs='+', choices=names, default=names, metavar='NAME')
    parser.add_argument(QUICK, action='store_true', help='those that have it: that they work')
    parser.add_argument('--list', action='store_true', help='only say what there is')
    args = parser.parse_args()
    chosen = [
        benchmark
        for benchmark in every
        if benchmark.script in args.only and (benchmark.has_quick or not args.quick)
    ]
    if args.list:
        rows = [(one.file, one.shows, f'{one.minutes:g}') for one in chosen]
        show('benchmarks', ('benchmark', 'shows', 'minutes'), rows, words=2)
        return
    LOGS.mkdir(parents=True, exist_ok=True)
    total = sum(benchmark.minutes for benchmark in chosen)
    print(f'{len(chosen)} benchmarks, at most {total:.0f} minutes; logs in {LOGS}', flush=True)
    failed = []
    for number, benchmark in enumerate(chosen, 1):
        share = wait_until_idle()
        remark = f', although {share:.0%} of the processors are busy' if share > MOST_BUSY else ''
        print(f'{number} of {len(chosen)}: {benchmark.script}{remark}', flush=True)
        arguments = [QUICK] if args.quick else []
        said, minutes = run(benchmark, arguments, LOGS / f'{benchmark.script}.log')
        print(f'  {said}, {minutes:.1f} of {benchmark.minutes:g} minutes', flush=True)
        if said != 'done':
            failed.append(benchmark.script)
    if failed:
        print(f'failed: {", ".join(failed)}')
        sys.exit(1)


if __name__ == '__main__':
    sys.exit(exit_status(Path(__file__).name, main))
