"""Simple policies that the others are measured against."""
from __future__ import annotations

from deadline_perception.decision.policy import Choice, Forecast, Quality, check_allowance, check_position
from deadline_perception.decision.policy import check_time_left
from deadline_perception.execution_path import ExecutionPath, PathSpace


class FixedPath:
    """Always the same path, however little time is left: an ordinary detector.

    Args:
        path: the path of every frame.
        path_space: all paths of the network.
        forecast: expected idle times.
        quality: expected average precision of the paths.
        allowance_ms: constant part of every bound.

    Raises:
        ValueError: the path is not in the space, or the allowance is negative or not finite.
    """

    name = 'fixed'

    def __init__(self, path: ExecutionPath, path_space: PathSpace, forecast: Forecast, quality: Quality, *,
                 allowance_ms: float = 0.0) -> None:
        check_position(path_space, path, 0)
        self._path = path
        self._space = path_space
        self._forecast = forecast
        self._quality = quality
        self._allowance_ms = check_allowance(allowance_ms)

    def plan(self, remaining_ms: float, factor: float) -> Choice:
        """The fixed path; `feasible` says whether its own bound fits. See `Policy.plan`."""
        return self._keep(self._path, 0, remaining_ms, factor)

    def redecide(self, path: ExecutionPath, slot: int, remaining_ms: float, factor: float) -> Choice:
        """`path` unchanged, whatever is left; see `Policy.redecide`."""
        check_position(self._space, path, slot)
        return self._keep(path, slot, remaining_ms, factor)

    def _keep(self, path: ExecutionPath, slot: int, remaining_ms: float, factor: float) -> Choice:
        check_time_left(remaining_ms, factor)
        forecast_ms = self._forecast.forecast_ms(path, slot)
        bound_ms = forecast_ms * factor + self._allowance_ms
        return Choice(path, forecast_ms, bound_ms, bound_ms <= remaining_ms, self._quality.quality(path))
