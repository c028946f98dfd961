"""The one protocol of all decision policies: which execution path, given the time that is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.timing.time_model import MAX_FACTOR


class Choice(NamedTuple):
    """The path a policy wants, and what it expects of all that is still to run on it. Made some ten times a frame.

    Attributes:
        path: agrees with everything that has already run.
        forecast_ms: time of what remains on an idle machine, finite and >= 0.
        bound_ms: `forecast_ms * factor`, and what interruptions take; exceeded only with the target miss probability.
            Of a path that fits only because later operators may still leave it: what has to fit, so at most the time
            left.
        feasible: the bound of at least one path that the policy may still choose fits the remaining time.
        quality: expected average precision of the path, in [0, 1].
    """

    path: ExecutionPath
    forecast_ms: float
    bound_ms: float
    feasible: bool
    quality: float


class Policy(Protocol):
    """Chooses execution paths. Between two calls of `observe` the same arguments give the same choice.

    `factor` is slowdown times calibration factor: it scales an idle forecast into a bound. A remaining time that is
    negative gives the cheapest path, infeasible (unless late results are worth something); an infinite one is allowed.

    Attributes:
        name: as in the parameter.
        keeps_bounds: a frame whose choice is feasible is late only where a bound was exceeded.
    """

    name: str
    keeps_bounds: bool

    def plan(self, remaining_ms: float, factor: float) -> Choice:
        """The path to start a frame on.

        Raises:
            ValueError: `remaining_ms` is NaN, or `factor` does not lie in (0, MAX_FACTOR].
        """

    def redecide(
        self,
        path: ExecutionPath,
        segment: int,
        remaining_ms: float,
        factor: float,
        elapsed_ms: float = 0.0,
    ) -> Choice:
        """The path to go on with as a segment begins; it makes the choices of `path` in all earlier segments.

        Args:
            path: the current plan, a path of the policy's space.
            segment: index into the path space's segments of the next one to run; its operator is still free.
            remaining_ms: time left for the segments from `segment` on.
            factor: as in `plan`.
            elapsed_ms: what the frame has taken since its planning; 0 when that is not known.

        Raises:
            ValueError: as in `plan`; or the path or the segment is not one of the path space.
        """

    def observe(self, latency_ms: float, remaining_ms: float) -> None:
        """Takes in how the last frame went; most policies have no use for it.

        Args:
            latency_ms: from its planning to its end; infinite when it was cut.
            remaining_ms: time left when it was planned.

        Raises:
            ValueError: the latency is NaN or negative, or the time NaN.
        """


class Quality(Protocol):
    """Expected average precision of paths, such as `decision.path_quality.PathQuality`."""

    def quality(self, path: ExecutionPath) -> float:
        """Quality of one path, in [0, 1]."""

    def table(self, paths: Sequence[ExecutionPath]) -> np.ndarray:
        """The same for many paths: float64 `[len(paths)]`."""


def check_time_left(remaining_ms: float, factor: float) -> None:
    """Refuses what no policy can decide on.

    Raises:
        ValueError: `remaining_ms` is NaN, or `factor` does not lie in (0, MAX_FACTOR].
    """
    if remaining_ms != remaining_ms:
        raise ValueError(
            'remaining time is NaN ms, expected a number; a negative one means too late'
        )
    if not 0.0 < factor <= MAX_FACTOR:
        raise ValueError(
            f'factor is {factor}, expected a number in (0, {MAX_FACTOR:g}] that scales a forecast into '
            f'a bound'
        )


def check_position(path_space: PathSpace, path: ExecutionPath, segment: int) -> None:
    """Refuses a position that no frame of this network can be in.

    Raises:
        ValueError: the path is not in the space, or the segment is no index of its segments.
    """
    if path not in path_space:
        raise ValueError(f"path {path} is not one of the network's {len(path_space)} paths")
    if not 0 <= segment < len(path_space.segments):
        raise ValueError(
            f'segment is {segment}, expected an index in [0, {len(path_space.segments) - 1}]'
        )
