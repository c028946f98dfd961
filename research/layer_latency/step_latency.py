"""Latency of a layer over one of its dimensions: steps between two levels (Jetson paper, section 3.3.2, eq. 3.1 to
3.3).

A processor works in blocks, so the latency rises in steps of depth d; and blocks fill larger units well or badly, so it
alternates between an upper and a lower level with a period r. Both d and r belong to the device and are found once,
from one sweep; the lines that bound the levels belong to the other dimensions of the layer and take four measurements.

Changed from the paper: d and r are found by search, not by eye. The upper level may last all of a period but its last
value, as where only full blocks are fast, instead of half of it. Both levels round up: the paper rounds the upper one
down, which is the same line moved by one step where r divides d, as on its device, and wrong without a second level.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

_DEPTHS = (*range(1, 33), *range(40, 129, 8), *range(160, 257, 32))
_PERIODS = (1, 2, 4, 8, 16, 32, 64, 128)
_STEPS_SEEN = 4  # steps and periods that a sweep must show before they are believed
_LEAST_GAIN = 0.9  # steps leave at most this share of the straight line's error, or it is kept
_REWEIGHTINGS = 12
_SMALL_ERROR = 1e-3  # relative; below, errors weigh alike


@dataclass(frozen=True)
class Line:
    """Latency in ms as a straight line over the rounded value."""

    slope_ms: float
    intercept_ms: float


@dataclass(frozen=True)
class StepModel:
    """Latency over one dimension of a layer.

    Attributes:
        depth: step depth d >= 1; 1 is no steps.
        period: fluctuation period r >= 1; 1 is a single level.
        upper_values: values of each period, from its first, that lie on the upper level; the period for a single level.
        lower: line of the lower level; equal to `upper` for a single level.
        error: mean absolute error over the measurements that it was fitted to, relative to them.
    """

    depth: int
    period: int
    upper_values: int
    upper: Line
    lower: Line
    error: float

    @property
    def has_steps(self) -> bool:
        """Whether anything but a straight line was found."""
        return self.depth > 1 or self.period > 1

    def __str__(self) -> str:
        if not self.has_steps:
            return 'a straight line: no steps found'
        levels = (
            f'upper level for {self.upper_values} of every {self.period}'
            if self.period > 1
            else 'one level'
        )
        return f'steps of {self.depth}, {levels}'

    def predict(self, values: np.ndarray | float) -> np.ndarray:
        """Latency in ms at values of the dimension, at least 1 each; never below 0."""
        rounded = self._rounded(values)
        upper, lower = (
            line.slope_ms * rounded + line.intercept_ms for line in (self.upper, self.lower)
        )
        return np.maximum(np.where(self._on_upper(values), upper, lower), 0.0)

    def choose_values(self, values: Sequence[int]) -> tuple[int, ...]:
        """Which of the values to measure for another layer: the first and the last on each level.

        For a single level, or where the values show only one, the first two and the last two.
        """
        ordered = sorted(set(values))
        upper = [value for value in ordered if self._on_upper(value)]
        lower = [value for value in ordered if not self._on_upper(value)]
        if len(upper) < 2 or len(lower) < 2:
            return (*ordered[:2], *ordered[-2:])
        ends = [upper[0], upper[-1], lower[0], lower[-1]]
        return tuple(sorted(ends))

    def with_bounds(self, values: Sequence[float], latencies_ms: Sequence[float]) -> StepModel:
        """The same steps for another layer, whose lines go through measurements of it.

        Args:
            values: at least two different steps, best those of `choose_values`; a level of which fewer than two steps
                were measured takes the line of the other.
            latencies_ms: what was measured there, each above 0 ms.

        Raises:
            ValueError: all values lie on one step.
        """
        sizes = np.asarray(values, float)
        latencies = np.asarray(latencies_ms, float)
        rounded = self._rounded(sizes)
        upper = self._on_upper(sizes)
        lines = [
            fit_line(rounded[part], latencies[part]) if len(np.unique(rounded[part])) > 1 else None
            for part in (upper, ~upper)
        ]
        if lines == [None, None]:
            lines[0] = fit_line(rounded, latencies) if len(np.unique(rounded)) > 1 else None
        if lines == [None, None]:
            raise ValueError(
                f'values {list(values)} lie on one step of {self.depth}, expected at least two steps'
            )
        upper_line = lines[0] or lines[1]
        model = replace(self, upper=upper_line, lower=lines[1] or upper_line)
        errors = np.abs(model.predict(sizes) / latencies - 1.0)
        return replace(model, error=float(errors.mean()))

    def _on_upper(self, sizes):
        """Whether a value lies on the upper level, or each of an array does."""
        return (np.ceil(sizes) - 1) % self.period < self.upper_values

    def _rounded(self, sizes):
        return np.ceil(sizes / self.depth) * self.depth


def fit_step_model(values: Sequence[float], latencies_ms: Sequence[float]) -> StepModel:
    """Finds step depth, fluctuation period and both levels from one sweep.

    Every candidate is fitted with least absolute relative errors, which some wild measurements do not move. Of all,
    that with the least Bayesian information criterion is taken, so that more freedom must pay for itself; and a
    straight line unless steps lower its error by a tenth.

    Args:
        values: sizes of the dimension, at least 1 each, at least four different ones. Steps are found only as far as
            the sweep resolves and repeats them: four times at least.
        latencies_ms: what was measured at them, each above 0 ms.
    """
    sizes = np.asarray(values, float)
    latencies = np.asarray(latencies_ms, float)
    distinct = np.unique(sizes)
    zero = Line(0.0, 0.0)
    best = line = StepModel(1, 1, 1, zero, zero, 0.0).with_bounds(sizes, latencies)
    least = math.inf
    for depth, period, upper_values in _candidates(distinct):
        model = _try(line, depth, period, upper_values, sizes, latencies)
        if model is None or model.error > _LEAST_GAIN * line.error and model.has_steps:
            continue
        freedom = (4 if period > 1 else 2) + (depth > 1) + (period > 1)
        misfit = 2.0 * len(sizes) * math.log(max(model.error, _SMALL_ERROR))
        score = misfit + freedom * math.log(len(sizes))
        if score < least - 1e-9:
            best = model
            least = score
    return best


def _candidates(distinct: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Depths, periods and upper values that the sweep shows often enough; the simple ones first."""
    longest = (distinct[-1] - distinct[0] + 1) / _STEPS_SEEN
    shortest = float(np.median(np.diff(distinct)))  # what is shorter cannot be told from noise
    for period, depth in itertools.product(_PERIODS, _DEPTHS):
        if all(size == 1 or shortest < size <= longest for size in (depth, period)):
            for upper in sorted({max(1, period // 2), max(1, period - 1)}):
                yield depth, period, upper


def _try(
    line: StepModel,
    depth: int,
    period: int,
    upper_values: int,
    sizes: np.ndarray,
    latencies: np.ndarray,
) -> StepModel | None:
    """The candidate fitted to the sweep; None when one of its levels was seen on fewer than two steps."""
    shape = replace(line, depth=depth, period=period, upper_values=upper_values)
    rounded = shape._rounded(sizes)
    upper = shape._on_upper(sizes)
    parts = (upper,) if period == 1 else (upper, ~upper)
    if any(len(np.unique(rounded[part])) < 2 for part in parts):
        return None
    return shape.with_bounds(sizes, latencies)


def fit_line(sizes: np.ndarray, latencies: np.ndarray) -> Line:
    """The line of least mean absolute relative error, by reweighted least squares."""
    relative = np.stack([sizes / latencies, 1.0 / latencies], axis=1)
    weights = np.ones(len(sizes))
    for _ in range(_REWEIGHTINGS):
        solution = np.linalg.lstsq(relative * weights[:, None], weights, rcond=None)[0]
        weights = 1.0 / np.sqrt(np.maximum(np.abs(relative @ solution - 1.0), _SMALL_ERROR))
    return Line(float(solution[0]), float(solution[1]))
