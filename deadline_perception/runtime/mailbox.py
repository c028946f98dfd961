"""A place for one frame, where a newer one replaces an older one that nobody took."""
from __future__ import annotations

import threading
from typing import Generic, TypeVar

Item = TypeVar('Item')


class Mailbox(Generic[Item]):
    """Hands the newest item from a light callback to a thread that works on it; safe from any number of threads.

    Every item put is counted once: `put_total == taken_total + replaced_total + pending`. Items put after `close`
    are dropped and counted in `refused_total` alone.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: list[Item] = []
        self._replaced_since_take = 0
        self._put = self._taken = self._replaced = self._refused = 0
        self._closed = False

    def put(self, item: Item) -> None:
        """Leaves an item, in place of the one before when that was not taken. Never waits for a taker."""
        with self._changed:
            if self._closed:
                self._refused += 1
                return
            self._put += 1
            if self._held:
                self._replaced += 1
                self._replaced_since_take += 1
            self._held = [item]
            self._changed.notify()

    def take(self, timeout_s: float | None = None) -> tuple[Item, int] | None:
        """Blocks until there is an item, the time is up, or the slot is closed.

        Args:
            timeout_s: longest wait, None for any length, 0 or less for no wait.

        Returns:
            The item and how many were replaced since the previous take; None when the time is up or the slot is
            closed (an item still held then stays `pending`).

        Raises:
            ValueError: `timeout_s` is NaN.
        """
        if timeout_s is not None and timeout_s != timeout_s:
            raise ValueError('timeout is NaN s, expected a number or None')
        limit_s = None if timeout_s is None else min(max(timeout_s, 0.0), threading.TIMEOUT_MAX)
        with self._changed:
            self._changed.wait_for(lambda: self._held or self._closed, limit_s)
            if self._closed or not self._held:
                return None
            item = self._held.pop()
            replaced, self._replaced_since_take = self._replaced_since_take, 0
            self._taken += 1
            return item, replaced

    def close(self) -> None:
        """Wakes every waiting taker with None; from now on nothing is held or given."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """`close` was called."""
        return self._closed

    @property
    def put_total(self) -> int:
        """Items put before the slot was closed."""
        return self._put

    @property
    def taken_total(self) -> int:
        """Items taken."""
        return self._taken

    @property
    def replaced_total(self) -> int:
        """Items that a newer one replaced before anybody took them."""
        return self._replaced

    @property
    def refused_total(self) -> int:
        """Items put after the slot was closed."""
        return self._refused

    @property
    def pending(self) -> int:
        """Items held now: 0 or 1."""
        return len(self._held)
