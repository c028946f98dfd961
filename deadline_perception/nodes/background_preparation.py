"""Segments that are prepared while the node runs: at first they run eagerly, then the network is replaced.

So a new device needs no command: the models of shipped weights lie beside them (`engines/segment_models.py`), and what
is left takes a minute of one core. It is done in a process of its own, of a low priority, so that frames go first.
Paths that are timed beside frames, to scale the times of another device, take too long: what the new network's first
frames take follows in their place.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from rclpy.node import Node

from deadline_perception.core.child_command import module_command
from deadline_perception.core.errors import printable
from deadline_perception.nodes.reload import ReloadService
from deadline_perception.runtime.loading import LoadedTask
from deadline_perception.timing.contention.load import LoadError, has_ended, start_tied, stop_tied
from deadline_perception.timing.time_model import FIRST_FRAMES

_NICENESS = 5  # beside busy programs it still gets a third of what each of them has; threads that answer are raised
_LOOK_S = 0.5


class BackgroundPreparation:
    """Of one node, for one network at a time; each weights file is tried once."""

    def __init__(self, node: Node, reload: ReloadService) -> None:
        self._node, self._reload = node, reload
        self._tried: set[Path] = set()
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()

    def begin(self, loaded: LoadedTask) -> None:
        """Has the segments prepared where that was not done and takes a minute at most, and rough times replaced."""
        if loaded.rough is not None:
            self._start(self._rescale, loaded)
        elif loaded.unprepared is not None and loaded.unprepared not in self._tried:
            self._tried.add(loaded.unprepared)
            self._start(self._prepare, loaded)

    def _start(
        self, work: Callable[[LoadedTask, threading.Event], None], loaded: LoadedTask
    ) -> None:
        self.end()
        self._ending = threading.Event()
        self._thread = threading.Thread(
            target=work, args=(loaded, self._ending), name='preparation', daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        """Ends what was begun; what is prepared so far stays, and the next start goes on with the rest."""
        self._ending.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _prepare(self, loaded: LoadedTask, ending: threading.Event) -> None:
        log = self._node.get_logger()
        command = module_command(
            'deadline_perception.tools.command_line',
            'profile',
            '--prepare-only',
            '--weights',
            str(loaded.unprepared),
            '--threads',
            str(loaded.options.threads),
        )
        try:
            process = start_tied(
                command,
                niceness=_NICENESS,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        except (LoadError, OSError) as error:
            log.warning(f'segments are not prepared: {error}')
            return
        log.info(
            'segments run eagerly and are prepared beside the node; it changes over to them by itself'
        )
        while not has_ended(process) and not ending.wait(_LOOK_S):
            pass
        if ending.is_set():
            stop_tied(process)  # those that it started end once the segment at hand is done
            return
        _, words = process.communicate()
        if process.returncode:
            said = (words.strip().splitlines() or [f'status {process.returncode}'])[-1]
            log.warning(f'segments stay unprepared, and run eagerly: {printable(said)}')
            return
        # Another network may be being loaded; what comes of this one is logged.
        while not self._reload.begin(lambda response: None) and not ending.wait(_LOOK_S):
            pass

    def _rescale(self, loaded: LoadedTask, ending: threading.Event) -> None:
        while len(loaded.task.times.first_frames) < FIRST_FRAMES:
            if ending.wait(_LOOK_S):
                return
        self._reload.rescale(loaded)
