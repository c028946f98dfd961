"""A wish that a long command end early: after so many minutes, or because its process was signalled."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager


class StopRequest:
    """True, when called, from the moment on that the command should end.

    Args:
        minutes: after which it should, counted from now; None for no limit.

    Attributes:
        signal_number: the signal that asked for it, None without.

    Raises:
        ValueError: the minutes are not above 0.
    """

    def __init__(self, minutes: float | None = None) -> None:
        if minutes is not None and not 0.0 < minutes < math.inf:
            raise ValueError(f'minutes is {minutes}, expected a finite number above 0')
        self._end_s = math.inf if minutes is None else time.monotonic() + 60.0 * minutes
        self.signal_number: int | None = None

    def __call__(self) -> bool:
        return self.signal_number is not None or time.monotonic() >= self._end_s

    @property
    def exit_status(self) -> int:
        """Of a command that ended because of the request: 0 when its time was up, else what shells say of a signal."""
        return 0 if self.signal_number is None else 128 + self.signal_number

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Takes SIGTERM or Ctrl-C as a request while the block runs; a second one acts as without it.

        Only the main thread may.
        """
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

        def restore() -> None:
            for number, handler in before.items():
                signal.signal(number, handler)

        def note(number: int, frame: object) -> None:
            self.signal_number = number
            restore()

        for number in before:
            signal.signal(number, note)
        try:
            yield
        finally:
            restore()
