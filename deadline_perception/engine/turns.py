"""Processes that work side by side, of which one at a time may have the machine for itself, to time something."""
from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

_NEXT, _WORK = 0, 1  # bytes of the file: who is next, and who works; a lock on each, which ends with its process


class Turns:
    """Of one process; it works from now on.

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
        self._lock(fcntl.LOCK_EX, _NEXT)  # held while waiting, so that those who work stop one after the other
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
