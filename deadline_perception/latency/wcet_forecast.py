"""Worst cases of paths, and of what is left of one, from the table of a profile."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deadline_perception.execution_path import ExecutionPath, PathSpace
from deadline_perception.latency.path_bound import SegmentForecast
from deadline_perception.latency.wcet_table import WcetTable


class WcetForecast:
    """As `SegmentForecast`, of worst cases in the place of expected times, on a device that is otherwise idle.

    Args:
        path_space: the network's paths.
        wcet: of every key of the path space.

    Raises:
        ValueError: a segment has no worst case.
    """

    def __init__(self, path_space: PathSpace, wcet: WcetTable) -> None:
        missing = [key for key in path_space.carriers() if key not in wcet.segments_ms]
        if missing:
            raise ValueError(f'{len(missing)} segments have no worst case, such as {missing[0]}')
        self.path_space, self.wcet = path_space, wcet
        self._execution = SegmentForecast(path_space, wcet.segments_ms)

    def forecast_ms(self, path: ExecutionPath, segment: int = 0) -> float:
        """Worst case in ms of what a path runs from segment number `segment` on; 0 past the last one."""
        return float(self.wcet.bound_ms(self._execution.forecast_ms(path, segment)))

    def table(self, paths: Sequence[ExecutionPath], segment: int = 0) -> np.ndarray:
        """`forecast_ms` of many paths of the network at once, float64 `[N]`."""
        return self.wcet.bound_ms(self._execution.table(paths, segment))

    def segment_ms(self, segment: int, path: ExecutionPath) -> float:
        """Longest execution in ms of one segment on a path, without interruptions; 0 when it is left out."""
        return self._execution.segment_ms(segment, path)
