"""Starts the nodes as processes, looks after them, and ends them all: none outlives its supervisor. Free of ROS."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from deadline_perception.core.tied_process import start_tied

STEPS = (
    (signal.SIGINT, 8.0),
    (signal.SIGTERM, 3.0),
    (signal.SIGKILL, 3.0),
)  # how a process is ended, and waits in s
RESPAWN_DELAY_S = 1.0
MAX_RESPAWNS = 5  # within RESPAWN_WINDOW_S
RESPAWN_WINDOW_S = 60.0
TRY_AGAIN_STATUS = (
    75  # EX_TEMPFAIL of sysexits.h: nothing is wrong with what was asked, another try may do it
)


@dataclass(frozen=True)
class ProcessOrder:
    """One process to start.

    Attributes:
        name: what it is called in messages.
        command: program and arguments.
        environment: variables beyond this process's own.
        respawn: start it anew when it ends by itself.
        ends_run: when it ends, the run is over.
        retries: so often it is started anew when it ends with TRY_AGAIN_STATUS.
        then: started once it has ended well; the run is over when it has not.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    respawn: bool = False
    ends_run: bool = False
    retries: int = 0
    then: tuple[ProcessOrder, ...] = ()


def describe_exit(code: int) -> str:
    """An exit status for a person: `exit status 1` or `killed by SIGSEGV`."""
    if code >= 0:
        return f'exit status {code}'
    try:
        return f'killed by {signal.Signals(-code).name}'
    except ValueError:
        return f'killed by signal {-code}'


class Supervisor:
    """Runs processes until one that ends the run is done, a signal comes, or none is left.

    Each process has a session of its own, so a terminal's Ctrl-C reaches this process alone, which passes it on.

    Args:
        say: prints one line.
    """

    def __init__(
        self, say: Callable[[str], object] = partial(print, file=sys.stderr, flush=True)
    ) -> None:
        self._say = say
        self._events: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self._running: dict[str, tuple[ProcessOrder, subprocess.Popen[str]]] = {}
        self._respawned_at: dict[str, list[float]] = {}
        self._failed = False

    def start(self, order: ProcessOrder) -> int:
        """Starts a process; call it on the thread that outlives all of them. Returns its process number.

        Raises:
            LoadError: there is no such program.
        """
        process = start_tied(
            order.command, ending=signal.SIGTERM, env={**os.environ, **order.environment}
        )
        self._running[order.name] = (order, process)
        threading.Thread(target=self._await_exit, args=(order, process), daemon=True).start()
        return process.pid

    @contextmanager
    def catch_signals(self) -> Iterator[None]:
        """Meanwhile SIGINT and SIGTERM end `run`; afterwards they do what they did before."""
        before = {}
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                before[number] = signal.signal(
                    number, lambda received, _: self._events.put(('signal', received))
                )
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_events(self, timeout_s: float) -> str | None:
        """Blocks until something happens, and deals with it.

        Returns:
            Why the run is over; None when it goes on.
        """
        try:
            event = self._events.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if event[0] == 'signal':
            return f'received {signal.Signals(event[1]).name}'
        if event[0] == 'respawn':
            self.start(event[1])
            return None
        _, order, process = event
        if self._running.get(order.name) != (order, process):
            return None
        del self._running[order.name]
        return self._bury(order, process.returncode)

    def run(self, linger_s: float = 0.0) -> int:
        """Blocks until the run is over and every process has ended.

        Args:
            linger_s: time that the others still have once a process that ends the run is done.

        Returns:
            0, or 1 when a process failed.
        """
        verdict = None
        try:
            while verdict is None:
                verdict = self.handle_events(3600.0)
            self._say(f'stopping: {verdict}')
            until = time.monotonic() + (linger_s if verdict.endswith('is done') else 0.0)
            while time.monotonic() < until:
                if (self.handle_events(max(0.0, until - time.monotonic())) or '').startswith(
                    'received'
                ):
                    break
        finally:
            self.stop()
        return int(self._failed)

    def stop(self) -> None:
        """Ends all processes: asks, asks again, kills. Blocks until they are gone."""
        for number, wait_s in STEPS:
            for _, process in self._running.values():
                _signal_group(process, number)
            until = time.monotonic() + wait_s
            for name, (_, process) in list(self._running.items()):
                try:
                    process.wait(max(0.0, until - time.monotonic()))
                except subprocess.TimeoutExpired:
                    self._say(f'{name} did not end within {wait_s:.0f} s of {number.name}')
                    continue
                del self._running[name]
            if not self._running:
                return

    def _await_exit(self, order: ProcessOrder, process: subprocess.Popen[str]) -> None:
        process.wait()
        self._events.put(('exited', order, process))

    def _bury(self, order: ProcessOrder, code: int) -> str | None:
        if code == TRY_AGAIN_STATUS and order.retries > 0:
            self._say(f'{order.name} is tried again')
            self.start(replace(order, retries=order.retries - 1))
            return None
        if order.then and code == 0:
            for following in order.then:
                self.start(following)
            return None
        if order.ends_run or order.then:
            self._failed |= code != 0
            return (
                f'{order.name} is done'
                if code == 0
                else f'{order.name} failed: {describe_exit(code)}'
            )
        self._say(f'{order.name} died: {describe_exit(code)}')
        if order.respawn and self._may_respawn(order.name):
            self._say(f'{order.name} is started again in {RESPAWN_DELAY_S:.0f} s')
            later = threading.Timer(RESPAWN_DELAY_S, self._events.put, (('respawn', order),))
            later.daemon = True
            later.start()
            return None
        self._failed = True
        return None if self._running else 'no process is left'

    def _may_respawn(self, name: str) -> bool:
        now = time.monotonic()
        recent = [at for at in self._respawned_at.get(name, []) if now - at < RESPAWN_WINDOW_S]
        self._respawned_at[name] = [*recent, now]
        if len(recent) < MAX_RESPAWNS:
            return True
        self._say(
            f'{name} died {len(recent) + 1} times within {RESPAWN_WINDOW_S:.0f} s: it stays down, the others '
            f'go on without it'
        )
        return False


def _signal_group(process: subprocess.Popen[str], number: signal.Signals) -> None:
    if process.poll() is None:
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:  # it ended just now
            pass
