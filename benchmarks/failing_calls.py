"""System calls and allocations that fail by turn, on every write path.

    python benchmarks/failing_calls.py [--quick] [--only NAME ...] [--allocations 1000]

A preloaded library (`parts/failing_calls.c`, compiled here) counts the calls on files of a folder in which a file is
written, and lets one of them fail: each once with each error, and with a disk that stays full. It counts allocations of
memory as well, those of Python's objects and of libraries, and lets one of them fail, each in a forked process; where
there are more than `--allocations`, so many of them, evenly spaced.

Whatever fails, each file is the one before or the new one, whole; nothing else is left; and who wrote it is told in one
line, or by a MemoryError, unless all is as if nothing had failed. Where an interpreter or a library aborts for want of
memory, which no program of theirs can prevent, files are whole all the same; these are counted apart, by place. Ends with
status 1 where that is not so. Writes results/failing_calls.json.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from parts.failing_allocations import HANG, End, FailingAllocations, spaced
from parts.harness import Run, compile_library, option, run_script, show
from parts.write_paths import WritePath, write_paths

from deadline_perception.tools.command_line import exit_status

ERRORS = ('ENOSPC', 'EIO', 'EDQUOT', 'ENOLCK', 'EMFILE', 'ENOMEM')
_LIBRARY = 'FAILING_CALLS_LIBRARY'
_QUICK_PATHS, _QUICK_ERRORS, _QUICK_ALLOCATIONS = 10, ('EIO',), 20
# In a traceback: CPython waits for a thread that had no memory to begin.
_NEVER_BEGAN = re.compile(r'threading\.py", line \d+ in start\b')
# A library passes over what it has no memory for: these only have to be readable.
_DRAWN = ('.png', '.mp4')
Files = dict[str, bytes | None]  # content by name, None of a folder


class FailingCalls:
    """The preloaded library."""

    def __init__(self, file: str) -> None:
        self._library = ctypes.CDLL(file)
        self._library.call_name.restype = ctypes.c_char_p

    def during(
        self, act: Callable[[], None], folder: Path, at: int = -1, error: int = 0, on: bool = False
    ) -> list[str]:
        """Does something while the call of a number fails; returns the names of the calls on files of the folder."""
        self._library.fail_calls(os.fsencode(folder), at, error, int(on))
        try:
            act()
        finally:
            count = self._library.end_calls()
        return [self._library.call_name(number).decode() for number in range(count)]


def files_of(folder: Path) -> Files:
    """What lies in a folder; of safetensors, which write metadata in any order, how often each byte is there."""
    found: Files = {}
    for place in sorted(folder.rglob('*')):
        content = place.read_bytes() if place.is_file() else None
        if content and place.suffix == '.safetensors':
            content = np.bincount(np.frombuffer(content, np.uint8)).tobytes()
        found[place.relative_to(folder).as_posix()] = content
    return found


def status_and_words(act: Callable[[], object]) -> tuple[int, str]:
    """As a command ends: its status, and what it prints."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), warnings.catch_warnings():
        warnings.simplefilter('ignore')
        try:
            status = exit_status('act', lambda: (act(), None)[1])
        except BaseException:
            return 70, traceback.format_exc()
    return status, said.getvalue()


def problem(
    path: WritePath, status: int, words: str, before: Files, after: Files, found: Files
) -> str:
    """What is not as it should be; empty where all is."""
    if status not in (0, 1):
        return f'not caught: {words.strip().splitlines()[-1]}'
    lines = words.splitlines()
    if status and (len(lines) != 1 or not lines[0].isprintable() or 'None' in lines[0]):
        return f'no line that tells: {words!r}'
    for name in sorted(found.keys() - before.keys() - after.keys()):
        if status and name.startswith('tmp/'):  # of the system's, which the user is told of
            continue
        if found[name] is not None or name.rpartition('/')[2].startswith('.'):
            return f'left behind: {name}'
    for name in sorted(before.keys() & after.keys() - found.keys()):
        return f'lost: {name}'
    for name, content in found.items():
        if name.startswith('tmp/') or (path.steps and name.endswith(path.steps)):
            continue
        if content not in (before.get(name), after.get(name)):
            return f'half written: {name}'
    left = {name for name in found if name in before and name not in after}
    if (
        path.is_needed
        and not status
        and {name: found[name] for name in found if name not in left} != after
    ):
        return 'nothing is told of what was not written'
    return ''


def fresh(path: WritePath, place: Path) -> Files:
    """The folder as it is before something is written."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    path.prepare(place)
    return files_of(place)


def try_path(
    path: WritePath, calls: FailingCalls, errors: tuple[str, ...]
) -> Iterator[tuple[str, str, str]]:
    """Error, call, and what is wrong, for each call of a path with each error."""
    with tempfile.TemporaryDirectory() as root:
        place = Path(root) / 'place'
        fresh(path, place)
        path.act(place)  # what is loaded or remembered once
        before = fresh(path, place)
        names = calls.during(lambda: path.act(place), place)
        after = files_of(place)
        for error, stays in [*((name, False) for name in errors), ('ENOSPC', True)]:
            for number, name in enumerate(names):
                before, ends = fresh(path, place), []
                calls.during(
                    lambda: ends.append(status_and_words(lambda: path.act(place))),
                    place,
                    number,
                    getattr(errno, error),
                    stays,
                )
                wrong = problem(path, *ends[0], before, after, files_of(place))
                if not wrong:
                    status, words = status_and_words(lambda: path.reads(place))
                    wrong = f'cannot be read afterwards: {words}' if status else ''
                yield f'{error}{" from then on" if stays else ""}', f'{number} {name}', wrong


@dataclass
class Tried:
    """What came of the allocations of a path that failed.

    Attributes:
        count: how many the path makes.
        ends: what failed, and what is wrong, for each that was tried.
        aborts: those that ended the process, by place.
    """

    count: int
    ends: list[tuple[str, str, str]] = field(default_factory=list)
    aborts: Counter = field(default_factory=Counter)


def try_allocations(path: WritePath, allocations: FailingAllocations, most: int) -> Tried:
    """Lets each allocation of a path fail, or so many of them."""
    with tempfile.TemporaryDirectory() as root:
        place = Path(root) / 'place'

        def act() -> None:
            path.act(place)

        for _ in range(2):  # what is loaded or remembered
            fresh(path, place)
            act()
        after = files_of(place)
        fresh(path, place)
        tried = Tried(allocations.count(act))
        for number in spaced(tried.count, most):
            before = fresh(path, place)
            end = allocations.during(act, number)
            found = files_of(place)
            for name in found.keys() & after.keys():
                if name.endswith(_DRAWN) and found[name] != before.get(name):
                    found[name] = after[name]
            if end.signal not in ('', HANG) or end.signal and _NEVER_BEGAN.search(end.words):
                tried.aborts[f'{end.signal}: {place_of_abort(end)}'] += 1
                found = {name: content for name, content in found.items() if not is_partial(name)}
                end = End(1, 'act: aborted\n')
            wrong = problem(path, end.status, end.words, before, after, found)
            if not wrong:
                status, words = status_and_words(lambda: path.reads(place))
                wrong = f'cannot be read afterwards: {words}' if status else ''
            tried.ends.append(('no memory', f'allocation {number} of {tried.count}', wrong))
    return tried


def is_partial(name: str) -> bool:
    """Whether a file is one that a killed process may leave, which the next one removes."""
    return name.rpartition('/')[2].startswith('.')


def place_of_abort(end: End) -> str:
    """Where a process aborted: what it said last, and the innermost line of Python."""
    lines = [line.strip() for line in end.words.splitlines() if line.strip()]
    said = next((line for line in lines if 'File ' not in line), 'nothing said')
    found = re.search(r'File "(?:.*/)?([^"/]+)", line \d+ in (\S+)', end.words)
    where = f'{found[1]} {found[2]}' if found else 'no Python'
    return where if end.signal == HANG else f'{said}, in {where}'


def main(run: Run) -> int:
    """Tries all calls; returns 1 where something is wrong."""
    if _LIBRARY not in os.environ:
        with tempfile.TemporaryDirectory() as folder:
            library = f'{folder}/failing_calls.so'
            compile_library(Path(__file__).parent / 'parts' / 'failing_calls.c', Path(library))
            environment = {**os.environ, 'LD_PRELOAD': library, _LIBRARY: library}
            # All allocations are seen, and no thread of PyTorch's is missing in a forked process.
            environment |= {'PYTHONMALLOC': 'malloc', 'OMP_NUM_THREADS': '1'}
            return subprocess.run([sys.executable, *sys.argv], env=environment).returncode
    calls, rows, bad = FailingCalls(os.environ[_LIBRARY]), [], []
    allocations = FailingAllocations(os.environ[_LIBRARY], status_and_words)
    most = _QUICK_ALLOCATIONS if run.quick else run.args.allocations
    aborted = Counter()
    paths = [path for path in write_paths() if not run.args.only or path.name in run.args.only]
    for path in paths[:_QUICK_PATHS] if run.quick and not run.args.only else paths:
        errors = _QUICK_ERRORS if run.quick else ERRORS
        ends = list(try_path(path, calls, errors))
        failed = try_allocations(path, allocations, most)
        wrong = [(path.name, *end) for end in [*ends, *failed.ends] if end[2]]
        aborted += failed.aborts
        kinds = Counter(call.split()[1] for error, call, _ in ends if error == errors[0])
        rows.append({'path': path.name, 'calls': kinds.total(), 'tried': len(ends)})
        rows[-1] |= {'allocations': failed.count, 'allocations_tried': len(failed.ends)}
        rows[-1] |= {'wrong': len(wrong), 'kinds': dict(kinds), 'aborts': failed.aborts.total()}
        bad += wrong
        for end in wrong[:20]:
            print(*end, sep=': ', flush=True)
    show(
        'failing calls',
        ('written', 'calls', 'failed in turn', 'allocations', 'failed in turn', 'aborts', 'wrong'),
        [
            (
                *(row['path'], row['calls'], row['tried'], row['allocations']),
                *(row['allocations_tried'], row['aborts'], row['wrong']),
            )
            for row in rows
        ],
    )
    tried, tried_allocations = (
        sum(row[name] for row in rows) for name in ('tried', 'allocations_tried')
    )
    print(
        f'{tried} failing calls, {tried_allocations} failing allocations: after {len(bad)} of them not all '
        f'is whole; {aborted.total()} ended the process'
    )
    run.write(
        tried=tried,
        allocations_tried=tried_allocations,
        aborts=dict(aborted.most_common()),
        wrong=len(bad),
        errors=list(ERRORS),
        paths=rows,
        problems=[list(b) for b in bad],
    )
    return 1 if bad else 0


if __name__ == '__main__':
    run_script(
        main,
        {
            '--only': option([], 'what is written', nargs='+', metavar='NAME'),
            '--allocations': option(1000, 'that fail of each path, at most', least=1),
        },
        quick=f'{_QUICK_PATHS} paths with one error and {_QUICK_ALLOCATIONS} allocations',
    )
