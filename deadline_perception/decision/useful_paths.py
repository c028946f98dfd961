"""The paths that are worth being kept ready: half of the segments of a network may serve none that is ever planned, or
only such as are hardly better than what else fits. Each takes time to prepare and to load, and memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.decision.frontier import LEVELS, FrontierPolicy
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.decision.policy import Quality
from deadline_perception.timing.path_bound import SegmentForecast

# Of the planned quality, in the mean over times, and over times and levels. Replayed: models/street.md.
_MOST_LOSS = 0.003
_LEAST_LOSS = 1e-4  # that is worth a try
_TIMES, _SHORTEST_MS = 200, 1e-3  # at which plans are compared, evenly on a log scale
_ROUNDING = 1e-9


def useful_paths(
    path_space: PathSpace,
    forecast: SegmentForecast,
    quality: Quality,
    among: Sequence[ExecutionPath] | None = None,
) -> list[ExecutionPath]:
    """Paths of few segments with which the best that fits is hardly worse than with all of the network, whatever time a
    frame has, and all others of these segments, to go on with. The shortest, the longest and the best are among them.

    Args:
        path_space: of the network.
        forecast: times of its paths and segments.
        quality: of its paths.
        among: those that can be kept; None: all.

    Raises:
        ValueError: forecast or quality gives values that are out of range.
    """
    every = list(path_space)
    known = PathQuality(dict(zip(every, quality.table(every).tolist())), predicts=False)
    ends_ms = [max(edge(forecast.table(every)), _SHORTEST_MS) for edge in (np.min, np.max)]
    times_ms = np.geomspace(*ends_ms, _TIMES)

    def planned(paths: Sequence[ExecutionPath]) -> float:
        """Quality in the mean over times and levels."""
        policy, total = FrontierPolicy(path_space, forecast, known, paths=paths), 0.0
        for p90_share in LEVELS:
            _, needed_ms, qualities = zip(*policy.starts(p90_share))
            fit = np.searchsorted(np.array(needed_ms) * (1.0 - _ROUNDING), times_ms, 'right')
            total += np.array([0.0, *qualities])[fit].mean()
        return total / len(LEVELS)

    kept = every if among is None else list(among)
    if path_space.result_segments:  # `PassPolicy` goes by times alone
        return _of_fewer_segments(every, forecast, known, kept, _MOST_LOSS)
    # A plan of `FrontierPolicy` that counts on being taken back needs the paths that it would turn to.
    least, most_loss = planned(every) - _MOST_LOSS, _MOST_LOSS
    while most_loss > _LEAST_LOSS:
        fewer = _of_fewer_segments(every, forecast, known, kept, most_loss)
        if fewer == kept or planned(fewer) >= least:
            return fewer
        most_loss /= 2.0
    return kept


def _of_fewer_segments(
    every: Sequence[ExecutionPath],
    forecast: SegmentForecast,
    quality: Quality,
    kept: Sequence[ExecutionPath],
    most_loss: float,
) -> list[ExecutionPath]:
    """What is left where segments go, one after another, with their paths, and with what only those run. First goes what
    loses least for the time that it takes when it runs: what takes long takes memory."""
    times_ms = np.maximum(forecast.table(every), _SHORTEST_MS)
    order = np.argsort(times_ms, kind='stable')
    log_ms, best = np.log(times_ms[order]), quality.table(every)[order]
    shares = np.diff(log_ms) / max(log_ms[-1] - log_ms[0], _ROUNDING)
    # Segments that the same paths run go together.
    run_by: dict[str, list[int]] = {}
    for place, at in enumerate(order.tolist()):
        for key in every[at].space.keys(every[at]):
            run_by.setdefault(key, []).append(place)
    costs_ms: dict[tuple[int, ...], float] = {}
    for key, places in run_by.items():
        costs_ms[tuple(places)] = costs_ms.get(tuple(places), 0.0) + forecast.costs_ms[key]
    runs = np.zeros((len(costs_ms), len(every)), bool)
    for row, columns in zip(runs, costs_ms):
        row[list(columns)] = True
    can_be_kept = set(kept)
    left = np.array([every[at] in can_be_kept for at in order])
    stay = [*np.flatnonzero(left)[[0, -1]], np.where(left, best, -1.0).argmax()]
    may_go = ~runs[:, stay].any(axis=1)
    cost_ms, of_all = np.array(list(costs_ms.values())), np.maximum.accumulate(best)
    while True:
        after = left & ~runs  # where a row's segments go
        reached = np.maximum.accumulate(np.where(after, best, 0.0), axis=1)
        loss = (of_all - reached)[:, :-1] @ shares
        goes_too = ~(np.packbits(after, axis=1)[:, None] & np.packbits(runs, axis=1)).any(axis=2)
        goes_too &= (runs & left).any(axis=1)
        goes = may_go & goes_too.diagonal() & (loss <= most_loss)
        if not goes.any():
            return [every[at] for at in sorted(order[left].tolist())]
        loss_per_ms = np.maximum(loss, _ROUNDING) / np.maximum(goes_too @ cost_ms, _ROUNDING)
        left = after[np.where(goes, loss_per_ms, np.inf).argmin()]


def paths_of(paths: Iterable[ExecutionPath], keys: Iterable[str]) -> list[ExecutionPath]:
    """Those of the paths that run no other segments than these."""
    known = set(keys)
    return [path for path in paths if known.issuperset(path.space.keys(path))]
