"""Asks the kernel for what threads with deadlines are due: real-time priority or niceness, cores, locked memory.

Whatever is refused is dropped and reported; nothing here raises for want of a permission. Threads are named by the number
that the kernel gives them. Free of ROS.

Raised threads cannot starve the machine. Real-time priority is asked for only where the kernel keeps a part of every
period for other programs (`sched_rt_runtime_us`). Inference gives it up as another frame could exceed `REAL_TIME_PART`
of that, and goes on at raised niceness for the rest of the period, so that it never meets the kernel's own throttle,
which would stop it for all that is left of the period. A thread that runs on without a pause loses its priority
(`step_down`, called by whoever sees it hang), and one that holds the interpreter, so that nobody can see it, is ended
by the kernel (RLIMIT_RTTIME). What a raised thread starts is not raised with it (SCHED_RESET_ON_FORK). A process that
was started with a policy of its own or a lowered niceness keeps both: somebody chose them.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from deadline_perception.core.process_memory import lock_pages, unlock_pages
from deadline_perception.system.kernel_thread import (
    describe_scheduling,
    lives,
    scheduling_policy,
    thread_name,
    threads_started_by,
)

NICENESS = -15
REAL_TIME_PART = 0.95  # of what the kernel allows in a period; beside busy programs a frame takes twice as long without
LONGEST_RUN_S = 10  # of a real-time thread without a pause, then SIGXCPU; diagnostics call it hanging after half of it
MODES = ('auto', 'off')
INFERENCE_NAME = 'inference'
_PAUSE_S = 50e-6  # a pause is what RLIMIT_RTTIME counts from anew


class Role(Enum):
    """What a thread is raised for; the value is its priority under SCHED_FIFO, 0 where niceness is enough."""

    SUPPORTING = 0  # receives images, and holds Python's lock, which inference waits for; or probes the machine
    INFERENCE = 10
    WATCHDOG = 11


@dataclass(frozen=True)
class RealTimeShare:
    """What the kernel leaves to real-time threads of each core.

    Attributes:
        runtime_s: longest time in a period.
        period_s: the period.
        refusal: why real-time priority is not to be used here; empty where it is.
    """

    runtime_s: float = 0.0
    period_s: float = 1.0
    refusal: str = ''


def read_real_time_share(root: Path = Path('/')) -> RealTimeShare:
    """The kernel's throttle of real-time threads. `root` is the folder that holds `proc`."""
    folder = root / 'proc/sys/kernel'
    try:
        runtime_us, period_us = (
            int((folder / f'sched_rt_{name}_us').read_text()) for name in ('runtime', 'period')
        )
    except (OSError, ValueError) as error:
        return RealTimeShare(
            refusal=f'SCHED_FIFO is not used: its throttle cannot be read ({error})'
        )
    if not 0 < runtime_us < period_us:
        return RealTimeShare(
            refusal=f'SCHED_FIFO is not used: sched_rt_runtime_us is {runtime_us}, expected more '
            f'than 0 and less than the period of {period_us} us, or a core could be taken for '
            f'good'
        )
    return RealTimeShare(runtime_us / 1e6, period_us / 1e6)


@dataclass
class _Raised:
    """A raised thread and what it was before."""

    role: Role
    niceness: int
    cores: set[int]
    keeps: bool  # policy and niceness stay as they are
    fifo: bool = False


@dataclass
class _Period:
    """Where a thread stands in its share of the present period.

    Attributes:
        began_s: when it began.
        worked_s, last_s: what the thread had worked until then, and until the end of its last frame.
        longest_s: what the longest frame in it worked.
    """

    began_s: float
    worked_s: float
    last_s: float
    longest_s: float = 0.0


class ThreadPriority:
    """Raises threads of this process and lowers them again; any thread may call it.

    Args:
        mode: `auto`, SCHED_FIFO where that is permitted and safe, else raised niceness where that is; or `off`.
        cores: of inference and watchdog; empty leaves them where they may run.
        lock_memory: keep what this process has touched in memory, where that is permitted.
        share: the kernel's throttle.

    Raises:
        ValueError: the mode is none of `MODES`.
    """

    def __init__(
        self,
        mode: str = 'auto',
        *,
        cores: Collection[int] = (),
        lock_memory: bool = True,
        share: RealTimeShare | None = None,
    ) -> None:
        if mode not in MODES:
            raise ValueError(f'priority is {mode!r}, expected one of {", ".join(MODES)}')
        self._auto = mode == 'auto'
        self._cores = frozenset(cores)
        self._share = read_real_time_share() if share is None else share
        self._lock = threading.Lock()
        self._raised: dict[int, _Raised] = {}
        self._of_thread = threading.local()  # `period`, since each thread has a clock of its own
        self._refusals: dict[str, str] = {}
        self._longest_run: tuple[int, int] | None = None  # RLIMIT_RTTIME before
        self._memory_is_locked = self._auto and lock_memory and self._lock_memory()

    def raise_thread(self, role: Role) -> None:
        """Raises the calling thread, and those that bear its name because it started them, such as OpenMP's."""
        tids = [threading.get_native_id()]
        if role is Role.INFERENCE:
            if (
                thread_name(tids[0]) == INFERENCE_NAME
            ):  # one without a name of its own shares that of the process
                tids += threads_started_by(tids[0])
            worked_s = time.thread_time()
            self._of_thread.period = _Period(time.monotonic(), worked_s, worked_s)
        with self._lock:
            for tid in tids:
                try:
                    self._raise(tid, role)
                except ProcessLookupError:  # it ended just now
                    self._raised.pop(tid, None)

    def between_frames(self) -> None:
        """Called by the thread of inference after each frame: keeps to its share of the period. Pauses for 0.1 ms."""
        period = getattr(self._of_thread, 'period', None)
        now_s = time.monotonic()
        worked_s = time.thread_time()
        if period is None or not self._auto:
            return
        period.longest_s = max(period.longest_s, worked_s - period.last_s)
        period.last_s = worked_s
        if now_s - period.began_s >= self._share.period_s:
            self._of_thread.period = _Period(now_s, worked_s, worked_s)
            self._each(Role.INFERENCE, self._to_fifo)
            time.sleep(_PAUSE_S)
        elif worked_s - period.worked_s + period.longest_s > REAL_TIME_PART * self._share.runtime_s:
            self.step_down()

    def step_down(self) -> None:
        """Inference loses real-time priority until its next frame after the present period; called by any thread."""
        self._each(Role.INFERENCE, lambda tid, raised: raised.fifo and self._to_other(tid, raised))

    def restore(self) -> None:
        """Gives back all that was taken, of threads that still live."""
        with self._lock:
            for tid, raised in self._raised.items():
                if lives(tid):
                    self._lower(tid, raised)
            self._raised.clear()
            if self._longest_run is not None:
                resource.setrlimit(resource.RLIMIT_RTTIME, self._longest_run)
                self._longest_run = None
            if self._memory_is_locked:
                unlock_pages()
                self._memory_is_locked = False

    @property
    def in_force(self) -> str:
        """What a raised thread of inference, or else of any role, has now, such as `SCHED_FIFO 10, nice -15, cores 0-3,
        memory locked`."""
        with self._lock:
            alive = [
                (raised.role is not Role.INFERENCE, tid)
                for tid, raised in self._raised.items()
                if lives(tid)
            ]
        words = describe_scheduling(min(alive)[1]) if alive else 'SCHED_OTHER'
        return f'{words}, memory locked' if self._memory_is_locked else words

    @property
    def refusals(self) -> tuple[str, ...]:
        """What was wanted and is not in force, each with the reason."""
        with self._lock:
            return tuple(self._refusals.values())

    def _raise(self, tid: int, role: Role) -> None:
        raised = self._raised.get(tid)
        if raised is None:
            policy = scheduling_policy(tid)
            niceness = os.getpriority(os.PRIO_PROCESS, tid)
            raised = self._raised[tid] = _Raised(
                role,
                niceness,
                os.sched_getaffinity(tid),
                keeps=policy != os.SCHED_OTHER or niceness > 0,
            )
        if self._cores and role is not Role.SUPPORTING:
            os.sched_setaffinity(tid, self._cores)
        if not self._auto:
            return
        if raised.keeps:
            self._refuse(
                'own',
                f'{describe_scheduling(tid)} was chosen when this process was started, and stays in '
                f'force',
            )
            return
        self._to_other(tid, raised)  # before the niceness, which must not be inherited either
        try:
            if raised.niceness > NICENESS:
                os.setpriority(os.PRIO_PROCESS, tid, NICENESS)
        except PermissionError:
            self._refuse('nice', f'nice {NICENESS} is not permitted (limit nice)')
        self._to_fifo(tid, raised)

    def _to_fifo(self, tid: int, raised: _Raised) -> None:
        if raised.fifo or raised.keeps or not raised.role.value:
            return
        refusal = self._share.refusal or self._limit_longest_run()
        if not refusal:
            try:
                os.sched_setscheduler(
                    tid, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(raised.role.value)
                )
                raised.fifo = True
                return
            except PermissionError:
                refusal = f'SCHED_FIFO {raised.role.value} is not permitted (limit rtprio)'
        self._refuse('fifo', refusal)

    @staticmethod
    def _to_other(tid: int, raised: _Raised) -> None:
        os.sched_setscheduler(tid, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        raised.fifo = False

    def _lower(self, tid: int, raised: _Raised) -> None:
        try:
            if self._auto and not raised.keeps:
                self._to_other(tid, raised)
                os.setpriority(os.PRIO_PROCESS, tid, raised.niceness)
            os.sched_setaffinity(tid, raised.cores)
        except ProcessLookupError:  # it ended just now
            pass

    def _limit_longest_run(self) -> str:
        """Sets RLIMIT_RTTIME where it is without a limit; returns why real-time priority would be dangerous with it."""
        if self._longest_run is not None:
            return ''
        soft, hard = resource.getrlimit(resource.RLIMIT_RTTIME)
        longest_us = LONGEST_RUN_S * 1_000_000
        if resource.RLIM_INFINITY != soft < longest_us:
            return f'SCHED_FIFO is not used: RLIMIT_RTTIME is {soft} us, expected at least {longest_us} us or no limit'
        self._longest_run = soft, hard
        resource.setrlimit(resource.RLIMIT_RTTIME, (longest_us, hard))
        return ''

    def _each(self, role: Role, change: Callable[[int, _Raised], object]) -> None:
        with self._lock:
            for tid, raised in self._raised.items():
                try:
                    if raised.role is role and lives(tid):
                        change(tid, raised)
                except ProcessLookupError:  # it ended just now
                    pass

    def _lock_memory(self) -> bool:
        refusal = lock_pages()
        if refusal:
            self._refuse('memory', refusal)
        return not refusal

    def _refuse(self, what: str, why: str) -> None:
        self._refusals[what] = why
