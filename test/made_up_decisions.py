"""A small network whose times are made up per segment, with everything known by hand."""

import numpy as np
import pytest
from invented_networks import SINGLE
from path_spaces import SPACE

from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.timing.path_bound import SegmentForecast


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
    """A forecast of a path space by a function from a segment's key to its time in ms."""
    return lambda space, ms: SegmentForecast(space, {key: ms(key) for key in space.carriers()})


@pytest.fixture(scope='session')
def make_quality():
    return GivenQuality


@pytest.fixture(scope='session')
def foreign_path():
    return SINGLE.largest


@pytest.fixture(scope='session')
def path_space():
    return SPACE
