"""A small network whose times are made up per segment, with everything known by hand."""

from __future__ import annotations

import numpy as np
import pytest
from invented_networks import SINGLE

from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.extras.faster_rcnn.declaration import multi_path_space


class SegmentForecast:
    """Adds up one time per segment."""

    def __init__(self, path_space: PathSpace, segment_ms) -> None:
        self.path_space = path_space
        self.segment_ms = segment_ms

    def forecast_ms(self, path: ExecutionPath, segment: int = 0) -> float:
        return float(sum(self.segment_ms(key) for key in self.path_space.keys(path, segment)))

    def table(self, paths, segment: int = 0) -> np.ndarray:
        return np.array([self.forecast_ms(path, segment) for path in paths])


class GivenQuality:
    """Looks the quality up."""

    def __init__(self, values: dict[ExecutionPath, float]) -> None:
        self.values = values

    def quality(self, path: ExecutionPath) -> float:
        return self.values[path]

    def table(self, paths) -> np.ndarray:
        return np.array([self.values[path] for path in paths])


@pytest.fixture(scope='session')
def make_forecast():
    return SegmentForecast


@pytest.fixture(scope='session')
def make_quality():
    return GivenQuality


@pytest.fixture(scope='session')
def foreign_path() -> ExecutionPath:
    return SINGLE.largest


@pytest.fixture(scope='session')
def path_space() -> PathSpace:
    return multi_path_space(
        skips_per_stage=(1, 1),
        widths=(1.0, 0.5),
        pyramid_widths=(1.0, 0.5),
        proposals=(10, 25, 100),
        heads=2,
    )
