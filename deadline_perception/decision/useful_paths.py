"""The paths that are worth being kept ready: a third of the segments of a network may serve none that is ever planned,
and two thirds serve nearly all as well. Each of them takes time to prepare and to load, and some 2 MB of memory.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.decision.frontier import LEVELS, FrontierPolicy
from deadline_perception.decision.policy import Quality
from deadline_perception.timing.time_model import Forecast

# Of planned quality in the mean over times and levels. Measured: benchmarks/useful_paths.py of commit 7f184f1; by times
# of another device 131 of 294 segments lost 0.0013. By the shipped profiles 125 and 122 of 179 lose 0.0024.
_MOST_LOSS = 0.003
_FIRST_LOSS = 0.002  # of it as the choice sees it, to begin with
_TIMES, _SHORTEST_MS = (
    200,
    1e-3,
)  # between the shortest and the longest planned path, at which plans are compared
_ROUNDING = 1e-9


def useful_paths(
    path_space: PathSpace, forecast: Forecast, quality: Quality
) -> list[ExecutionPath]:
    """The paths of as few segments as a greedy choice finds with which the best that fits is hardly worse, whatever
    time a frame has, and all others of these segments, to go on with. The shortest and the longest are among them.

    Raises:
        ValueError: forecast or quality gives values that are out of range.
    """
    policy = FrontierPolicy(path_space, forecast, quality)
    shortest_ms, longest_ms = (max(policy.starts()[end][1], _SHORTEST_MS) for end in (0, -1))
    times_ms = np.geomspace(shortest_ms, longest_ms, _TIMES)
    worth = _worth(policy, times_ms)
    best, reached = np.max(list(worth.values()), axis=0), np.zeros((len(LEVELS), _TIMES))
    keys = {path: set(path_space.keys(path)) for path in worth}
    kept = {
        key for path in (path_space.smallest, path_space.largest) for key in path_space.keys(path)
    }
    loss = _FIRST_LOSS
    while worth:
        path = max(
            worth,
            key=lambda path: (
                (np.maximum(reached, worth[path]) - reached).sum() / (len(keys[path] - kept) + 1.0)
            ),
        )
        kept, reached = kept | keys[path], np.maximum(reached, worth.pop(path))
        if (best - reached).mean() <= loss:
            # A plan that counts on being taken back needs the paths that it would turn to, which are none of these.
            useful = paths_of(path_space, kept)
            rows = _worth(
                FrontierPolicy(path_space, forecast, quality, paths=useful), times_ms
            ).values()
            if (best - np.max(list(rows), axis=0)).mean() <= _MOST_LOSS:
                return useful
            loss /= 2.0
    return list(path_space)


def _worth(policy: FrontierPolicy, times_ms: np.ndarray) -> dict[ExecutionPath, np.ndarray]:
    """Quality of each path that is planned, by level and time; 0 where it does not fit."""
    worth: dict[ExecutionPath, np.ndarray] = {}
    for level, p90_share in enumerate(LEVELS):
        for path, needed_ms, quality in policy.starts(p90_share):
            rows = worth.setdefault(path, np.zeros((len(LEVELS), len(times_ms))))
            rows[level, times_ms >= needed_ms * (1.0 - _ROUNDING)] = quality
    return worth


def paths_of(paths: Iterable[ExecutionPath], keys: Iterable[str]) -> list[ExecutionPath]:
    """Those of the paths that run no other segments than these."""
    known = set(keys)
    return [path for path in paths if known.issuperset(path.space.keys(path))]
