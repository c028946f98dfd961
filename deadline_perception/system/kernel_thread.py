"""Threads of this process as the kernel knows them, by its numbers: their names, how they are scheduled, and on which
cores. Free of ROS.
"""

from __future__ import annotations

import math
import os
import re
import threading
from contextlib import suppress
from pathlib import Path

_TASKS = Path('/proc/self/task')
_LEAST_WORK_MS = 1.0
_POLICIES = ('SCHED_OTHER', 'SCHED_FIFO', 'SCHED_RR', 'SCHED_BATCH', 'SCHED_IDLE')


def name_thread(name: str) -> None:
    """Gives the calling thread a name of at most 15 characters for the kernel; threads that it starts inherit it."""
    try:
        (_TASKS / str(threading.get_native_id()) / 'comm').write_text(name[:15])
    except OSError:  # no such file outside Linux
        pass


def thread_name(tid: int) -> str:
    """The name that the kernel has of a thread; empty where it has ended, or there is no such file (outside Linux)."""
    try:
        return (_TASKS / str(tid) / 'comm').read_text().rstrip('\n')
    except OSError:
        return ''


def lives(tid: int) -> bool:
    """Whether a thread has not ended."""
    return (_TASKS / str(tid)).exists()


def threads_started_by(tid: int) -> list[int]:
    """Threads that bear a thread's name without being Python's: it has started them, such as those of OpenMP.

    Those that have hardly worked so far are dropped: OpenVINO keeps one with every compiled segment that never does.
    """
    name = thread_name(tid)
    pythons = {thread.native_id for thread in threading.enumerate()}
    numbers = [int(folder.name) for folder in _TASKS.iterdir()]
    return [
        number
        for number in numbers
        if number not in pythons
        and thread_name(number) == name
        and _worked_ms(number) >= _LEAST_WORK_MS
    ]


def _worked_ms(tid: int) -> float:
    """Time on a core; infinite where the kernel does not say."""
    try:
        return int((_TASKS / str(tid) / 'schedstat').read_text().split()[0]) / 1e6
    except (OSError, ValueError, IndexError):
        return math.inf


def scheduling_policy(tid: int) -> int:
    """`SCHED_OTHER` or another of `os`, whatever a thread's own threads get.

    Raises:
        ProcessLookupError: it has ended.
    """
    return os.sched_getscheduler(tid) & ~os.SCHED_RESET_ON_FORK


def describe_scheduling(tid: int) -> str:
    """`SCHED_FIFO 10, nice -15, cores 0-1`.

    Raises:
        ProcessLookupError: the thread has ended.
    """
    names = {getattr(os, name): name for name in _POLICIES}
    priority = os.sched_getparam(tid).sched_priority
    return (
        f'{names.get(scheduling_policy(tid), "another policy")}{f" {priority}" if priority else ""}, '
        f'nice {os.getpriority(os.PRIO_PROCESS, tid)}, cores {allowed_cores(tid)}'
    )


def allowed_cores(tid: int) -> str:
    """`0,2-3`, where a thread may run; empty where it has ended."""
    with suppress(OSError):
        status = (_TASKS / str(tid) / 'status').read_text()
        return status.partition('Cpus_allowed_list:')[2].split()[0]
    return ''


def parse_cores(text: str) -> frozenset[int]:
    """Numbers of cores from a list such as `0,2-3`; empty text gives none, which leaves threads where they may run.

    Raises:
        ValueError: it is no such list, or names a core that this process may not use.
    """
    allowed = os.sched_getaffinity(0)
    cores = set()
    for part in filter(None, text.replace(' ', '').split(',')):
        match = re.fullmatch(r'(\d{1,6})(?:-(\d{1,6}))?', part)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(
                f'cores is {text!r}, expected numbers and ranges of cores such as 0,2-3'
            )
        cores |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    if not cores <= allowed:
        raise ValueError(
            f'cores is {text!r}, expected some of {allowed_cores(os.getpid())}, which this process may use'
        )
    return frozenset(cores)
