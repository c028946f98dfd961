"""Programs that this process starts and that end with it, whatever happens.

Each is in a session of its own, as other programs of the machine are. It is started behind a few lines that have the
kernel end it when the thread that started it is gone (PR_SET_PDEATHSIG, which an `exec` keeps), so that not even a
SIGKILL of the owner leaves one behind. Only processes that were started here are ever signalled.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from deadline_perception.core.errors import DeadlinePerceptionError

PATIENCE_S = 5.0  # of a program that is asked to end


_TIE = (
    'import ctypes, os, sys\n'
    'owner, ending = map(int, sys.argv[1:3])\n'
    'ctypes.CDLL(None).prctl(1, ending)\n'  # PR_SET_PDEATHSIG
    'if os.getppid() == owner:\n'  # else it was gone before
    '    os.execvp(sys.argv[3], sys.argv[3:])\n'
)


class LoadError(DeadlinePerceptionError):
    """Programs that should load the machine cannot be started, or have ended by themselves."""


def start_tied(
    command: Sequence[str],
    *,
    ending: int = signal.SIGKILL,
    **options: Any,
) -> subprocess.Popen[str]:
    """Starts a program that ends when the calling thread is gone, in a session of its own.

    Args:
        command: program and arguments.
        ending: signal that it then gets; SIGTERM for one that has programs of its own to end.
        options: of `subprocess.Popen`.

    Raises:
        LoadError: there is no such program.
    """
    check_program(command)
    tie = [
        sys.executable,
        '-I',
        '-S',
        '-c',
        _TIE,
        str(os.getpid()),
        str(int(ending)),
        *command,
    ]
    return subprocess.Popen(
        tie, **{'stdin': subprocess.DEVNULL, 'start_new_session': True, **options}
    )


def check_program(command: Sequence[str]) -> None:
    """Makes sure that there is a program of this name.

    Raises:
        LoadError: there is none.
    """
    if shutil.which(command[0]) is None:
        raise LoadError(f'program {command[0]!r} is not found, expected one that can be run')


def stop_tied(process: subprocess.Popen[str], *, asks: bool = False) -> None:
    """Ends a program of `start_tied` and waits for it.

    Args:
        process: the program.
        asks: have it, and what it started in its session, end by SIGINT, then SIGTERM, before they are killed.
    """
    if (
        process.returncode is None
    ):  # until it is waited for, its number and its group's belong to nobody else
        for number in (signal.SIGINT, signal.SIGTERM) if asks else ():
            if not has_ended(process):
                os.killpg(process.pid, number)
            until_s = time.monotonic() + PATIENCE_S
            while not has_ended(process) and time.monotonic() < until_s:
                time.sleep(0.02)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:  # killed before it had a group of its own
            process.kill()
    process.wait()


def has_ended(process: subprocess.Popen[str]) -> bool:
    """Whether a program has ended; its number stays its own until `stop_tied`."""
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
