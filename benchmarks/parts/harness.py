"""What every benchmark shares: arguments, turns, tables, goals, the machine's facts, and the file of results.

A script measures in `main(run)` and ends with

    if __name__ == '__main__':
        run_script(main, {'--rounds': option(25, 'of all paths', least=1)}, quick='5 rounds')
"""

from __future__ import annotations

import argparse
import json
import operator
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

from deadline_perception.core.device import read_device_facts, use_threads
from deadline_perception.core.replaced_file import replace_file
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.tools.command_line import exit_status
from deadline_perception.tools.support.restart import restart_with_environment

ROOT = Path(__file__).resolve().parents[2]
# Of the package, without its words.
COMMAND = (sys.executable, '-m', 'deadline_perception.tools.command_line')
END_S = 20.0  # for a program to end after Ctrl-C
_LIMITS = {'least': ('at least', operator.ge), 'above': ('more than', operator.gt)}
Kind = TypeVar('Kind')
Arguments = Mapping[str, Mapping[str, object]]


def option(default: object, words: str = '', **more: object) -> dict[str, object]:
    """What `run_script` takes of one argument: its type is that of its default, and False makes it a switch.

    Args:
        default: None where there is none, and `more` names the `type`.
        words: help.
        more: of `add_argument`, and the smallest legal value as `least`, or as `above` where it is not legal itself.
    """
    if default is False:
        return {'action': 'store_true', 'help': words}
    kind = {} if default is None or isinstance(default, (list, tuple)) else {'type': type(default)}
    return {'default': default, 'help': words, **kind, **more}


@dataclass
class Run:
    """One run of a script.

    Attributes:
        name: of the script, and so of its file of results.
        args: as they were given.
        quick: figures that show no more than that the script works.
        folder: of the script, below the root of the source tree; results lie in its `results/`.
        goals: those that were judged, as they go into the file.
        load_before: of the machine, as the script began.
        indent: of the file of results; None where it would be too long.
    """

    name: str
    args: argparse.Namespace
    quick: bool = False
    folder: str = 'benchmarks'
    goals: list[dict] = field(default_factory=list)
    load_before: float = field(default_factory=lambda: round(os.getloadavg()[0], 2))
    indent: int | None = 1

    @property
    def file(self) -> Path:
        """Where results go: those of a quick run never in place of published ones."""
        if getattr(self.args, 'out', None):
            return self.args.out.absolute()
        folder = 'out/benchmarks' if self.quick else f'{self.folder}/results'
        return ROOT / folder / f'{self.name}.json'

    def goal(
        self,
        words: str,
        figure: float | None,
        *,
        least: float | None = None,
        most: float | None = None,
    ) -> bool:
        """Judges a figure, prints the verdict and notes it; a figure that is unknown meets nothing."""
        is_met = (
            figure is not None
            and (least is None or figure >= least)
            and (most is None or figure <= most)
        )
        bound = f'at least {least:g}' if most is None else f'at most {most:g}'
        found = 'unknown' if figure is None else f'{figure:.4g}'
        print(f'goal: {words} {bound}: {found}, {"met" if is_met else "missed"}', flush=True)
        self.goals.append({'goal': f'{words} {bound}', 'figure': figure, 'met': is_met})
        return is_met

    def write(self, **figures: object) -> None:
        """Writes the file of results, dataclasses as objects; the figures may replace date, machine and goals."""
        goals = {'goals': self.goals} if self.goals else {}
        found = {
            'date': date.today().isoformat(),
            'device': read_device_facts(),
            'load_before': self.load_before,
            **figures,
            **goals,
        }
        self.file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self.file, json.dumps(found, indent=self.indent, default=asdict) + '\n')
        print(f'wrote {self.file}')


def run_script(
    main: Callable[[Run], int | None],
    arguments: Arguments | None = None,
    quick: str = '',
    threads: int | None = None,
) -> None:
    """Runs a script and ends the process: one line and status 1 for an error that was to be expected.

    Args:
        main: measures; may return a status.
        arguments: by flag, as `option` gives them.
        quick: what `--quick` does to the measurement; empty where there is no such argument.
        threads: of the CPU, with which the process starts anew; `--threads` where there is such an argument.
    """
    script = Path(main.__globals__['__file__'])
    parser = argparse.ArgumentParser(
        description=main.__globals__['__doc__'],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    limits: list[tuple[str, str, str, object]] = []
    for flag, settings in (arguments or {}).items():
        known = {word: value for word, value in settings.items() if word not in _LIMITS}
        dest = parser.add_argument(flag, **known).dest
        limits += [(flag, dest, word, settings[word]) for word in _LIMITS if word in settings]
    parser.add_argument(
        '--out', type=Path, help='file of the results, in place of the one in results/'
    )
    if quick:
        parser.add_argument(
            '--quick', action='store_true', help=f'{quick}: shows that the script works'
        )

    def run() -> int | None:
        args = parser.parse_args()
        for flag, dest, word, limit in limits:
            words, holds = _LIMITS[word]
            value = getattr(args, dest)
            if value is not None and not holds(value, limit):
                raise ValueError(f'{flag} is {value}, expected {words} {limit}')
        own_threads = getattr(args, 'threads', threads)
        if own_threads is not None:
            restart_with_environment(own_threads)
            use_threads(own_threads)
        folder = script.resolve().parent.relative_to(ROOT).as_posix()
        return main(Run(script.stem, args, getattr(args, 'quick', False), folder))

    sys.exit(exit_status(script.name, run))


def run_logged(
    words: Sequence[str | Path], log: Path, limit_s: float | None = None, **options: object
) -> tuple[int | None, float]:
    """Runs a program whose output goes into a file; all that it has started ends with it.

    Args:
        words: program and arguments.
        log: the file.
        limit_s: longest time; then it is ended as Ctrl-C does, and killed where that does not help.
        options: of `subprocess.Popen`, such as `cwd`.

    Returns:
        Its exit status, None where it took longer, and the time that it took, s.
    """
    begun_ms, status = now_ms(), None
    with log.open('w', encoding='utf-8') as stream:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **options,
        )
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            for number, wait_s in ((signal.SIGINT, END_S), (signal.SIGKILL, None)):
                try:
                    os.killpg(process.pid, number)
                    process.wait(wait_s)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    continue
    return status, (now_ms() - begun_ms) / 1000.0


def run_command(*words: str | Path) -> None:
    """Runs a command of the package without its output; ends with its status where it fails."""
    status = subprocess.run(
        [*COMMAND, *map(str, words)], stdout=subprocess.DEVNULL, check=False
    ).returncode
    if status:
        sys.exit(status)  # it has said why


def turns(kinds: Iterable[Kind], rounds: int, seed: int = 0) -> Iterator[tuple[int, Kind]]:
    """Each kind once in every round, in random order: what else the machine does falls on all alike."""
    rng, kinds = random.Random(seed), list(kinds)
    for number in range(rounds):
        for kind in rng.sample(kinds, len(kinds)):
            yield number, kind


def timed_ms(function: Callable[[], object]) -> float:
    """How long a call takes."""
    begun_ms = now_ms()
    function()
    return now_ms() - begun_ms


def quantiles(values: Iterable[float], *names: str) -> dict[str, float | None]:
    """Quantiles by name, as `p50`, `p99`, `max` and `mean`; None of no values."""
    values = np.asarray(list(values), float)
    if not len(values):
        return dict.fromkeys(names)
    found = {'max': values.max, 'mean': values.mean}
    return {
        name: round(
            float(found[name]() if name in found else np.quantile(values, float(name[1:]) / 100)), 3
        )
        for name in names
    }


def shown(value: object) -> str:
    """A value as a table's cell."""
    if value is None:
        return '-'
    return f'{value:.2f}' if isinstance(value, float) else str(value)


def show(
    title: str, heads: str | Iterable[str], rows: Iterable[Iterable[object]], *, words: int = 1
) -> None:
    """Prints a table; numbers of its own form come as text. The first `words` columns begin at the left.

    Many heads are one text, as `'path | eager | openvino'`.
    """
    table = Table(title=title, title_justify='left')
    for number, head in enumerate(heads.split(' | ') if isinstance(heads, str) else heads):
        table.add_column(head, justify='left' if number < words else 'right')
    for row in rows:
        table.add_row(*map(shown, row))
    Console(width=max(140, Console().width)).print(table)
