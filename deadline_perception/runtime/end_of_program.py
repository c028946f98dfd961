"""Closes what a program leaves open as it ends, and tells what a forked process cannot use.

Threads of a detector are daemons, so that a network that hangs keeps no program alive. Python up to 3.13 ends such a
thread by unwinding it as soon as it comes back from native code, which C++ answers with `terminate`: the program aborts.
So what is open is closed before that, and its threads are waited for.
"""

from __future__ import annotations

import atexit
import logging
import os
import time
import weakref
from enum import IntEnum
from typing import Protocol

_WAIT_S = 5.0  # for all that is open together
_LOG = logging.getLogger('deadline_perception')


class Turn(IntEnum):
    """Who is closed first: detectors, which keep what they learnt, then the threads that this takes."""

    DETECTOR = 0
    THREADS = 1


class Owner(Protocol):
    """What has threads."""

    def end_with_program(self, until_s: float) -> None:
        """Closes itself; may wait until that time of `time.monotonic`."""


_OPEN: dict[Turn, weakref.WeakSet[Owner]] = {turn: weakref.WeakSet() for turn in Turn}


def close_at_end(owner: Owner, turn: Turn) -> None:
    """From now on closes an owner as the program ends, as long as it lives."""
    _OPEN[turn].add(owner)


def words_of_fork(process: int) -> str:
    """Why what was made in a process cannot be used in this one; empty in the same process."""
    if os.getpid() == process:
        return ''
    return (
        f'this process, {os.getpid()}, is a fork of {process}, which has the threads of the detector: expected a '
        f'detector of its own in each process, made after the fork'
    )


@atexit.register
def _end() -> None:
    until_s = time.monotonic() + _WAIT_S
    for turn in Turn:
        for owner in list(_OPEN[turn]):
            try:
                owner.end_with_program(until_s)
            except Exception:  # the others are closed all the same
                _LOG.exception('%s could not be closed as the program ended', type(owner).__name__)
