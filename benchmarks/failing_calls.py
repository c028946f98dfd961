"""System calls that fail by turn: every call of every write path, once with each error, and a disk that stays full.

    python benchmarks/failing_calls.py [--quick] [--only NAME ...]

A preloaded library (`parts/failing_calls.c`, compiled here) counts the calls on files of a folder in which a file is
written, and lets one of them fail. Whatever fails, each file is the one before or the new one, whole; nothing else is
left; and who wrote it is told in one line, unless all is as if nothing had failed. Ends with status 1 where that is not
so. Writes results/failing_calls.json.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import os
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from parts.harness import Run, run_script, show
from parts.write_paths import WritePath, write_paths

from deadline_perception.tools.command_line import exit_status

ERRORS = ('ENOSPC', 'EIO', 'EDQUOT', 'ENOLCK', 'EMFILE', 'ENOMEM')
_LIBRARY = 'FAILING_CALLS_LIBRARY'
_QUICK_PATHS, _QUICK_ERRORS = 10, ('EIO',)
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


def try_path(
    path: WritePath, calls: FailingCalls, errors: tuple[str, ...]
) -> Iterator[tuple[str, str, str]]:
    """Error, call, and what is wrong, for each call of a path with each error."""
    with tempfile.TemporaryDirectory() as root:
        place = Path(root) / 'place'

        def fresh() -> Files:
            subprocess.run(['rm', '-rf', place], check=True)
            place.mkdir()
            path.prepare(place)
            return files_of(place)

        fresh()
        path.act(place)  # what is loaded or remembered once
        before = fresh()
        names = calls.during(lambda: path.act(place), place)
        after = files_of(place)
        for error, stays in [*((name, False) for name in errors), ('ENOSPC', True)]:
            for number, name in enumerate(names):
                before, ends = fresh(), []
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


def compiled(folder: Path) -> Path:
    """The library, compiled; raises ValueError where there is no compiler."""
    library = folder / 'failing_calls.so'
    source = Path(__file__).parent / 'parts' / 'failing_calls.c'
    try:
        subprocess.run(
            ['cc', '-shared', '-fPIC', '-O1', '-o', library, source, '-ldl'],
            check=True,
            capture_output=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError(f'{source} cannot be compiled ({error}), expected a C compiler named cc')
    return library


def main(run: Run) -> int:
    """Tries all calls; returns 1 where something is wrong."""
    if _LIBRARY not in os.environ:
        with tempfile.TemporaryDirectory() as folder:
            library = str(compiled(Path(folder)))
            environment = {**os.environ, 'LD_PRELOAD': library, _LIBRARY: library}
            return subprocess.run([sys.executable, *sys.argv], env=environment).returncode
    calls, rows, bad = FailingCalls(os.environ[_LIBRARY]), [], []
    paths = [path for path in write_paths() if not run.args.only or path.name in run.args.only]
    for path in paths[:_QUICK_PATHS] if run.quick and not run.args.only else paths:
        errors = _QUICK_ERRORS if run.quick else ERRORS
        ends = list(try_path(path, calls, errors))
        wrong = [(path.name, *end) for end in ends if end[2]]
        kinds = Counter(call.split()[1] for error, call, _ in ends if error == errors[0])
        rows.append({'path': path.name, 'calls': kinds.total(), 'tried': len(ends)})
        rows[-1] |= {'wrong': len(wrong), 'kinds': dict(kinds)}
        bad += wrong
        for end in wrong[:20]:
            print(*end, sep=': ', flush=True)
    show(
        'failing calls',
        ('written', 'calls', 'failed in turn', 'wrong'),
        [(row['path'], row['calls'], row['tried'], row['wrong']) for row in rows],
    )
    tried = sum(row['tried'] for row in rows)
    print(f'{tried - len(bad)} of {tried} failing calls left all whole')
    run.write(
        tried=tried,
        wrong=len(bad),
        errors=list(ERRORS),
        paths=rows,
        problems=[list(b) for b in bad],
    )
    return 1 if bad else 0


if __name__ == '__main__':
    run_script(
        main,
        {'--only': {'nargs': '+', 'default': [], 'metavar': 'NAME', 'help': 'what is written'}},
        quick=f'{_QUICK_PATHS} paths with one error',
    )
