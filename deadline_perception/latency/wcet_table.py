"""Worst-case execution times as they lie in a profile: of each segment without interruptions, and what these take.

A bound of a path, or of what is left of one, is the response time of the sum of its segments (`interference.py`). What
fits the table is `wcet/segment_model.py`. Needs no torch.
"""
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from deadline_perception.latency.interference import Interference


@dataclass(frozen=True)
class WcetTable:
    """Bounds of one network on one device, otherwise idle.

    Attributes:
        segments_ms: longest execution of each segment, by the names of `PathSpace.key`.
        interference: what interruptions take.

    Raises:
        ValueError: there is no segment, or a time is negative or not finite.
    """

    segments_ms: Mapping[str, float]
    interference: Interference

    def __post_init__(self) -> None:
        if not self.segments_ms or not all(isinstance(value, (int, float)) and 0.0 <= value < math.inf
                                           for value in self.segments_ms.values()):
            raise ValueError(f'{len(self.segments_ms)} segments have worst-case times, expected at least one, each '
                             f'finite and of at least 0 ms')

    def bound_ms(self, execution_ms: np.ndarray | float) -> np.ndarray:
        """Worst case of what executes for so long without interruptions."""
        return self.interference.response_ms(execution_ms)
