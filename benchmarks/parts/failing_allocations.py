"""One allocation of memory that fails while a file is written, each in a forked process: CPython itself may abort there."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_LONGEST_S = 20.0
_NOT_CAUGHT, HANG = 70, 'hang'
# What CPython and libraries say of some allocations that fail, in place of a MemoryError, where this package calls them.
_MISNAMED = re.compile(
    'os.PathLike.*, not PosixPath|can.t allocate|without (setting an )?exception|with an exception set|'
    'NULL object passed|MemoryError|bad_alloc|Insufficient memory'
)
_FILE = re.compile(r'^ *File "([^"]+)", line', re.MULTILINE)  # of a frame of a traceback
_NONE = -1  # number of the allocation where none fails
Ends = Callable[[Callable[[], object]], tuple[int, str]]


@dataclass(frozen=True)
class End:
    """How an act ended.

    Attributes:
        status: as of a command; 1 also where an interpreter or a library gave its MemoryError another name.
        words: what was printed; of a process that was ended by a signal, its last words.
        allocations: that were made.
        signal: that ended the process, empty where it ended by itself.
    """

    status: int
    words: str
    allocations: int = 0
    signal: str = ''


class FailingAllocations:
    """The preloaded library, `failing_calls.c`."""

    def __init__(self, file: str, ends: Ends) -> None:
        """Args:
        file: of the library.
        ends: what status an act ends with, and what it prints.
        """
        self._library = ctypes.CDLL(file)
        self._ends = ends

    def count(self, act: Callable[[], object]) -> int:
        """How many an act makes."""
        return self.during(act, _NONE).allocations

    def during(self, act: Callable[[], object], number: int) -> End:
        """Does something in a forked process while the allocation of a number fails.

        That process is killed where it hangs.
        """
        with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as answer:
            child = os.fork()
            if not child:
                os.dup2(told.fileno(), 2)  # for what an abort says
                faulthandler.enable(told)
                faulthandler.register(signal.SIGUSR1, told, chain=True)
                # Apart from what is told: a process or thread of the act's may tell something later.
                os.write(answer.fileno(), self._tried(act, number).encode())
                os._exit(0)
            ended_by = _signal_of(child)
            told.seek(0)
            said = told.read().decode('utf-8', 'backslashreplace')
            answer.seek(0)
            answered = answer.read()
        if not ended_by:
            return End(**json.loads(answered))
        name = HANG if ended_by == signal.SIGUSR1 else signal.Signals(ended_by).name
        return End(_NOT_CAUGHT, said, signal=name)

    def _tried(self, act: Callable[[], object], number: int) -> str:
        """The end as text; what is told is told with memory again."""
        error = None
        self._library.fail_allocation(number)
        try:
            act()
        except BaseException as raised:
            error = raised
        count = self._ended()

        def again() -> None:
            if error is not None:
                raise error

        status, words = self._ends(again)
        found = {'status': status, 'words': words, 'allocations': count}
        if status == _NOT_CAUGHT and (_MISNAMED.search(words) or _is_of_library(words)):
            found |= {'status': 1, 'words': 'act: no memory\n'}
        return json.dumps(found)

    def _ended(self) -> int:
        """How many allocations there were; the one of this call may be the one that fails."""
        while True:
            try:
                return self._library.end_allocations()
            except MemoryError:
                continue


def _signal_of(child: int) -> int:
    """Blocks until a process has ended; the signal that ended it, else 0. One that hangs is ended, and says where."""
    until_s = time.monotonic() + _LONGEST_S
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if time.monotonic() > until_s:
            os.kill(child, signal.SIGUSR1)
            until_s = float('inf')
        time.sleep(0.001)


def _is_of_library(traceback: str) -> bool:
    """Whether the innermost frame is of Python's library or of one that is installed."""
    innermost = _FILE.findall(traceback)[-1]
    return '/site-packages/' in innermost or '/lib/python3' in innermost


def spaced(count: int, most: int) -> list[int]:
    """Numbers of allocations: all where they are few, else so many of them, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(int)).tolist()
