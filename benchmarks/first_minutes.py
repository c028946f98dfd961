"""What a newcomer waits for: from a fresh clone to the report of the demo, and to passed tests, phase by phase.

    python benchmarks/first_minutes.py [--runs 3] [--phases setup pip demo test] [--repository .]

Clones the last commit into a temporary folder, with caches of its own, so that nothing that was prepared before is
found; what pip's and uv's own caches hold is used, and said. Each phase is the command that the README names, and its
output goes to out/first_minutes/. `pip` is none of them: the same packages once more, by pip where `setup` takes uv.
Takes some 20 minutes a run with the tests, 5 without; writes results/first_minutes.json.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from deadline_perception.latency.device import read_device_facts
from deadline_perception.latency.json_file import write_text_atomically
from deadline_perception.tools.command_line import exit_status

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).parent / 'results' / 'first_minutes.json'
LOGS = ROOT / 'out' / 'first_minutes'
PHASES = ('setup', 'pip', 'demo', 'test')
GOALS_S = {'demo': 180.0, 'test': 540.0}  # until the report, from the clone on; of the tests alone
_BY_PIP = ('set -e; python3 -m venv pip; '
           'exec pip/bin/python -m pip install -q --require-hashes --no-deps -r clone/.venv/lock.txt')
_SAID = {'demo': r'.*(?:in time|report).*', 'test': r'.*\d+ passed.*'}  # the line of a phase that says what it did


def run_once(repository: Path, phases: list[str], number: int) -> dict[str, dict]:
    """Time, status and last words of each phase in a clone of its own."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        environment = {name: value for name, value in os.environ.items() if name not in ('VIRTUAL_ENV', 'MAKEFLAGS')}
        environment['XDG_CACHE_HOME'] = str(place / 'cache')
        # Packages that were fetched before stay at hand: what is measured is this project and not the network.
        environment.setdefault('UV_CACHE_DIR', str(Path('~/.cache/uv').expanduser()))
        environment.setdefault('PIP_CACHE_DIR', str(Path('~/.cache/pip').expanduser()))
        for name, command in (('clone', ['git', 'clone', '--quiet', str(repository), 'clone']),
                              *((phase, ['bash', '-c', _BY_PIP] if phase == 'pip' else ['make', '-C', 'clone', phase])
                                for phase in phases)):
            log = LOGS / f'{number}_{name}.log'
            began_s = time.monotonic()
            with log.open('w') as output:
                status = subprocess.run(command, cwd=place, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                        stderr=subprocess.STDOUT, check=False).returncode
            said = re.findall(_SAID.get(name, r'$^'), log.read_text(errors='replace'))
            found[name] = {'took_s': round(time.monotonic() - began_s, 1), 'status': status,
                           'said': ascii(said[-1].strip())[1:-1][:300] if said else ''}
            if status:
                break
    return found


def until_report_s(run: dict[str, dict]) -> float:
    """From the beginning of the clone to the end of the demo."""
    return sum(phase['took_s'] for name, phase in run.items() if name not in ('pip', 'test'))


def show(runs: list[dict[str, dict]]) -> None:
    """Prints the median time of each phase, and how its last run ended."""
    table = Table(title='first minutes')
    for title in ('phase', 'runs', 'median s', 'status', 'said'):
        table.add_column(title)
    for name in runs[0]:
        mine = [run[name] for run in runs if name in run]
        table.add_row(name, str(len(mine)), f'{median(one["took_s"] for one in mine):.0f}',
                      ' '.join(str(one['status']) for one in mine), mine[-1]['said'])
    Console().print(table)


def run(args: argparse.Namespace) -> int:
    """Measures; returns 1 where a phase failed."""
    if args.runs < 1:
        raise ValueError(f'--runs is {args.runs}, expected at least 1')
    LOGS.mkdir(parents=True, exist_ok=True)
    phases = [phase for phase in PHASES if phase in args.phases]
    runs = [run_once(args.repository.absolute(), phases, number) for number in range(1, args.runs + 1)]
    show(runs)
    facts = read_device_facts('cpu')
    content = {'date': str(date.today()), 'device': str(facts), 'cores': facts.cores, 'runs': runs, 'goals_s': GOALS_S}
    whole = [run for run in runs if 'demo' in run]
    if whole:
        content['until_report_s'] = round(median(until_report_s(run) for run in whole), 1)
        print(f'from clone to report: {content["until_report_s"]:.0f} s, goal {GOALS_S["demo"]:.0f} s')
    write_text_atomically(args.out, json.dumps(content, indent=1) + '\n')
    return int(any(phase['status'] for run in runs for phase in run.values()))


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--runs', type=int, default=3)
    parser.add_argument('--phases', nargs='+', choices=PHASES, default=list(PHASES))
    parser.add_argument('--repository', type=Path, default=ROOT, help='to clone')
    parser.add_argument('--out', type=Path, default=RESULTS)
    return exit_status('first_minutes', lambda: run(parser.parse_args()))


if __name__ == '__main__':
    sys.exit(main())
