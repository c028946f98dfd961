"""What interruptions take of a device: measured by watching the clock, added to worst-case execution times by
response-time analysis.

An interruption of a ms is longer than most segments. A bound for each segment that holds one, added up over a path,
would count it a dozen times; so execution is bounded apart, and interruptions for the path as a whole. With I(w) the
time that they take of a window of w ms, what executes for C ms has ended after R = C + I(R) (Joseph and Pandya 1986,
with the measured I in place of the sum over tasks). Needs no torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deadline_perception.core.stopwatch import now_ms

WINDOWS_MS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0)
_NOTICED_MS = 0.02  # between two looks at the clock, which are some 0.1 us apart


@dataclass(frozen=True)
class Interference:
    """Time that interruptions take of a window, by the window's length.

    Attributes:
        windows_ms: lengths, ascending.
        taken_ms: what interruptions take of each, not descending, and at most the window.

    Raises:
        ValueError: values are out of range or order, or as many of one kind as of the other are missing.
    """

    windows_ms: tuple[float, ...] = ()
    taken_ms: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in ('windows_ms', 'taken_ms'):
            object.__setattr__(self, name, tuple(float(value) for value in getattr(self, name)))
        pairs = list(zip(self.windows_ms, self.taken_ms))
        ordered = all(a[0] < b[0] and a[1] <= b[1] for a, b in zip(pairs, pairs[1:]))
        if (
            len(self.windows_ms) != len(self.taken_ms)
            or not ordered
            or not all(
                0.0 < window < math.inf and 0.0 <= taken <= window for window, taken in pairs
            )
        ):
            raise ValueError(
                f'interference is {self.taken_ms} ms of windows of {self.windows_ms} ms, expected as many '
                f'of both, ascending, and each at most its window'
            )

    def most_ms(self, window_ms: np.ndarray | float) -> np.ndarray:
        """What interruptions take of windows of these lengths; the shares of the longest one measured hold beyond."""
        window_ms = np.asarray(window_ms, float)
        if not self.windows_ms:
            return np.zeros_like(window_ms)
        within = np.interp(window_ms, (0.0, *self.windows_ms), (0.0, *self.taken_ms))
        return np.where(
            window_ms > self.windows_ms[-1],
            self.taken_ms[-1] * window_ms / self.windows_ms[-1],
            within,
        )

    def response_ms(self, execution_ms: np.ndarray | float) -> np.ndarray:
        """The time after which what executes for so long has ended, infinite where interruptions take all there is.

        Args:
            execution_ms: times without interruption, >= 0, of any shape.
        """
        execution_ms = np.asarray(execution_ms, float)
        if not self.windows_ms:
            return execution_ms
        free = 1.0 - self.taken_ms[-1] / self.windows_ms[-1]
        beyond_ms = execution_ms / free if free > 0.0 else math.inf
        executed_ms, ended_ms = self._responses
        within_ms = np.interp(execution_ms, executed_ms, ended_ms)
        response_ms = np.where(execution_ms > executed_ms[-1], beyond_ms, within_ms)
        return np.where(execution_ms > 0.0, response_ms, 0.0)

    @cached_property
    def _responses(self) -> tuple[list[float], list[float]]:
        """Executions in ms, ascending, and when each has ended; in between lines."""
        executed_ms, ended_ms = [0.0], [self.taken_ms[0]]
        left_ms, before_ms = 0.0, self.taken_ms[0]
        for window_ms, taken_ms in zip(self.windows_ms, self.taken_ms):
            most_ms = executed_ms[-1]
            free_ms = window_ms - taken_ms  # that executes within the window
            if free_ms > most_ms:
                if left_ms < most_ms:  # a longer window had less than a shorter one
                    share = (most_ms - left_ms) / (free_ms - left_ms)
                    executed_ms.append(most_ms)
                    ended_ms.append(before_ms + share * (window_ms - before_ms))
                executed_ms.append(free_ms)
                ended_ms.append(window_ms)
            left_ms, before_ms = free_ms, window_ms
        return executed_ms, ended_ms


@dataclass(frozen=True)
class WcetTable:
    """Worst cases of one network on one device, otherwise idle, as they lie in a profile.

    A bound of a path, or of what is left of one, is the response time of the sum of its segments. What fits the table
    is `timing/wcet/segment_model.py`.

    Attributes:
        segments_ms: longest execution of each segment without interruptions, by the names of `PathSpace.key`.
        interference: what interruptions take.

    Raises:
        ValueError: there is no segment, or a time is negative or not finite.
    """

    segments_ms: Mapping[str, float]
    interference: Interference

    def __post_init__(self) -> None:
        if not self.segments_ms or not all(
            0.0 <= value < math.inf for value in self.segments_ms.values()
        ):
            raise ValueError(
                f'{len(self.segments_ms)} segments have worst-case times, expected at least one, each '
                f'finite and of at least 0 ms'
            )

    def bound_ms(self, execution_ms: np.ndarray | float) -> np.ndarray:
        """Worst case of what executes for so long without interruptions."""
        return self.interference.response_ms(execution_ms)


def interference_of(
    gaps_ms: Sequence[tuple[float, float]], length_ms: float, probability: float
) -> Interference:
    """How much interruptions take, from when they came.

    Args:
        gaps_ms: begin and length of each interruption, in order, within the time that was watched.
        length_ms: of that time, > 0.
        probability: share of all windows of a length that have no more taken from them, in (0, 1].
    """
    begin, taken = (np.array([gap[part] for gap in gaps_ms], float) for part in (0, 1))
    # Time taken up to any moment rises while an interruption lasts, and is flat between.
    moments = np.concatenate(([0.0], np.column_stack((begin, begin + taken)).ravel(), [length_ms]))
    sums = np.concatenate(
        (
            [0.0],
            np.column_stack((np.cumsum(taken) - taken, np.cumsum(taken))).ravel(),
            [float(taken.sum())],
        )
    )
    windows = [window for window in WINDOWS_MS if window <= length_ms / 4.0]
    found = []
    for window in windows:
        # A window that begins or ends with an interruption has most of it taken: these are among those looked at.
        edges = (
            np.concatenate((begin, begin + taken - window)) if probability >= 1.0 else np.empty(0)
        )
        evenly = np.arange(0.0, length_ms - window, window / 8.0)
        starts = np.clip(np.concatenate((evenly, edges)), 0.0, length_ms - window)
        within = np.interp(starts + window, moments, sums) - np.interp(starts, moments, sums)
        found.append(min(round(float(np.quantile(within, probability)), 4), window))
    return Interference(
        tuple(windows), tuple(np.maximum.accumulate(found).tolist()) if found else ()
    )


def watch_interruptions(seconds: float) -> tuple[list[tuple[float, float]], float]:
    """Watches the clock without a pause: begin and length in ms of each interruption, and the time watched in ms."""
    gaps = []
    start_ms = now_ms()
    before_ms = start_ms
    end_ms = start_ms + 1000.0 * seconds
    while before_ms < end_ms:
        at_ms = now_ms()
        if at_ms - before_ms > _NOTICED_MS:
            gaps.append((before_ms - start_ms, at_ms - before_ms))
        before_ms = at_ms
    return gaps, before_ms - start_ms
