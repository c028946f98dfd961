"""What a newcomer waits for: from a fresh clone to the report of the demo, and to passed tests, phase by phase.

    python benchmarks/first_minutes.py [--runs 3] [--phases setup demo test] [--repository .]

Clones the last commit into a temporary folder, with caches of its own, so that nothing that was prepared before is
found; what pip's and uv's own caches hold is used, and said. Each phase is the command that the README names, and its
output goes to out/first_minutes/.
Takes some 20 minutes a run with the tests, 5 without; writes results/first_minutes.json.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from statistics import median

from parts.harness import ROOT, Run, run_logged, run_script, show

from deadline_perception.core.device import read_device_facts

LOGS = ROOT / 'out' / 'first_minutes'
PHASES = ('setup', 'demo', 'test')
GOAL_REPORT_S, GOAL_TEST_S = 180.0, 540.0  # from the clone to the report; of the tests alone
_SAID = {
    'demo': r'.*(?:in time|report).*',
    'test': r'.*\d+ passed.*',
}  # the line of a phase that says what it did


def run_once(repository: Path, phases: list[str], number: int) -> dict[str, dict]:
    """Time, status and last words of each phase in a clone of its own."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ('VIRTUAL_ENV', 'MAKEFLAGS')
        }
        environment['XDG_CACHE_HOME'] = str(place / 'cache')
        # Packages that were fetched before stay at hand: what is measured is this project and not the network.
        environment.setdefault('UV_CACHE_DIR', str(Path('~/.cache/uv').expanduser()))
        environment.setdefault('PIP_CACHE_DIR', str(Path('~/.cache/pip').expanduser()))
        for name, command in (
            ('clone', ['git', 'clone', '--quiet', str(repository), 'clone']),
            *((phase, ['make', '-C', 'clone', phase]) for phase in phases),
        ):
            log = LOGS / f'{number}_{name}.log'
            status, took_s = run_logged(command, log, cwd=place, env=environment)
            said = re.findall(_SAID.get(name, r'$^'), log.read_text(errors='replace'))
            found[name] = {
                'took_s': round(took_s, 1),
                'status': status,
                'said': ascii(said[-1].strip())[1:-1][:300] if said else '',
            }
            if status:
                break
    return found


def until_report_s(run: dict[str, dict]) -> float:
    """From the beginning of the clone to the end of the demo."""
    return sum(phase['took_s'] for name, phase in run.items() if name != 'test')


def passed(runs: list[dict[str, dict]], name: str) -> list[dict[str, dict]]:
    """The runs in which a phase came to its end; one that fails ends early, and says nothing of how long it takes."""
    return [one for one in runs if one.get(name, {}).get('status') == 0]


def show_phases(runs: list[dict[str, dict]]) -> None:
    """Prints the median time of each phase, and how its last run ended."""
    rows = []
    for name in runs[0]:
        mine = [run[name] for run in runs if name in run]
        rows.append(
            (
                name,
                len(mine),
                f'{median(one["took_s"] for one in mine):.0f}',
                ' '.join(str(one['status']) for one in mine),
                mine[-1]['said'],
            )
        )
    show('first minutes', ('phase', 'runs', 'median s', 'status', 'said'), rows, words=5)


def main(run: Run) -> int:
    """Measures; returns 1 where a phase failed."""
    args = run.args
    LOGS.mkdir(parents=True, exist_ok=True)
    phases = [phase for phase in PHASES if phase in args.phases]
    runs = [
        run_once(args.repository.absolute(), phases, number) for number in range(1, args.runs + 1)
    ]
    show_phases(runs)
    facts = read_device_facts('cpu')
    content = {'device': str(facts), 'cores': facts.cores, 'runs': runs}
    reported, tested = (passed(runs, name) for name in ('demo', 'test'))
    if reported:
        content['until_report_s'] = round(median(map(until_report_s, reported)), 1)
        run.goal('s from clone to report', content['until_report_s'], most=GOAL_REPORT_S)
    if tested:
        run.goal(
            's of the tests', median(one['test']['took_s'] for one in tested), most=GOAL_TEST_S
        )
    run.write(**content)
    return int(any(phase['status'] for one in runs for phase in one.values()))


if __name__ == '__main__':
    run_script(
        main,
        {
            '--runs': {'type': int, 'default': 3, 'least': 1},
            '--phases': {'nargs': '+', 'choices': PHASES, 'default': list(PHASES)},
            '--repository': {'type': Path, 'default': ROOT, 'help': 'to clone'},
        },
    )
