"""How long a path, or what is left of one, is expected to take; composed from a latency profile.

A forecast is the sum of the median times of the segments that the path runs, each times a factor of its kind (stage,
skip, pyramid, ...). Segments do not add up exactly: caches, kernel launches and the steps between segments differ from
frame to frame. The factors are the least-squares fit to the whole paths that the profile measured, never negative, so
what is left of a path never costs more than the path. Needs no torch.

Finer factors, by width or by measured paths nearby, forecast no better where tried (x86 CPU, one thread): what is left
between paths is less than the median of a few frames of one path moves with the machine
(measured: benchmarks/path_bounds.py of commit 68d0af47).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from deadline_perception.core.device import profile_command
from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.core.least_squares import non_negative_least_squares
from deadline_perception.timing.interference import WcetTable
from deadline_perception.timing.profile import LatencyProfile, ProfileMismatch
from deadline_perception.timing.quantiles import PROBABILITIES, Quantiles
from deadline_perception.timing.recent_times import StartRatio

_PULL_TO_ONE = 0.05  # weight, per path, of a factor's distance from 1: decides between kinds that no path tells apart
# What a second of timing does not show of a device: other phases of the machine.
# measured: benchmarks/new_device.py of commit a7507dff
_SCALED_MARGIN = 1.2
_REMEMBERED = 65536  # paths whose times are kept added up
_GRID = np.linspace(
    0.005, 0.995, 100
)  # probabilities at which a path's sample is rebuilt from its quantiles


class SegmentForecast:
    """Expected times of the paths of one network as sums over what their segments run.

    Args:
        path_space: the network's paths.
        costs_ms: expected time in ms of every key of the path space.

    Attributes:
        path_space, costs_ms: as given.
    """

    def __init__(self, path_space: PathSpace, costs_ms: Mapping[str, float]) -> None:
        self.path_space = path_space
        self.costs_ms = dict(costs_ms)
        self._from_each_ms: dict[tuple[int, ...], list[float]] = {}  # by the settings of paths

    def forecast_ms(self, path: ExecutionPath, segment: int = 0) -> float:
        """Expected time in ms of what a path runs from segment number `segment` on; 0 past the last one.

        Raises:
            ValueError: the path is not one of the network's.
        """
        if path.space is not self.path_space and path not in self.path_space:
            raise ValueError(
                f'path is {path}, expected one of the {len(self.path_space)} paths of the network'
            )
        from_each_ms = self.from_each_ms(path)
        return from_each_ms[min(segment, len(from_each_ms) - 1)]

    def from_each_ms(self, path: ExecutionPath) -> Sequence[float]:
        """Expected time in ms of what a path of the network runs from each segment on, and 0 at the end."""
        found = self._from_each_ms.get(path.settings)
        if found is None:
            if len(self._from_each_ms) == _REMEMBERED:
                self._from_each_ms.clear()
            found = self._from_each_ms[path.settings] = self._add_up(path)
        return found

    def table(self, paths: Sequence[ExecutionPath]) -> np.ndarray:
        """`forecast_ms` of many paths of the network at once, float64 `[N]`."""
        return np.array([self.from_each_ms(path)[0] for path in paths])

    def segment_ms(self, segment: int, path: ExecutionPath) -> float:
        """Expected time in ms of one segment on a path; 0 when it is skipped."""
        key = self.path_space.key(segment, path)
        return 0.0 if key is None else self.costs_ms[key]

    def _add_up(self, path: ExecutionPath) -> list[float]:
        """Time in ms from each segment on, and 0 at the end; the later ones are added first."""
        from_each_ms = [0.0]
        for segment in reversed(range(len(self.path_space.segments))):
            from_each_ms.append(from_each_ms[-1] + self.segment_ms(segment, path))
        return from_each_ms[::-1]


class WcetForecast(SegmentForecast):
    """Worst cases in the place of expected times, on a device that is otherwise idle; those of single segments are
    without interruptions.

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
        super().__init__(path_space, wcet.segments_ms)
        self.wcet = wcet

    def _add_up(self, path: ExecutionPath) -> list[float]:
        return self.wcet.bound_ms(np.array(super()._add_up(path))).tolist()


class PathForecast(SegmentForecast):
    """Expected times of the paths of one network on one device, otherwise idle.

    Attributes:
        corrections: the factor of each kind of segment.

    Args:
        profile: measured times.
        path_space: the network's paths.

    Raises:
        ProfileMismatch: the profile lacks a segment or measured a path that the network does not have.
    """

    def __init__(self, profile: LatencyProfile, path_space: PathSpace) -> None:
        self.path_space = path_space
        self._medians = {name: quantiles.p50 for name, quantiles in profile.segments.items()}
        self._kinds = list(dict.fromkeys(kind_of(segment.name) for segment in path_space.segments))
        self._check_complete(profile)
        self._measured = [
            (path_space.parse(name), quantiles) for name, quantiles in profile.paths.items()
        ]
        rows = np.array([self._by_kind(path) for path, _ in self._measured]).reshape(
            -1, len(self._kinds)
        )
        latencies_ms = np.array([quantiles.p50 for _, quantiles in self._measured])
        factors = _fit(rows, latencies_ms)
        self.corrections = dict(zip(self._kinds, (float(factor) for factor in factors)))
        self._residuals = self._held_out_residuals(rows, latencies_ms)
        self._unknown = math.log(_SCALED_MARGIN) if profile.scaled_from else 0.0
        super().__init__(
            path_space,
            {
                name: self._medians[name] * self.corrections[kind_of(name)]
                for name in path_space.carriers()
            },
        )

    def residual_quantile(self, probability: float) -> float:
        """Quantile of `log(latency / forecast)` over frames of whole paths on an idle device.

        Each path was forecast by factors fitted without it, and all paths weigh the same. Times that were scaled from
        another device add a reserve.

        Args:
            probability: in [0, 1]; with few measurements, high ones say little more than the maximum does.

        Raises:
            ValueError: the probability is outside its range, or the profile measured no whole path.
        """
        if not 0.0 <= probability <= 1.0:
            raise ValueError(f'probability is {probability}, expected a value in [0, 1]')
        if not len(self._residuals):
            raise ValueError('profile measured no whole path, expected at least one')
        return float(np.quantile(self._residuals, probability)) + self._unknown

    def start_ratio(self) -> StartRatio:
        """What is known of `log(latency / forecast)` before a frame has run: median and deviation of the same sample,
        which no stall of a few frames moves, where the highest quantiles of few frames are one stall.

        Raises:
            ValueError: the profile measured no whole path.
        """
        measured = StartRatio.of(self._residuals)
        return StartRatio(measured.median + self._unknown, measured.deviation)

    def _check_complete(self, profile: LatencyProfile) -> None:
        command = profile_command('WEIGHTS', profile.facts.kind, profile.facts.threads)
        needed = list(self.path_space.carriers())
        missing = [name for name in needed if name not in profile.segments]
        if missing:
            raise ProfileMismatch(
                f'latency profile lacks {len(missing)} of {len(needed)} segments, {missing[0]!r} '
                f'among them. Measure one: {command}'
            )
        for name in profile.paths:
            try:
                self.path_space.parse(name)
            except ValueError as error:
                raise ProfileMismatch(
                    f'latency profile measured the path {name!r}, which the network does not have. '
                    f'Measure one: {command}'
                ) from error
        timeless = [name for name, times in profile.paths.items() if not times.p05 > 0.0]
        if timeless or not any(self._medians.values()):
            raise ProfileMismatch(
                f'latency profile says that {(timeless or ["every segment"])[0]} takes 0 ms, which '
                f'nothing does. Measure one: {command}'
            )

    def _by_kind(self, path: ExecutionPath) -> list[float]:
        """Sum of segment medians in ms per kind."""
        sums = dict.fromkeys(self._kinds, 0.0)
        for name in self.path_space.keys(path):
            sums[kind_of(name)] += self._medians[name]
        return list(sums.values())

    def _held_out_residuals(self, rows: np.ndarray, latencies_ms: np.ndarray) -> np.ndarray:
        residuals = []
        for index, (_, quantiles) in enumerate(self._measured):
            others = np.arange(len(rows)) != index
            forecast_ms = rows[index] @ _fit(rows[others], latencies_ms[others])
            residuals.append(np.log(rebuilt_sample(quantiles) / forecast_ms))
        return np.concatenate(residuals) if residuals else np.empty(0)


def kind_of(key: str) -> str:
    """`stage3` or `stage3@w1.00` -> `stage`: segments of one kind share a factor."""
    return re.sub(r'\d+$', '', key.split('@')[0])


def _fit(rows: np.ndarray, latencies_ms: np.ndarray) -> np.ndarray:
    """Factors `c >= 0` with `rows @ c` near the latencies, in relative terms; all 1 without a measured path.

    Args:
        rows: `[paths, kinds]`, ms.
        latencies_ms: `[paths]`, > 0.
    """
    return factors_near_one(
        rows / latencies_ms[:, None], _PULL_TO_ONE * math.sqrt(max(len(rows), 1))
    )


def factors_near_one(rows: np.ndarray, pull: float) -> np.ndarray:
    """Factors `[columns]` >= 0, near 1, with `rows @ factors` near 1.

    Args:
        rows: `[N, columns]`.
        pull: weight of a factor's distance from 1, against that of a row.
    """
    columns = rows.shape[1]
    target = np.concatenate([np.ones(len(rows)), np.full(columns, pull)])
    return non_negative_least_squares(np.vstack([rows, pull * np.eye(columns)]), target)


def rebuilt_sample(quantiles: Quantiles) -> np.ndarray:
    """Durations in ms at evenly spaced probabilities, and the longest."""
    return np.append(np.interp(_GRID, PROBABILITIES, quantiles.values_ms), quantiles.max)
