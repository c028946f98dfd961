"""Artificial contention: counted units and other programs beside this process, which end with it whatever happens.

Each is a process in a session of its own, as other programs of the machine are. It is started behind a few lines that
have the kernel end it when the thread that started it is gone (PR_SET_PDEATHSIG, which an `exec` keeps), so that not
even a SIGKILL of the owner leaves one behind. Only processes that were started here are ever signalled.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from deadline_perception.core.child_command import module_command
from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.timing.contention.unit import KINDS

UNIT_SHARE = 0.25  # of a core that one unit asks for
MOST_UNITS = 256  # of one kind; more are a mistake
_UNIT = 'deadline_perception.timing.contention.unit'
_READY_S = 60.0  # a GPU's libraries take long to load
_PATIENCE_S = 5.0  # of a program that is asked to end
_ONE_THREAD = dict.fromkeys(('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS'), '1')
_TIE = (
    'import contextlib, ctypes, os, sys\n'
    'owner, ending, niceness = map(int, sys.argv[1:4])\n'
    'ctypes.CDLL(None).prctl(1, ending)\n'  # PR_SET_PDEATHSIG
    'niceness = os.nice(niceness)\n'
    'if niceness > 0:\n'  # a kernel that groups by session heeds the niceness of sessions alone
    '    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as file:\n'
    '        file.write(str(niceness))\n'
    'if os.getppid() == owner:\n'  # else it was gone before
    '    os.execvp(sys.argv[4], sys.argv[4:])\n'
)


class LoadError(DeadlinePerceptionError):
    """Programs that should load the machine cannot be started, or have ended by themselves."""


def start_tied(
    command: Sequence[str], *, ending: int = signal.SIGKILL, niceness: int = 0, **options: Any
) -> subprocess.Popen[str]:
    """Starts a program that ends when the calling thread is gone, in a session of its own, which is as nice as it is.

    Args:
        command: program and arguments.
        ending: signal that it then gets; SIGTERM for one that has programs of its own to end.
        niceness: that it has beyond this process, in [0, 19].
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
        str(niceness),
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
            until_s = time.monotonic() + _PATIENCE_S
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


def busy_programs(count: int) -> AbstractContextManager[ContentionLoad]:
    """Meanwhile so many programs keep a core busy each."""
    return ContentionLoad({'core': count}, share=1.0, at_work=True)


def check_units(units: Mapping[str, int]) -> dict[str, int]:
    """Counts of units by kind, in the order of `KINDS`, without those of 0.

    Raises:
        ValueError: a kind is unknown or a count out of range.
    """
    for kind, count in units.items():
        if kind not in KINDS:
            raise ValueError(
                f'kind of contention units is {kind!r}, expected one of {", ".join(KINDS)}'
            )
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= MOST_UNITS:
            raise ValueError(f'number of {kind} units is {count!r}, expected 0 to {MOST_UNITS}')
    return {kind: units[kind] for kind in KINDS if units.get(kind)}


def units_text(units: Mapping[str, int]) -> str:
    """Counts of units for a person, such as `2 core + 1 memory`."""
    return ' + '.join(f'{count} {kind}' for kind, count in check_units(units).items()) or 'none'


class ContentionLoad:
    """A pool of units, all started at once, of which any number may be at work. A context manager: none outlives it.

    Units that are not at work are stopped by a signal, so that a change takes effect at once. The thread that makes
    this must live as long as it.

    Args:
        most: largest count of units that will be at work, by kind.
        share: part of a core that each unit asks for, in (0, 1].
        at_work: have all of them work from the start.
        cores: that they keep to; wherever they may run where it is empty.

    Raises:
        ValueError: a kind is unknown, a count or the share out of range.
        LoadError: a unit cannot be started.
    """

    def __init__(
        self,
        most: Mapping[str, int],
        *,
        share: float = UNIT_SHARE,
        at_work: bool = False,
        cores: Collection[int] = (),
    ) -> None:
        if not 0.0 < share <= 1.0:
            raise ValueError(f'share of a unit is {share}, expected a part of a core in (0, 1]')
        self._pool: dict[str, list[subprocess.Popen[str]]] = {}
        self._working: dict[str, int] = {}
        try:
            for kind, count in check_units(most).items():
                for _ in range(count):
                    self._pool.setdefault(kind, []).append(
                        start_tied(
                            module_command(_UNIT, kind, str(share)),
                            stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE,
                            text=True,
                            env={**os.environ, **_ONE_THREAD},
                        )
                    )
                    if cores:  # before it has any thread but the one that hands this on
                        os.sched_setaffinity(self._pool[kind][-1].pid, cores)
            for kind, units in self._pool.items():
                for unit in units:
                    self._await(kind, unit)
                    unit.send_signal(signal.SIGSTOP)
            if at_work:
                self.set(most)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ContentionLoad:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def working(self) -> dict[str, int]:
        """Counts of units at work, by kind; none of 0."""
        return check_units(self._working)

    @property
    def pids(self) -> list[int]:
        """Numbers of the units' processes."""
        return [unit.pid for units in self._pool.values() for unit in units]

    def set(self, units: Mapping[str, int]) -> None:
        """Has exactly so many units of each kind work from now on.

        Raises:
            ValueError: more than there are.
            LoadError: a unit has ended by itself; the others are as they were.
        """
        wanted = check_units(units)
        for kind, count in wanted.items():
            if count > len(self._pool.get(kind, [])):
                raise ValueError(
                    f'number of {kind} units is {count}, expected at most the '
                    f'{len(self._pool.get(kind, []))} that were started'
                )
        self.check()
        for kind, pool in self._pool.items():
            before, after = self._working.get(kind, 0), wanted.get(kind, 0)
            for unit in pool[before:after]:
                unit.send_signal(signal.SIGCONT)
            for unit in pool[after:before]:
                unit.send_signal(signal.SIGSTOP)
            self._working[kind] = after

    def check(self) -> None:
        """Makes sure that all units are still there.

        Raises:
            LoadError: one has ended by itself.
        """
        for kind, pool in self._pool.items():
            for unit in pool:
                if has_ended(unit):
                    raise LoadError(
                        f'a {kind} unit ended by itself; was it killed, or is memory short?'
                    )

    def close(self) -> None:
        """Ends all units; those that are stopped as well."""
        for pool in self._pool.values():
            for unit in pool:
                stop_tied(unit)
                for pipe in filter(None, (unit.stdout, unit.stderr)):
                    pipe.close()
        self._pool, self._working = {}, {}

    @staticmethod
    def _await(kind: str, unit: subprocess.Popen[str]) -> None:
        until_s = time.monotonic() + _READY_S
        assert unit.stdout and unit.stderr
        while time.monotonic() < until_s:
            if select.select([unit.stdout], [], [], 0.5)[0]:
                if unit.stdout.readline() == 'ready\n':
                    return
                unit.wait(_PATIENCE_S)
                said = unit.stderr.read().strip().splitlines() or [f'status {unit.returncode}']
                raise LoadError(
                    f'a contention unit of the kind {kind} cannot be started: {said[-1]}'
                )
        raise LoadError(
            f'a contention unit of the kind {kind} was not ready within {_READY_S:.0f} s'
        )
