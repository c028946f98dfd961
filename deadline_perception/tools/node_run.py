"""Runs all nodes on a bag in a process of their own, beside other programs if asked for, and waits until they are done."""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from deadline_perception.errors import DeadlinePerceptionError

BRINGUP = 'deadline_perception.nodes.bringup'
_LOOK_EVERY_S = 0.5
_LOG_TAIL = 12
_STOP_S = 20.0  # the supervisor ends every node within this time
# Ends by itself when its parent is gone.
_BUSY_PROGRAM = ('import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n'
                 '    sum(value * value for value in range(200_000))\n')


class NodeRunError(DeadlinePerceptionError):
    """The nodes failed; the message ends with the last lines of their log."""


@contextmanager
def beside_programs(code: str, arguments: Sequence[Sequence[str]]) -> Iterator[None]:
    """Meanwhile one Python program per list of arguments runs, and is killed at the end.

    Args:
        code: of all programs; its first argument is this process's number, so that it can end when its parent is gone.
        arguments: the further ones of each program.
    """
    programs = [subprocess.Popen([sys.executable, '-c', code, str(os.getpid()), *further], stdin=subprocess.DEVNULL)
                for further in arguments]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def busy_programs(count: int) -> AbstractContextManager[None]:
    """Meanwhile so many programs keep a core busy each."""
    return beside_programs(_BUSY_PROGRAM, [()] * count)


def run_nodes(arguments: list[str], log: Path, *, limit_s: float, tick: Callable[[float], None]) -> None:
    """Starts the nodes, blocks until they have ended, and keeps what they print in a file.

    Args:
        arguments: of the start-up, see `python -m deadline_perception.nodes.bringup --help`.
        log: file for their output.
        limit_s: after so long they are stopped.
        tick: called twice a second with the seconds passed.

    Raises:
        NodeRunError: they failed or took too long.
    """
    with log.open('wb') as output:
        process = subprocess.Popen([sys.executable, '-m', BRINGUP, *arguments], stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=subprocess.STDOUT, env={**os.environ, 'PYTHONUNBUFFERED': '1'},
                                   start_new_session=True)
    started_s = time.monotonic()
    try:
        while True:
            try:
                process.wait(_LOOK_EVERY_S)
                break
            except subprocess.TimeoutExpired:
                passed_s = time.monotonic() - started_s
                tick(passed_s)
                if passed_s > limit_s:
                    raise NodeRunError(f'the nodes did not end within {limit_s:.0f} s; their log {log} ends with:\n'
                                       f'{_tail(log)}') from None
    finally:
        _stop(process)
    if process.returncode:
        raise NodeRunError(f'the nodes ended with status {process.returncode}; their log {log} ends with:\n'
                           f'{_tail(log)}')


def _stop(process: subprocess.Popen) -> None:
    """Asks the start-up to end all nodes; kills it when it does not."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _tail(log: Path) -> str:
    lines = log.read_text(encoding='utf-8', errors='replace').splitlines()
    return '\n'.join(f'  {line}' for line in lines[-_LOG_TAIL:]) or '  (nothing)'
