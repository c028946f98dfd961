"""Expected times under contention, where a profile has times at levels of it: of each path, not of all by one factor.

Contention stretches paths differently: what other programs take of caches and memory costs wide layers more than narrow
ones, and a wait for a core costs whoever is at work. So each level has costs of its own per segment, and between two
levels they are interpolated by the slowdown observed. The level's own slowdown is the geometric mean, over the paths
measured, of their times there over those on the idle device; beyond the last level its costs grow with the slowdown as
a whole.
"""
from __future__ import annotations

import math
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np

from deadline_perception.execution_path import PathSpace
from deadline_perception.latency.path_bound import PathForecast, SegmentForecast
from deadline_perception.latency.profile import LatencyProfile

KNOT_RATIO = 1.1  # of the slowdowns of neighbours; between them the lower one's costs grow as a whole
_NEAREST_RATIO = 1.02  # a level that lies nearer to the one below says nothing of its own


@dataclass(frozen=True, eq=False)
class Knot:
    """Forecasts for one range of slowdowns.

    Attributes:
        slowdown: where the range begins, >= 1.
        forecast: expected times over the slowdown: times the slowdown observed they are the times to expect. Those of
            the first knot are the idle device's.
    """

    slowdown: float
    forecast: SegmentForecast


def level_knots(profile: LatencyProfile, path_space: PathSpace) -> tuple[Knot, ...]:
    """Forecasts by slowdown, ascending; only the idle device's where the profile has no levels.

    No segment is ever expected to take less than on the idle device, nor less than at a lower level.

    Raises:
        ProfileMismatch: as `PathForecast`.
    """
    idle = PathForecast(profile, path_space)
    names = list(idle.costs_ms)
    anchors = [(1.0, np.array([idle.costs_ms[name] for name in names]))]
    for slowdown, costs_ms in sorted((_level(profile, at, path_space, idle) for at in range(len(profile.levels))),
                                     key=lambda level: level[0]):
        if slowdown > anchors[-1][0] * _NEAREST_RATIO:
            anchors.append((slowdown, np.maximum(anchors[-1][1], [costs_ms[name] for name in names])))
    knots = [Knot(1.0, idle)]
    for (low, low_ms), (high, high_ms) in zip(anchors, anchors[1:]):
        parts = math.ceil(math.log(high / low) / math.log(KNOT_RATIO))
        for slowdown in np.geomspace(low, high, parts + 1)[1:]:
            share = (slowdown - low) / (high - low)
            costs_ms = ((1.0 - share) * low_ms + share * high_ms) / slowdown
            knots.append(Knot(float(slowdown), SegmentForecast(path_space, dict(zip(names, costs_ms.tolist())))))
    return tuple(knots)


def _level(profile: LatencyProfile, at: int, path_space: PathSpace,
           idle: PathForecast) -> tuple[float, dict[str, float]]:
    """Slowdown of a level and the expected times of its segments.

    A segment's mean stands for it: while others take turns on a core, most short segments see none of them, so that
    their medians add up to less than any frame takes.
    """
    level = profile.levels[at]
    forecast = PathForecast(replace(profile, segments=level.segments, paths=level.paths, levels=()), path_space,
                            attrgetter('mean_ms'))
    measured = [path_space.parse(name) for name in level.paths] or [path_space.smallest, path_space.largest]
    ratios = np.log(forecast.table(measured) / idle.table(measured))
    return math.exp(float(ratios.mean())), forecast.costs_ms
