"""The paths that are worth being kept ready: half of the segments of a network may serve none that is ever planned, or
only such as are hardly better than what else fits. Each takes time to prepare and to load, and memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.decision.policy import Quality
from deadline_perception.timing.time_model import Forecast

# Of quality: in the mean over times, and at any time.
_MOST_LOSS = 0.0007
_MOST_AT_ONCE = 0.02
_SHORTEST_MS = 1e-3
_ROUNDING = 1e-9


def useful_paths(
    path_space: PathSpace, forecast: Forecast, quality: Quality
) -> list[ExecutionPath]:
    """Paths of few segments with which `FrontierPolicy` plans hardly worse than with all, whatever time a frame has, and
    all others of these segments, to go on with. The shortest, the longest and the best are among them."""
    every = list(path_space)
    by_time = sorted(every, key=forecast.forecast_ms)
    stay = (by_time[0], by_time[-1], max(every, key=quality.quality))
    return fewer_segments(every, forecast, np.asarray(quality.table(every)), stay, _MOST_LOSS)


def fewer_segments(
    every: Sequence[ExecutionPath],
    forecast: Forecast,
    qualities: np.ndarray,
    stay: Collection[ExecutionPath],
    most_loss: float,
) -> list[ExecutionPath]:
    """What is left where segments go, one after another, with their paths and with what only these run, as long as the
    best that fits is hardly worse than with all paths: in the mean over times from the shortest to the longest, evenly
    on a log scale, and at any time. First goes what loses least for the number of segments that go.

    Args:
        every: paths of a network.
        forecast: times of the paths.
        qualities: of the paths.
        stay: paths that are left.
        most_loss: of quality, in the mean over times.
    """
    times_ms = np.maximum(forecast.table(every), _SHORTEST_MS)
    order = np.argsort(times_ms, kind='stable')
    log_ms = np.log(times_ms[order])
    best = qualities[order]
    shares = np.diff(log_ms, append=log_ms[-1]) / max(log_ms[-1] - log_ms[0], _ROUNDING)
    run_by: dict[str, list[int]] = {}
    for place, at in enumerate(order.tolist()):
        for key in every[at].space.keys(every[at]):
            run_by.setdefault(key, []).append(place)
    alike = Counter(map(tuple, run_by.values()))  # segments that the same paths run
    runs = np.zeros((len(alike), len(every)), bool)
    counts = np.array(list(alike.values()))
    for row, places in zip(runs, alike):
        row[list(places)] = True
    left = np.array([True] * len(every))
    stays = np.array([every[at] in stay for at in order])
    of_all = np.maximum.accumulate(best)
    may_go = ~(runs & stays).any(axis=1)
    while True:
        after = left & ~runs  # where a row's segments go
        lost = of_all - np.maximum.accumulate(np.where(after, best, 0.0), axis=1)
        loss = lost @ shares
        go = ~(np.packbits(after, axis=1)[:, None] & np.packbits(runs, axis=1)).any(axis=2)
        go &= (runs & left).any(axis=1)
        can_go = may_go & go.diagonal() & (loss <= most_loss) & (lost.max(axis=1) <= _MOST_AT_ONCE)
        if not can_go.any():
            return [every[at] for at in sorted(order[left].tolist())]
        each = np.maximum(loss, _ROUNDING) / np.maximum(go @ counts, 1)
        left = after[np.where(can_go, each, np.inf).argmin()]


def paths_of(paths: Iterable[ExecutionPath], keys: Iterable[str]) -> list[ExecutionPath]:
    """Those of the paths that run no other segments than these."""
    known = set(keys)
    return [path for path in paths if known.issuperset(path.space.keys(path))]
