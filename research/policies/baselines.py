"""Simple policies that the others are measured against."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.policy import Choice, Quality
from deadline_perception.timing.time_model import Forecast


class FixedPath:
    """Always the same path, however little time is left: an ordinary detector."""

    name = 'fixed'
    keeps_bounds = False

    def __init__(self, path: ExecutionPath, forecast: Forecast, quality: Quality) -> None:
        self._path = path
        self._forecast = forecast
        self._quality = cache(quality.quality)  # one that is predicted takes long

    def plan(self, remaining_ms: float, factor: float) -> Choice:
        """The fixed path; `feasible` says whether its own bound fits. See `Policy.plan`."""
        return self._keep(self._path, 0, remaining_ms, factor)

    def redecide(
        self,
        path: ExecutionPath,
        segment: int,
        remaining_ms: float,
        factor: float,
        elapsed_ms: float = 0.0,
    ) -> Choice:
        """`path` unchanged, whatever is left; see `Policy.redecide`."""
        return self._keep(path, segment, remaining_ms, factor)

    def observe(self, latency_ms: float, remaining_ms: float) -> None:
        """Changes nothing: the path is fixed; see `Policy.observe`."""

    def _keep(
        self, path: ExecutionPath, segment: int, remaining_ms: float, factor: float
    ) -> Choice:
        forecast_ms = self._forecast.forecast_ms(path, segment)
        bound_ms = forecast_ms * factor
        return Choice(path, forecast_ms, bound_ms, bound_ms <= remaining_ms, self._quality(path))


class Reactive(FixedPath):
    """Climbs one rung of a ladder of paths after a frame that was in time, and descends after one that was not.

    Looks at nothing but how the last frame went, and keeps a frame's path to its end. Source: contention paper,
    section 5.3.1; its 1-step selection descends one rung, its N-step selection to the lowest. Changed: the ladder is
    of paths of one network (its models are networks), and the threshold is the time that the frame had, which moves.

    Args:
        to_the_lowest: descend to the lowest rung (N-step) instead of by one (1-step).
        rungs: most paths of the ladder, >= 2: the best ones at times spread evenly, on a logarithmic scale, from the
            cheapest path to the best. The paper's set has three networks, after its pruning.
        paths: those that the ladder may have; None: all.
    """

    def __init__(
        self,
        path_space: PathSpace,
        forecast: Forecast,
        quality: Quality,
        *,
        to_the_lowest: bool,
        rungs: int = 8,
        paths: Sequence[ExecutionPath] | None = None,
    ) -> None:
        self.name = 'reactive_n' if to_the_lowest else 'reactive_1'
        best = FrontierPolicy(path_space, forecast, quality, paths=paths).starts()
        places = spread_evenly([time_ms for _, time_ms, _ in best], rungs)
        self.ladder = [best[place][0] for place in places]
        super().__init__(self.ladder[0], forecast, quality)
        self._to_the_lowest = to_the_lowest
        self._rung = 0

    def observe(self, latency_ms: float, remaining_ms: float) -> None:
        """Climbs or descends; see `Policy.observe`."""
        if latency_ms <= remaining_ms:
            self._rung = min(self._rung + 1, len(self.ladder) - 1)
        else:
            self._rung = 0 if self._to_the_lowest else max(self._rung - 1, 0)
        self._path = self.ladder[self._rung]


def spread_evenly(times_ms: Sequence[float], count: int) -> list[int]:
    """Places of the times, ascending, that are nearest to as many spread evenly on a logarithmic scale, both ends among
    them, each once."""
    logs = np.log(np.maximum(times_ms, 1e-9))
    wanted = np.linspace(logs[0], logs[-1], count)
    nearest = np.abs(logs - wanted[:, None]).argmin(1)
    return np.unique(nearest).tolist()
