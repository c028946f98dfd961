"""Which of several processes prepares the segments of a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

_LOCK = '.lock'


@contextmanager
def store_lock(folder: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Meanwhile this process alone prepares the segments of a folder; blocks while another one does. Makes the folder.

    Args:
        folder: where they lie.
        waiting: called once where another process is at it.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / _LOCK, mode=0o600)
    try:
        held = lock.acquire(blocking=False)
    except Timeout:
        waiting()
        held = lock.acquire()
    with held:
        yield
