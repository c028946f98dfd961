"""Fuzzes every reader of `readers.py` by coverage, one after the other, each in a fork of one process of low priority.

    python test/fuzz/run.py [--minutes 90] [--only READER ...] [--out benchmarks/results/fuzz.json]

Goes on where it stopped: what was found so far lies in out/fuzz/READER, inputs that reach new code in `corpus` and
findings in `findings`, each with its traceback. The reader that has had the least of its share of the time is next; runs
with other readers may go beside this one. Ends with status 1 where there are findings; one that is mended belongs into
test/fuzz/found/READER, which `make test` reads. `--out` writes the counts of all readers, also with `--minutes 0`: they
are cumulative, as a reader that was not run in this checkout has what benchmarks/results/fuzz.json says of it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import worker  # noqa: E402  before the readers, which it instruments
from fuzz.readers import READERS  # noqa: E402

from deadline_perception.core.replaced_file import replace_file  # noqa: E402

OUT = Path(__file__).parents[2] / 'out' / 'fuzz'
PUBLISHED = Path(__file__).parents[2] / 'benchmarks' / 'results' / 'fuzz.json'
SLICE_S = 60
_GRACE_S = 300  # to begin on a busy machine, and to end after an input that hangs
_EXECUTED = re.compile(r'stat::number_of_executed_units: (\d+)')
_ARTIFACTS = ('crash-*', 'timeout-*', 'oom-*', 'slow-unit-*')


@dataclass
class Progress:
    """Of one reader, over all runs."""

    executions: int = 0
    seconds: float = 0.0

    @classmethod
    def load(cls, name: str) -> Progress:
        """That of a reader so far, in this checkout and before."""
        file = _progress_file(name)
        if file.is_file():
            return cls(**json.loads(file.read_text()))
        row = published(name)
        return cls(row.get('executions', 0), row.get('seconds', 0.0))

    def add(self, name: str, more: Progress) -> None:
        """Counts what was done for that reader, and keeps it."""
        self.executions += more.executions
        self.seconds += more.seconds
        replace_file(_progress_file(name), json.dumps(asdict(self)))


def published(name: str) -> dict[str, float]:
    """The row of a reader in the file of results; empty where it has none."""
    return json.loads(PUBLISHED.read_text())['readers'].get(name, {})


def _progress_file(name: str) -> Path:
    return OUT / name / 'progress.json'


def findings(name: str) -> list[Path]:
    """Inputs that were neither read nor refused, with those that ended the process."""
    folder = OUT / name / 'findings'
    return sorted(file for kind in ('*.input', *_ARTIFACTS[:3]) for file in folder.glob(kind))


def fuzz(name: str, seconds: int) -> Progress:
    """Fuzzes one reader for so long."""
    began_s, known = time.monotonic(), set(findings(name))
    said = _forked(name, seconds)
    found = _EXECUTED.search(said)
    for file in sorted(set(findings(name)) - known):
        # Many inputs together may take what none of them does.
        if file.name.startswith(('oom-', 'timeout-')) and 'Executed' in _forked(name, 0, str(file)):
            file.unlink()
        else:
            print(f'{name}: found {file}', flush=True)
    if found is None:
        print(f'{name}: ended without a count, see {OUT / name / "last.log"}', flush=True)
    return Progress(int(found[1]) if found else 0, time.monotonic() - began_s)


def _forked(name: str, seconds: int, one: str = '') -> str:
    """What a process that fuzzes prints."""
    (OUT / name).mkdir(parents=True, exist_ok=True)
    log, until_s = OUT / name / 'last.log', time.monotonic() + seconds + _GRACE_S
    with tempfile.TemporaryDirectory(dir='/dev/shm') as place:
        child = os.fork()
        if not child:
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            worker.fuzz(name, OUT / name, Path(place), seconds, one)
            os._exit(0)
        while not os.waitpid(child, os.WNOHANG)[0]:
            if time.monotonic() > until_s:
                os.kill(child, signal.SIGKILL)
                until_s = float('inf')
            time.sleep(0.2)
    return log.read_text('utf-8', 'backslashreplace')


def counts() -> dict[str, object]:
    """What all runs together have done, for each reader and in all."""
    rows = {
        name: {
            **asdict(Progress.load(name)),
            'corpus': len(list((OUT / name / 'corpus').glob('*')))
            or published(name).get('corpus', 0),
            'findings': len(findings(name)),
        }
        for name in READERS
    }
    total = {key: sum(row[key] for row in rows.values()) for key in next(iter(rows.values()))}
    said = 'executions and seconds are sums over all runs, also of earlier checkouts'
    return {'date': date.today().isoformat(), 'counted': said, **total, 'readers': rows}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--minutes', type=float, default=90.0, help='for all together')
    parser.add_argument('--only', nargs='+', choices=READERS, default=list(READERS))
    parser.add_argument('--out', type=Path, help='file for the counts')
    args = parser.parse_args()
    os.nice(19)
    progress = {name: Progress.load(name) for name in args.only}
    until_s = time.monotonic() + 60.0 * args.minutes
    while (left_s := until_s - time.monotonic()) > 5:
        name = min(args.only, key=lambda name: progress[name].seconds / READERS[name].share)
        done = fuzz(name, int(min(SLICE_S * READERS[name].share, left_s)))
        progress[name].add(name, done)
        print(f'{name}: {done.executions} executions in {done.seconds:.0f} s', flush=True)
    found = counts()
    for name, row in found['readers'].items():
        print(f'{name:14} {row["executions"]:10} executions {row["findings"]:3} findings')
    print(f'{"all":14} {found["executions"]:10} executions {found["findings"]:3} findings')
    if args.out is not None:
        replace_file(args.out, json.dumps(found, indent=1) + '\n')
    return 1 if found['findings'] else 0


if __name__ == '__main__':
    sys.exit(main())
