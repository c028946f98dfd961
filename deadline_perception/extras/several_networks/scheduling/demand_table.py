"""Schedulability of many selections of options at once: the conditions of `feasibility` for all periods that may occur.

The lengths at which conditions are looked at depend on the periods and deadlines of a selection. Here they are those of
all together: more than needed, and a condition at any length has to hold, so the answers are the same and exact. What
lies beyond the longest deadline is not in the table (`feasibility.overloaded_length`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deadline_perception.extras.several_networks.scheduling.feasibility import (
    deadline_points,
    exact_utilisation,
)

_CLOSE = 1e-9  # a utilisation this near to 1 is added up exactly


class DemandTable:
    """Which demand each pair of a period and a deadline brings about at each length.

    Args:
        periods: of all options, whole ns.
        deadlines: of all options, likewise, each at most its period.

    Attributes:
        deadlines: int64 `[P]`, ascending, of the distinct pairs.
        places: int64 `[N]`, of each option's pair among them.
        lengths: int64 `[T]`, ascending: the lengths L at which demand may grow, each 1 longer than a deadline below the
            longest.
        releases: int64 `[P, T]`: jobs of a pair that are released and due within L less 1.
        reach: int64 `[T]`: place of the shortest deadline of which a job can block at L.

    Raises:
        ValueError: the lengths are more than `feasibility.MOST_POINTS`.
    """

    def __init__(self, periods: Sequence[int], deadlines: Sequence[int]) -> None:
        pairs, places = np.unique(
            np.array([deadlines, periods], dtype=np.int64), axis=1, return_inverse=True
        )
        self.deadlines, self.places = pairs[0], places.ravel()
        points = deadline_points(pairs[1].tolist(), pairs[0].tolist())
        self.lengths = points + 1
        self.releases = np.maximum((points - pairs[0][:, None]) // pairs[1][:, None] + 1, 0)
        self.reach = np.searchsorted(self.deadlines, points, side='right')

    def demand(self, times: np.ndarray, places: np.ndarray) -> np.ndarray:
        """What a selection releases within each length: int64 `[T]`.

        Args:
            times: int64 `[n]`, ns, of the tasks.
            places: int64 `[n]`, of their pairs.
        """
        return times @ self.releases[places]

    def holds(self, segments: np.ndarray, places: np.ndarray, demand: np.ndarray) -> np.ndarray:
        """Whether selections meet all conditions up to the longest deadline but that of utilisation: bool `[S]`.

        Args:
            segments: int64 `[S, n]`, ns, the longest one of each task.
            places: int64 `[S, n]`.
            demand: int64 `[S, T]`, as `demand` gives it.
        """
        blocking = np.empty((len(segments), len(self.deadlines) + 1), dtype=np.int64)
        blocking[:, -1] = 0
        for place in range(len(self.deadlines) - 1, -1, -1):
            blocking[:, place] = np.maximum(
                blocking[:, place + 1], np.where(places == place, segments, 0).max(axis=1)
            )
        return ((demand == 0) | (demand + blocking[:, self.reach] <= self.lengths)).all(axis=1)

    def failing(self, times: np.ndarray, segments: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Places of the lengths at which one selection fails, the worst first: int64 `[k]`."""
        demand = self.demand(times, places)
        blocking = np.array(
            [segments[places >= reach].max(initial=0) for reach in self.reach.tolist()],
            dtype=np.int64,
        )
        excess = np.where(demand == 0, 0.0, (demand + blocking) / self.lengths)
        fails = np.flatnonzero((demand != 0) & (demand + blocking > self.lengths))
        return fails[np.argsort(-excess[fails], kind='stable')]


def fits_processor(times: np.ndarray, periods: np.ndarray, utilisation: float) -> bool:
    """Whether the utilisation is at most 1, exactly; far from 1 the float says so."""
    if abs(utilisation - 1.0) > _CLOSE:
        return utilisation < 1.0
    return exact_utilisation(times.tolist(), periods.tolist()) <= 1
