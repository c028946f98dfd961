"""Processes that prepare segments: whose folder they write, since compiled segments are code that nobody else may have
written, and which one prepares it."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_LOCK = '.lock'
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
def store_lock(folder: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Meanwhile this process alone prepares the segments of a folder; blocks while another one does. Makes the folder.

    Args:
        folder: where they lie.
        waiting: called once where another process is at it.

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
                yield
                return
        finally:
            os.close(handle)


def _is_at(file: Path, handle: int) -> bool:
    """Whether an open file is still the one at its place: whoever clears a cache takes the lock's file with it."""
    try:
        return os.path.samestat(file.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False
