"""Programs that run beside what a benchmark measures, and end with it whatever happens."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection

from deadline_perception.core.child_command import code_command
from deadline_perception.core.tied_process import start_tied, stop_tied


@contextmanager
def beside_programs(
    code: str, arguments: Sequence[Sequence[str]], *, asks: bool = False, says: bool = False
) -> Iterator[list[subprocess.Popen]]:
    """Meanwhile one Python program of this code per list of arguments runs, and is killed at the end.

    `asks`: it is asked to end before, as one that shares memory with others has to be. `says`: it prints a line once
    it has loaded what it needs, which is waited for.
    """
    programs: list[subprocess.Popen] = []
    try:
        for further in arguments:
            output = {'stdout': subprocess.PIPE} if says else {}
            programs.append(start_tied(code_command(code, *further), **output))
        for program in programs if says else ():
            with program.stdout as said:
                said.readline()
        yield programs
    finally:
        for program in programs:
            stop_tied(program, asks=asks)


@contextmanager
def served_process(serve: Callable[..., None], *arguments: object) -> Iterator[Connection]:
    """Meanwhile a function runs in a process of its own; gives its connection, whose other end is its first argument. It
    is killed: in one with a middleware, what `multiprocessing` does as it ends can end that by a signal."""
    context = get_context('spawn')
    own, asked = context.Pipe()
    process = context.Process(target=serve, args=(asked, *arguments), daemon=True)
    process.start()
    asked.close()
    try:
        yield own
    finally:
        process.kill()
        process.join()
