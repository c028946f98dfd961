"""Processes that prepare segments: whose folder they write, since compiled segments are code that nobody else may have
written; which one prepares it; and which of its workers has the machine for itself, to time something."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_LOCK = '.lock'
_NEXT, _WORK = (
    0,
    1,
)  # bytes of a file of turns: who is next, and who works; a lock on each, which ends with its process
_OWN_FOLDERS = 3  # the store's, `engine` and `deadline_perception` above it; what lies above those is the user's


def foreign_writer(folder: Path) -> str:
    """Why somebody else may have written what lies in a folder of prepared segments; empty where nobody can.

    A folder that is not there yet is judged by those above it.
    """
    for place in (folder, *folder.parents)[:_OWN_FOLDERS]:
        try:
            facts = place.stat()
        except FileNotFoundError:
            continue
        except OSError as error:
            return f'{place} cannot be looked at: {error.strerror}'
        if facts.st_uid not in (0, os.geteuid()):
            return f'{place} belongs to the user {facts.st_uid}, expected {os.geteuid()}'
        if facts.st_mode & stat.S_IWOTH:
            return f'{place} may be written by everybody, expected by its owner alone: chmod o-w {place}'
    return ''


@contextmanager
def store_lock(folder: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[int]:
    """Meanwhile this process alone prepares the segments of a folder; blocks while another one does. Makes the folder.

    Args:
        folder: where they lie.
        waiting: called once where another process is at it.

    Yields:
        The open file of the lock. Processes that inherit it hold the lock on, should this one be killed.

    Raises:
        OSError: the folder cannot be written, or its file system has no locks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        handle = os.open(
            folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting()
                fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_at(folder / _LOCK, handle):
                yield handle
                return
        finally:
            os.close(handle)


def _is_at(file: Path, handle: int) -> bool:
    """Whether an open file is still the one at its place: whoever clears a cache takes the lock's file with it."""
    try:
        return os.path.samestat(file.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


class Turns:
    """Turns of one of several processes that work side by side; it works from now on.

    Args:
        file: that the processes share, made where it is absent; None where there is no other process.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile() if file is None else Path(file).open('a+b')
        self._work()

    def give_way(self) -> None:
        """Waits while another process wants the machine for itself; to be called every second or so."""
        self._lock(fcntl.LOCK_UN, _WORK)
        self._work()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Meanwhile no other process works."""
        self._lock(fcntl.LOCK_UN, _WORK)
        self._lock(
            fcntl.LOCK_EX, _NEXT
        )  # held while waiting, so that those who work stop one after the other
        self._lock(fcntl.LOCK_EX, _WORK)
        try:
            yield
        finally:
            self._lock(fcntl.LOCK_UN, _WORK)
            self._lock(fcntl.LOCK_UN, _NEXT)
            self._work()

    def _work(self) -> None:
        self._lock(fcntl.LOCK_EX, _NEXT)
        self._lock(fcntl.LOCK_SH, _WORK)
        self._lock(fcntl.LOCK_UN, _NEXT)

    def _lock(self, kind: int, byte: int) -> None:
        fcntl.lockf(self._file, kind, 1, byte)
