"""Acts in time in place of whoever hangs, whatever hangs: also when it is an act of its own."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable

from deadline_perception.core.stopwatch import now_ms
from deadline_perception.system.kernel_thread import name_thread

Act = Callable[[], object]
# When to look again, and what to do now: None while nothing is due.
NextDue = Callable[[float], tuple[float, 'Act | None']]

MAX_THREADS = 8  # so many acts may hang at once
SPARE_THREADS = 2  # that do not hang: one watches, one relieves it
_LOG = logging.getLogger('deadline_perception')
LONGEST_WAIT_S = 1.0  # looks again after that, whatever was asked


def tell(failed: Callable[[BaseException], None], error: BaseException) -> None:
    """Tells an error at the outermost frame of a thread, which must outlive it, and whoever receives it."""
    try:
        failed(error)
    except BaseException:  # whoever receives it fails, or exits, too
        _LOG.exception('an error could not be reported: %s: %s', type(error).__name__, error)


class Watchdog:
    """Threads of which one waits for the next due time. One that acts is relieved by another before it begins, which is
    started where none is spare; one that is spare beyond two after its act ends.

    Args:
        failed: receives what an act or a question raises; the watch goes on.
        prepare: called by each thread before its first watch, so that its first act need not.

    Attributes:
        hanging: acts under way.
    """

    def __init__(
        self, failed: Callable[[BaseException], None], prepare: Callable[[], None] = lambda: None
    ) -> None:
        self._failed = failed
        self._prepare = prepare
        self._polls: list[NextDue] = []
        self._lock = threading.Lock()
        self._due_changed = threading.Condition(self._lock)
        self._watch_free = threading.Condition(self._lock)
        self._due_ms = -math.inf
        self._watcher: threading.Thread | None = None
        self._stopped = False
        self.hanging = 0
        self._threads: list[threading.Thread] = []
        with self._lock:
            for _ in range(SPARE_THREADS):
                self._start_thread()

    @property
    def fault(self) -> str:
        """Why nobody watches any more, empty while somebody does or after `stop`."""
        with self._lock:
            if (
                self._stopped
                or any(thread.is_alive() for thread in self._threads)
                and self.hanging < MAX_THREADS
            ):
                return ''
            return (
                f'all {self.hanging} threads of the watchdog hang'
                if self.hanging >= MAX_THREADS
                else 'the threads of the watchdog have ended'
            )

    @property
    def threads(self) -> list[threading.Thread]:
        """Those that watch, are spare, or hang."""
        with self._lock:
            return list(self._threads)

    def watch(self, next_due: NextDue) -> None:
        """From now on asks also this one what is due; it must not block, and is called by one thread at a time."""
        with self._lock:
            self._polls.append(next_due)

    def forget(self, next_due: NextDue) -> None:
        """Asks this one no more."""
        with self._lock:
            if next_due in self._polls:
                self._polls.remove(next_due)

    def arm(self, due_ms: float) -> None:
        """Something will be due at a time of the monotonic clock; times that passed into nothing are harmless."""
        with self._lock:
            if due_ms < self._due_ms:
                self._due_changed.notify()

    def dismiss(self) -> None:
        """Lets the threads end; does not wait."""
        with self._lock:
            self._stopped = True
            self._due_changed.notify_all()
            self._watch_free.notify_all()

    def stop(self) -> None:
        """Ends the threads but for those that hang."""
        self.dismiss()
        for thread in list(self._threads):
            if thread is not threading.current_thread() and self.hanging == 0:
                thread.join(timeout=1.0)

    def _start_thread(self) -> None:
        if len(self._threads) < MAX_THREADS:
            thread = threading.Thread(target=self._serve, name='watchdog', daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self) -> None:
        name_thread('watchdog')
        try:
            self._prepare()
        except BaseException as error:  # a permission that is refused; it watches all the same
            tell(self._failed, error)
        me = threading.current_thread()
        while True:
            with self._lock:
                while self._watcher is not None and self._watcher.is_alive() and not self._stopped:
                    self._watch_free.wait(LONGEST_WAIT_S)
                self._watcher = me
                act = self._await_due()
                self._watcher = None
                if act is None:
                    return
                self.hanging += 1
                if self._spare() < 1:
                    self._start_thread()
                self._watch_free.notify()
            try:
                act()
            except BaseException as error:  # the outermost frame: the next one needs a watchdog too
                tell(self._failed, error)
            finally:
                with self._lock:
                    self.hanging -= 1
                    if self._spare() > SPARE_THREADS:
                        self._threads.remove(me)
            if me not in self._threads:
                return

    def _spare(self) -> int:
        """Living threads that are at no act."""
        return sum(thread.is_alive() for thread in self._threads) - self.hanging

    def _await_due(self) -> Act | None:
        """Waits, holding the lock otherwise, for something to do; None when stopped."""
        while not self._stopped:
            self._due_ms = math.inf
            act = None
            try:
                for next_due in self._polls:
                    due_ms, act = next_due(now_ms())
                    if act is not None:
                        return act
                    self._due_ms = min(self._due_ms, due_ms)
            except BaseException as error:  # as above
                tell(self._failed, error)
            wait_s = min((self._due_ms - now_ms()) / 1000.0, LONGEST_WAIT_S)
            if wait_s > 0:
                self._due_changed.wait(wait_s)
        return None
