"""A way without bounds, calibration or contention: a table of 99th percentiles measured beforehand.

The static choice of Pylot (Gog et al. 2021), which profiles the models of a set offline and takes the most accurate one
whose 99th percentile fits the time that is left.
"""

from __future__ import annotations

import sys
from pathlib import Path

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.decision.policy import Choice, Quality
from deadline_perception.timing.time_model import Forecast

sys.path.append(str(Path(__file__).resolve().parents[2] / 'research' / 'policies'))
from baselines import FixedPath


class StaticTable:
    """A policy: the path of highest quality whose 99th percentile fits, to its end.

    Args:
        p99_ms: by path; at least one.
        forecast: expected times.
        quality: of the paths.
    """

    name = 'static_p99'
    keeps_bounds = False

    def __init__(
        self,
        p99_ms: dict[ExecutionPath, float],
        forecast: Forecast,
        quality: Quality,
    ) -> None:
        self._rows = sorted(
            ((quality.quality(path), -time_ms, path) for path, time_ms in p99_ms.items()),
            reverse=True,
        )
        self._fixed = {path: FixedPath(path, forecast, quality) for path in p99_ms}
        self._p99_ms = dict(p99_ms)
        self._shortest = min(p99_ms, key=p99_ms.get)

    def plan(self, remaining_ms: float, factor: float) -> Choice:
        """The best path that fits by the table, else the shortest; `factor` is not looked at. See `Policy.plan`."""
        fits = (path for _, _, path in self._rows if self._p99_ms[path] <= remaining_ms)
        path = next(fits, None)
        choice = self._fixed[path or self._shortest].plan(remaining_ms, factor)
        bound_ms = self._p99_ms[choice.path]
        return Choice(choice.path, choice.forecast_ms, bound_ms, path is not None, choice.quality)

    def redecide(
        self,
        path: ExecutionPath,
        segment: int,
        remaining_ms: float,
        factor: float,
        elapsed_ms: float = 0.0,
    ) -> Choice:
        """`path` unchanged; see `Policy.redecide`."""
        return self._fixed[path].redecide(path, segment, remaining_ms, factor)

    def observe(self, latency_ms: float, remaining_ms: float) -> None:
        """Changes nothing: the table is static; see `Policy.observe`."""
