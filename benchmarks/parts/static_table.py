"""Two ways without bounds, calibration or contention: one path always, and a table of 99th percentiles measured
beforehand.

The first is what a plain detection node does. The second is the static choice of Pylot (Gog et al. 2021), which
profiles the models of a set offline and takes the most accurate one whose 99th percentile fits the time that is left.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.decision.policy import Choice, Quality
from deadline_perception.timing.profile import time_frame
from deadline_perception.timing.time_model import Forecast
from parts.harness import turns

sys.path.append(str(Path(__file__).resolve().parents[2] / 'research' / 'policies'))
from baselines import FixedPath


def measure_p99_ms(
    network, images: Sequence[np.ndarray], paths: Sequence[ExecutionPath], frames: int
) -> dict[ExecutionPath, float]:
    """99th percentile of a frame's time on each path, all in turn in random order, after a frame of each.

    Args:
        network: on an idle machine.
        images: uint8 `[H, W, 3]`.
        paths: distinct.
        frames: of each path; of fewer than 100 the 99th percentile lies close to the longest.
    """
    rng = random.Random(0)
    taken_ms: dict[ExecutionPath, list[float]] = {path: [] for path in paths}
    for number, path in turns(paths, frames + 1):
        total_ms, _ = time_frame(network, rng.choice(images), path)
        if number:
            taken_ms[path].append(total_ms)
    return {path: float(np.quantile(times, 0.99)) for path, times in taken_ms.items()}


def best_fixed(
    p99_ms: dict[ExecutionPath, float], quality: Quality, budgets_ms: Sequence[float]
) -> ExecutionPath:
    """The path that, run always, delivers most: its quality times the share of budgets that its 99th percentile
    fits."""
    return max(
        p99_ms,
        key=lambda path: (
            quality.quality(path) * np.mean([p99_ms[path] <= one for one in budgets_ms])
        ),
    )


class StaticTable:
    """A policy: the path of highest quality whose 99th percentile fits, to its end.

    Args:
        p99_ms: by path; at least one.
        path_space: of the network.
        forecast: expected times.
        quality: of the paths.
    """

    name = 'static_p99'
    keeps_bounds = False

    def __init__(
        self,
        p99_ms: dict[ExecutionPath, float],
        path_space: PathSpace,
        forecast: Forecast,
        quality: Quality,
    ) -> None:
        self._rows = sorted(
            ((quality.quality(path), -time_ms, path) for path, time_ms in p99_ms.items()),
            reverse=True,
        )
        self._fixed = {path: FixedPath(path, path_space, forecast, quality) for path in p99_ms}
        self._p99_ms = dict(p99_ms)
        self._shortest = min(p99_ms, key=p99_ms.get)

    def plan(self, remaining_ms: float, factor: float, p90_share: float = 1.0) -> Choice:
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
        p90_share: float = 1.0,
    ) -> Choice:
        """`path` unchanged; see `Policy.redecide`."""
        return self._fixed[path].redecide(path, segment, remaining_ms, factor)

    def observe(self, latency_ms: float, remaining_ms: float) -> None:
        """Changes nothing: the table is static; see `Policy.observe`."""
