"""Artificial contention: counted units beside this process, which end with it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager

from deadline_perception.core.child_command import module_command
from deadline_perception.core.tied_process import (
    PATIENCE_S,
    LoadError,
    has_ended,
    start_tied,
    stop_tied,
)
from deadline_perception.extras.contention.unit import KINDS

UNIT_SHARE = 0.25  # of a core that one unit asks for
MOST_UNITS = 256  # of one kind; more are a mistake
_UNIT = 'deadline_perception.extras.contention.unit'
_READY_S = 60.0  # a GPU's libraries take long to load
_ONE_THREAD = dict.fromkeys(('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS'), '1')


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
                unit.wait(PATIENCE_S)
                said = unit.stderr.read().strip().splitlines() or [f'status {unit.returncode}']
                raise LoadError(
                    f'a contention unit of the kind {kind} cannot be started: {said[-1]}'
                )
        raise LoadError(
            f'a contention unit of the kind {kind} was not ready within {_READY_S:.0f} s'
        )
