"""Files of lines that one run at a time appends to; one that was killed goes on behind its last whole line."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from deadline_perception.core.errors import DeadlinePerceptionError


class LogInUse(DeadlinePerceptionError):
    """Another run writes the same file."""


def open_lines(file: Path, keeps: Callable[[bytes], bool]) -> BinaryIO:
    """A file to append to, locked until it is closed; made where it does not exist.

    Args:
        file: its lines from the first on that is cut, as by a kill or a full disk, or is not kept are dropped.
        keeps: whether a whole line is kept.

    Raises:
        LogInUse: another run has opened it; the file is as it was.
        OSError: it cannot be read or written.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    stream = file.open('a+b')
    try:
        _lock(stream, file)
        stream.seek(0)
        end = 0
        for line in stream:
            if not line.endswith(b'\n') or not keeps(line):
                break
            end += len(line)
        stream.truncate(end)
    except BaseException:
        stream.close()
        raise
    return stream


def _lock(stream: BinaryIO, file: Path) -> None:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_free = (
            os.fstat(stream.fileno()).st_nlink > 0
        )  # else a run that ended meanwhile has removed it
    except BlockingIOError:
        is_free = False
    if not is_free:
        raise LogInUse(
            f'{file} is being written by another run, expected one at a time: wait for it, or name another '
            f'place'
        )


@contextmanager
def named_errors(file: Path) -> Iterator[None]:
    """Errors of a file that is open name it, such as those of a full disk."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(file)) from error
