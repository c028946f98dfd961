"""What may be begun because it can still be taken back: the time that has to fit a bound if a path is to be planned.

A path whose own bound does not fit may be planned all the same, where at every operator from here on, reached at the
pace that is likely, another path follows that is bound to fit. Then a frame that goes as most do ends on the better
path, and a slow one is brought home by its later operators. (A decision of several stages with recourse, as in
stochastic programming; the later stages are decided by what the frame has really taken.)
"""
from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from deadline_perception.core.execution_path import PathSpace

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of how likely a pace is; one between two is taken to be the slower one


def level_of(likely: float) -> float:
    """The level that a share of a bound, in (0, 1], is taken for."""
    return LEVELS[bisect_left(LEVELS, likely)]


def needed_times_ms(path_space: PathSpace, settings: np.ndarray, remaining_ms: np.ndarray,
                    prefix_numbers: Callable[[int], np.ndarray], likely: float) -> np.ndarray:
    """The forecast whose bound has to fit as a segment begins, so that each path can be planned from there on.

    Here that is the forecast of going on along the path until its next operator and on the shortest path from there. At
    each later operator it is the same, with what is likely to have been taken until then.

    Args:
        path_space: of the network.
        settings: of the paths that may be chosen, int `[paths, operators]`.
        remaining_ms: forecast of each path from each segment on, float64 `[segments, paths]`, never rising.
        prefix_numbers: number of each path's choices before a segment, int `[paths]`, from 0 on.
        likely: share of its bound that a part of a frame is likely to stay below, in (0, 1].

    Returns:
        float64 `[segments, paths]`, at most `remaining_ms`, and that where `likely` is 1; always that for the shortest
        path that may follow on given choices.
    """
    needed_ms = remaining_ms.copy()
    # At the next operator of each path, if there is one: what turning to the shortest path saves there, the forecast
    # from there on, and what is needed there.
    saved_ms, next_ms = np.zeros(len(settings)), np.zeros(len(settings))
    next_needed_ms = np.full(len(settings), -np.inf)
    for segment in range(len(path_space.segments) - 1, -1, -1):
        here_ms = remaining_ms[segment]
        needed_ms[segment] = np.minimum(here_ms, np.maximum(here_ms - saved_ms,
                                                            likely * (here_ms - next_ms) + next_needed_ms))
        if path_space.segments[segment].operator is not None:
            numbers = prefix_numbers(segment)
            least_ms = np.full(numbers.max() + 1, np.inf)
            np.minimum.at(least_ms, numbers, here_ms)
            condition = path_space.conditions[segment]
            decides = True if condition is None else settings[:, condition[0]] == condition[1]
            saved_ms = np.where(decides, here_ms - least_ms[numbers], saved_ms)
            next_ms = np.where(decides, here_ms, next_ms)
            next_needed_ms = np.where(decides, needed_ms[segment], next_needed_ms)
    return needed_ms
