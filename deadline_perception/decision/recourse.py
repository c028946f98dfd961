"""The best plan of which enough can still be taken back: what is likely to fit is tried, what is certain is kept open.

A path whose own bound does not fit may be begun all the same, where two things hold: it mostly fits, and from its next
operator on a path follows whose bound fits. Then a frame that goes as most do ends on the better path, and a slow one
is brought home by its later operators. (A decision of several stages with recourse, as in stochastic programming; the
later stages are decided by what the frame has really taken.)
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from deadline_perception.execution_path import ExecutionPath, PathSpace


class Recourse:
    """Looks up plans with a way back.

    Args:
        path_space: of the network.
        paths: those that may be chosen.
        remaining_ms: forecast of each path from each segment on, float64 `[segments, paths]`, never rising.
        qualities: float64 `[paths]`.
        prefix_numbers: number of each path's choices before a segment, int `[paths]`, from 0 on.

    Attributes:
        back_ms: forecast of the time from each segment to the end of a frame that goes on along a path until its next
            operator and on the shortest path from there: float64 `[segments, paths]`, at most `remaining_ms`.
    """

    def __init__(self, path_space: PathSpace, paths: Sequence[ExecutionPath], remaining_ms: np.ndarray,
                 qualities: np.ndarray, prefix_numbers: Callable[[int], np.ndarray]) -> None:
        self._remaining_ms, self._qualities, self._prefix_numbers = remaining_ms, qualities, prefix_numbers
        self.back_ms = remaining_ms.copy()
        saved_ms = np.zeros(len(paths))  # by turning to the shortest path at the next operator
        for segment in range(len(path_space.segments) - 1, -1, -1):
            self.back_ms[segment] -= saved_ms
            if path_space.segments[segment].operator is not None:
                numbers = prefix_numbers(segment)
                least_ms = np.full(numbers.max() + 1, np.inf)
                np.minimum.at(least_ms, numbers, remaining_ms[segment])
                decided = np.fromiter((path_space.applies(segment, path) for path in paths), bool, len(paths))
                saved_ms = np.where(decided, remaining_ms[segment] - least_ms[numbers], saved_ms)
        self._tables: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None] = (
            [None] * len(path_space.segments))

    def prepare(self) -> None:
        """Builds all tables now, so that no decision has to."""
        for segment in range(len(self._tables)):
            if self._tables[segment] is None:
                self._build(segment)

    def best(self, segment: int, prefix: int, left_ms: float, likely_left_ms: float) -> int | None:
        """The path of the highest quality, of equal ones the shortest, that has a way back and is likely to fit.

        Args:
            segment: that is about to begin.
            prefix: number of the choices made before it.
            left_ms: time left over the factor of a bound, which the way back must fit.
            likely_left_ms: time left over the factor that most frames stay below, which the path itself must fit.

        Returns:
            Its index; None where no path fits.
        """
        back_ms, remaining_ms, members, begins = self._tables[segment] or self._build(segment)
        begin, end = begins[prefix], begins[prefix + 1]
        fits = (back_ms[begin:end] <= left_ms) & (remaining_ms[begin:end] <= likely_left_ms)
        first = int(fits.argmax())
        return members.item(begin + first) if fits[first] else None

    def _build(self, segment: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Way back, remaining time and index of all paths, by prefix and then best first; where each prefix begins."""
        numbers, remaining_ms = self._prefix_numbers(segment), self._remaining_ms[segment]
        order = np.lexsort((remaining_ms, -self._qualities, numbers))
        begins = np.searchsorted(numbers[order], np.arange(numbers.max() + 2))
        table = self.back_ms[segment][order], remaining_ms[order], order, begins
        self._tables[segment] = table
        return table
