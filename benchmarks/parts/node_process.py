"""Processes of nodes for benchmarks: started, watched and ended, on a ROS domain of their own."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from deadline_perception.core.device import DEFAULT_THREADS
from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.share_folder import share_folder
from deadline_perception.networks.model_reference import find_weights
from deadline_perception.tools.support.ensure_profile import ensure_profile
from deadline_perception.tools.support.file_arguments import DEFAULT_WEIGHTS

_PR_SET_PDEATHSIG = 1


class StandError(DeadlinePerceptionError):
    """The stand cannot be used: a node did not start, or did not answer."""


@dataclass(frozen=True)
class ProcessFigures:
    """What a process holds: resident memory, threads with the names that the operating system has, open files."""

    memory_kb: int
    threads: int
    descriptors: int
    thread_names: tuple[str, ...] = ()


def process_figures(pid: int) -> ProcessFigures:
    """Figures of a running process.

    Raises:
        OSError, psutil.Error: it is gone.
    """
    names = []
    for place in Path(f'/proc/{pid}/task').iterdir():
        with suppress(OSError):  # it ended meanwhile
            names.append(place.joinpath('comm').read_text().strip())
    process = psutil.Process(pid)
    memory_kb = process.memory_info().rss // 1024
    return ProcessFigures(memory_kb, process.num_threads(), process.num_fds(), tuple(sorted(names)))


def children(pid: int) -> dict[int, str]:
    """The living processes that a process has started, each with its command line."""
    found = {}
    with suppress(psutil.NoSuchProcess):  # it ended meanwhile
        for child in psutil.Process(pid).children():
            with suppress(psutil.Error):
                if child.status() != psutil.STATUS_ZOMBIE:
                    found[child.pid] = ''.join(f'{word} ' for word in child.cmdline())
    return found


class NodeProcess:
    """A process that writes what it says into a file, behind what an earlier one said, and dies with this one."""

    def __init__(
        self, name: str, command: tuple[str, ...], environment: Mapping[str, str], log: Path
    ) -> None:
        self.name, self.log, self.command, self.environment = name, log, command, environment
        self.start()

    def start(self) -> None:
        """Starts it, for the first time or anew."""
        own = {'RCUTILS_COLORIZED_OUTPUT': '0', 'PYTHONUNBUFFERED': '1'}
        with self.log.open('a') as stream:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **own, **self.environment},
                preexec_fn=lambda: ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
            )

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self.process.pid

    @property
    def exit_status(self) -> int | None:
        """None while it runs."""
        return self.process.poll()

    @property
    def output(self) -> str:
        """All that it has said."""
        return self.log.read_text(encoding='utf-8', errors='replace')

    def end(self) -> None:
        """Asks it to end, and kills it when it does not."""
        for number, wait_s in ((signal.SIGCONT, 0.0), (signal.SIGINT, 6.0), (signal.SIGKILL, 5.0)):
            if self.process.poll() is None:
                self.process.send_signal(number)
                try:
                    self.process.wait(wait_s)
                except subprocess.TimeoutExpired:
                    pass


def profile_for() -> Path:
    """A latency profile of shipped weights: this device's own, or one that is measured quickly."""
    shipped = share_folder() / 'models' / 'profiles'
    return ensure_profile(find_weights(DEFAULT_WEIGHTS), 'cpu', DEFAULT_THREADS, shipped).file
