"""Where frames wait for the thread that works on them: one place per task, in which a newer frame replaces an older."""

from __future__ import annotations

import math
import threading
from typing import Generic, TypeVar

from deadline_perception.core.stopwatch import now_ms

Task = TypeVar('Task')
Item = TypeVar('Item')


class Mailbox(Generic[Task, Item]):
    """Hands items from callbacks to a worker, of those released that of the earliest deadline first; safe from any
    number of threads.

    Of each task it keeps the newest item alone.

    Attributes:
        closed: `close` was called.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._places: dict[
            Task, tuple[float, Item, float]
        ] = {}  # when it is due, the item, when it is released
        self.closed = False
        self._at_work: list[Task] = []

    def put(
        self,
        task: Task,
        item: Item,
        due_ms: float,
        release_ms: float = -math.inf,
    ) -> Item | None:
        """Leaves an item of a task, which is not taken before its release; never waits for a taker.

        Returns:
            The task's item before, when nobody took it and this one replaces it; the item itself once the mailbox is
            closed, which holds nothing.
        """
        with self._changed:
            if self.closed:
                return item
            before = self._places.get(task, (due_ms, None))[1]
            self._places[task] = due_ms, item, release_ms
            self._changed.notify_all()
            return before

    def take(self, timeout_s: float | None = None) -> tuple[Task, Item] | None:
        """Blocks until there is an item, the time is up, or the mailbox is closed.

        Args:
            timeout_s: longest wait, None for any length, 0 or less for no wait.

        Returns:
            Of the item that is due first, its task and itself; None when the time is up or the mailbox is closed.
        """
        end_ms = math.inf if timeout_s is None else now_ms() + 1000.0 * timeout_s
        with self._changed:
            while not self.closed:
                at_ms = now_ms()
                first = None
                first_due_ms = math.inf
                wake_ms = end_ms
                for task, (due_ms, _, release_ms) in self._places.items():
                    if release_ms > at_ms:
                        wake_ms = min(wake_ms, release_ms)
                    elif first is None or due_ms < first_due_ms:
                        first = task
                        first_due_ms = due_ms
                if first is not None:
                    self._at_work.append(first)
                    return first, self._places.pop(first)[1]
                if at_ms >= end_ms:
                    break
                self._changed.wait(min((wake_ms - at_ms) / 1000.0, threading.TIMEOUT_MAX))
            return None

    def done(self, task: Task) -> None:
        """Said by a taker that is done with an item of a task."""
        with self._changed:
            self._at_work.remove(task)
            self._changed.notify_all()

    def discard(self, task: Task) -> None:
        """Drops the item of a task that waits, if one does."""
        with self._changed:
            self._places.pop(task, None)
            self._changed.notify_all()

    def wait_until_idle(self, task: Task | None = None, timeout_s: float | None = None) -> bool:
        """Blocks until no item of a task, or of any, waits or is at work, at most so long. Returns whether that is
        so."""

        def is_idle() -> bool:
            here = (*self._places, *self._at_work)
            return not here if task is None else task not in here

        with self._changed:
            return self._changed.wait_for(is_idle, timeout_s)

    @property
    def at_work(self) -> tuple[Task, ...]:
        """Tasks of which an item was taken that is not done with."""
        return tuple(self._at_work)

    def postpone(self, task: Task, item: Item) -> None:
        """From now on the items of all other tasks go before it, if no worker has it."""
        with self._changed:
            if task in self._places and self._places[task][1] is item:
                self._places[task] = math.inf, item, -math.inf

    def waiting_others(self, task: Task) -> int:
        """How many other tasks have an item that waits and was not postponed."""
        with self._changed:
            return sum(
                place[0] < math.inf for other, place in self._places.items() if other is not task
            )

    def close(self) -> list[tuple[Task, Item]]:
        """Wakes every waiting taker with None; from now on nothing is held or given. Returns what nobody took."""
        with self._changed:
            self.closed = True
            left = [(task, place[1]) for task, place in self._places.items()]
            self._places.clear()
            self._changed.notify_all()
            return left
