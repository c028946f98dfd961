"""Schedulability of many selections of options at once: the conditions of `feasibility` for all periods that may occur.

The lengths at which conditions are looked at depend on the periods of a selection. Here they are those of all periods
together: more than needed, and a condition at any length has to hold, so the answers are the same and exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deadline_perception.extras.several_networks.scheduling.feasibility import (
    exact_utilisation,
    release_points,
)

_CLOSE = 1e-9  # a utilisation this near to 1 is added up exactly


class DemandTable:
    """Which demand each period brings about at each length.

    Args:
        periods: all that may occur, whole ns; repetitions are left out.

    Attributes:
        periods: int64 `[P]`, ascending.
        lengths: int64 `[T]`, ascending: the lengths L at which demand may grow, below the longest period.
        releases: int64 `[P, T]`: jobs of a period that are released within L less 1, `floor((L - 1) / p)`.
        reach: int64 `[T]`: place of the shortest period of which a job can block at L.

    Raises:
        ValueError: the lengths are more than `feasibility.MOST_POINTS`.
    """

    def __init__(self, periods: Sequence[int]) -> None:
        self.periods = np.unique(np.array(periods, dtype=np.int64))
        self.lengths = release_points(self.periods.tolist()) + 1
        self.releases = (self.lengths - 1) // self.periods[:, None]
        self.reach = np.searchsorted(self.periods, self.lengths - 1, side='right')

    def places(self, periods: np.ndarray) -> np.ndarray:
        """Place of each of some periods of the table among them."""
        return np.searchsorted(self.periods, periods)

    def demand(self, times: np.ndarray, places: np.ndarray) -> np.ndarray:
        """What a selection releases within each length: int64 `[T]`.

        Args:
            times: int64 `[n]`, ns, of the tasks.
            places: int64 `[n]`, of their periods.
        """
        return times @ self.releases[places]

    def holds(self, times: np.ndarray, places: np.ndarray, demand: np.ndarray) -> np.ndarray:
        """Whether selections meet all conditions but that of utilisation: bool `[S]`.

        Args:
            times: int64 `[S, n]`, ns.
            places: int64 `[S, n]`.
            demand: int64 `[S, T]`, as `demand` gives it.
        """
        blocking = np.empty((len(times), len(self.periods) + 1), dtype=np.int64)
        blocking[:, -1] = 0
        for place in range(len(self.periods) - 1, -1, -1):
            blocking[:, place] = np.maximum(
                blocking[:, place + 1], np.where(places == place, times, 0).max(axis=1)
            )
        return ((demand == 0) | (demand + blocking[:, self.reach] <= self.lengths)).all(axis=1)

    def failing(self, times: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Places of the lengths at which one selection fails, the worst first: int64 `[k]`."""
        demand = self.demand(times, places)
        blocking = np.array(
            [times[places >= reach].max(initial=0) for reach in self.reach.tolist()], dtype=np.int64
        )
        excess = np.where(demand == 0, 0.0, (demand + blocking) / self.lengths)
        fails = np.flatnonzero((demand != 0) & (demand + blocking > self.lengths))
        return fails[np.argsort(-excess[fails], kind='stable')]


def fits_processor(times: np.ndarray, periods: np.ndarray, utilisation: float) -> bool:
    """Whether the utilisation is at most 1, exactly; far from 1 the float says so."""
    if abs(utilisation - 1.0) > _CLOSE:
        return utilisation < 1.0
    return exact_utilisation(times.tolist(), periods.tolist()) <= 1
