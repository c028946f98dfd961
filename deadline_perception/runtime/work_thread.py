"""A thread that does one piece of work after the other. Free of ROS."""
from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import TypeVar

from deadline_perception.runtime.kernel_thread import name_thread

Result = TypeVar('Result')
_SIGNAL_WAIT_S = 0.2
_SHARED_TURN_S = 1e-4


@contextmanager
def short_turns() -> Iterator[None]:
    """Has threads of Python leave the interpreter to each other after 0.1 ms instead of 5, while one works beside
    frames.

    A frame lets go of the interpreter at every kernel, and waits a turn of the other thread each time, whatever its
    priority: some ten kernels would add 50 ms.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _SHARED_TURN_S))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class WorkThread:
    """Everything that touches the network runs here: OpenMP threads and GPU handles belong to a thread.

    Unlike those of `concurrent.futures` it is a daemon: a network that hangs cannot keep the process alive.

    Args:
        name: of the thread, also for the kernel, and of those that it starts.
    """

    def __init__(self, name: str) -> None:
        self._work: queue.SimpleQueue = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], Result]) -> Future[Result]:
        """Does a call after all that was submitted before. What it raises, `Future.result` raises."""
        future: Future[Result] = Future()
        self._work.put((future, call))
        return future

    def do(self, call: Callable[[], Result]) -> Result:
        """Does a call after all that was submitted before, and waits for what it returns or raises.

        It waits in short steps: a signal that comes just before the main thread sleeps, or to another thread, does not
        wake it, and its handler runs only when it wakes.
        """
        future = self.submit(call)
        while not wait([future], _SIGNAL_WAIT_S).done:
            pass
        return future.result()

    @property
    def is_alive(self) -> bool:
        """The thread has not ended."""
        return self._thread.is_alive()

    def stop(self, timeout_s: float) -> bool:
        """Ends the thread once its work is done; waits so long for it. Returns whether it has ended."""
        self._work.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        name_thread(self._thread.name)
        while True:
            item = self._work.get()
            if item is None:
                return
            future, call = item
            try:
                future.set_result(call())
            except BaseException as error:  # handed to whoever asked
                future.set_exception(error)
            del item, future, call
