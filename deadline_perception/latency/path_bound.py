"""How long a path, or what is left of one, is expected to take; composed from a latency profile.

A forecast is the sum of the median times of the segments that the path runs, each times a factor of its kind (stage,
skip, pyramid, ...). Segments do not add up exactly: caches, kernel launches and the steps between slots differ from
frame to frame. The factors are the least-squares fit to the whole paths that the profile measured, never negative, so
what is left of a path never costs more than the path. Needs no torch.

Finer factors, by width or by measured paths nearby, forecast no better where tried (x86 CPU, one thread): what is left
between paths is less than the median of a few frames of one path moves with the machine. benchmarks/path_bounds.py tells
the two apart.
"""
from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from scipy.optimize import nnls

from deadline_perception.execution_path import ExecutionPath, PathSpace
from deadline_perception.latency.measurement_plan import all_segments
from deadline_perception.latency.profile import LatencyProfile, ProfileMismatch, profile_command
from deadline_perception.latency.quantiles import PROBABILITIES, Quantiles

_PULL_TO_ONE = 0.05  # weight, per path, of a factor's distance from 1: decides between kinds that no path tells apart
_GRID = np.linspace(0.005, 0.995, 100)  # probabilities at which a path's sample is rebuilt from its quantiles


class PathForecast:
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
        self._space = path_space
        self._medians = {name: quantiles.p50 for name, quantiles in profile.segments.items()}
        self._kinds = list(dict.fromkeys(_kind(slot.name) for slot in path_space.slots))
        self._check_complete(profile)
        self._measured = [(ExecutionPath.parse(name), quantiles) for name, quantiles in profile.paths.items()]
        rows = np.array([self._by_kind(path) for path, _ in self._measured]).reshape(-1, len(self._kinds))
        latencies_ms = np.array([quantiles.p50 for _, quantiles in self._measured])
        factors = _fit(rows, latencies_ms)
        self.corrections = dict(zip(self._kinds, (float(factor) for factor in factors)))
        self._residuals = self._held_out_residuals(rows, latencies_ms)
        self._costs = lru_cache(maxsize=None)(self._read_costs)

    def forecast_ms(self, path: ExecutionPath, slot: int = 0) -> float:
        """Expected time in ms of what a path runs from slot number `slot` on; 0 past the last slot.

        Raises:
            ValueError: the slot is negative or the path is not one of the network's.
        """
        self._check_slot(slot)
        if path not in self._space:
            raise ValueError(f'path is {path}, expected one of the {len(self._space)} paths of the network')
        fixed_ms, skip_ms, skip_slots = self._costs(path.width, path.proposals, path.head, path.pyramid_width)
        total_ms = fixed_ms[min(slot, len(fixed_ms) - 1)]
        for skipped, cost_ms, at in zip(path.skip, skip_ms, skip_slots):
            if at >= slot and not skipped:
                total_ms += cost_ms
        return total_ms

    def table(self, paths: Sequence[ExecutionPath], slot: int = 0) -> np.ndarray:
        """`forecast_ms` of many paths of the network at once, float64 `[N]`.

        Raises:
            ValueError: the slot is negative.
        """
        self._check_slot(slot)
        groups: dict[tuple, list[int]] = {}
        for index, path in enumerate(paths):
            groups.setdefault((path.width, path.proposals, path.head, path.pyramid_width), []).append(index)
        ran = ~np.array([path.skip for path in paths], dtype=bool).reshape(len(paths), self._space.skips)
        forecasts_ms = np.empty(len(paths))
        for choices, indices in groups.items():
            fixed_ms, skip_ms, skip_slots = self._costs(*choices)
            costs_ms = np.where(np.array(skip_slots, dtype=int) >= slot, np.array(skip_ms, dtype=float), 0.0)
            forecasts_ms[indices] = ran[indices] @ costs_ms + fixed_ms[min(slot, len(fixed_ms) - 1)]
        return forecasts_ms

    def slot_ms(self, slot: int, path: ExecutionPath) -> float:
        """Expected time in ms of one slot on a path; 0 when it runs nothing."""
        name = self._space.segment(slot, path)
        if name is None:
            return 0.0
        return self._medians[name] * self.corrections[_kind(self._space.slots[slot].name)]

    def residual_quantile(self, probability: float) -> float:
        """Quantile of `log(latency / forecast)` over frames of whole paths on an idle device.

        Each path was forecast by factors fitted without it, and all paths weigh the same.

        Args:
            probability: in [0, 1]; with few measurements, high ones say little more than the maximum does.

        Raises:
            ValueError: the probability is outside its range, or the profile measured no whole path.
        """
        if not 0.0 <= probability <= 1.0:
            raise ValueError(f'probability is {probability}, expected a value in [0, 1]')
        if not len(self._residuals):
            raise ValueError('profile measured no whole path, expected at least one')
        return float(np.quantile(self._residuals, probability))

    def _check_slot(self, slot: int) -> None:
        if slot < 0:
            raise ValueError(f'slot is {slot}, expected an index of at least 0')

    def _check_complete(self, profile: LatencyProfile) -> None:
        command = profile_command(device=profile.facts.kind, threads=profile.facts.threads)
        needed = all_segments(self._space)
        missing = [name for name in needed if name not in profile.segments]
        if missing:
            raise ProfileMismatch(f'latency profile lacks {len(missing)} of {len(needed)} segments, {missing[0]!r} '
                                  f'among them. Measure one: {command}')
        for name in profile.paths:
            if _parse(name) not in self._space:
                raise ProfileMismatch(f'latency profile measured the path {name!r}, which the network does not have. '
                                      f'Measure one: {command}')
        timeless = [name for name, times in profile.paths.items() if not times.p05 > 0.0]
        if timeless or not any(self._medians.values()):
            raise ProfileMismatch(f'latency profile says that {(timeless or ["every segment"])[0]} takes 0 ms, which '
                                  f'nothing does. Measure one: {command}')

    def _by_kind(self, path: ExecutionPath) -> list[float]:
        """Sum of segment medians in ms per kind."""
        sums = dict.fromkeys(self._kinds, 0.0)
        for slot, description in enumerate(self._space.slots):
            name = self._space.segment(slot, path)
            if name is not None:
                sums[_kind(description.name)] += self._medians[name]
        return list(sums.values())

    def _read_costs(self, width: float, proposals: int, head: int,
                    pyramid_width: float) -> tuple[list[float], list[float], list[int]]:
        """Times that do not depend on the skips, summed from each slot on; times of the skips; slots of the skips."""
        path = ExecutionPath((False,) * self._space.skips, width, proposals, head, pyramid_width)
        none = replace(path, skip=(True,) * self._space.skips)
        slots = range(len(self._space.slots))
        fixed_ms = [self.slot_ms(slot, none) for slot in slots]
        skip_slots = [slot for slot in slots if _kind(self._space.slots[slot].name) == 'skip']
        suffix_ms = [math.fsum(fixed_ms[slot:]) for slot in (*slots, len(slots))]
        return suffix_ms, [self.slot_ms(slot, path) for slot in skip_slots], skip_slots

    def _held_out_residuals(self, rows: np.ndarray, latencies_ms: np.ndarray) -> np.ndarray:
        residuals = []
        for index, (_, quantiles) in enumerate(self._measured):
            others = np.arange(len(rows)) != index
            forecast_ms = rows[index] @ _fit(rows[others], latencies_ms[others])
            residuals.append(np.log(_rebuild_sample(quantiles) / forecast_ms))
        return np.concatenate(residuals) if residuals else np.empty(0)


def _kind(slot_name: str) -> str:
    """`stage3` -> `stage`: slots of one kind share a factor."""
    return re.sub(r'\d+$', '', slot_name)


def _parse(name: str) -> ExecutionPath | None:
    try:
        return ExecutionPath.parse(name)
    except ValueError:
        return None


def _fit(rows: np.ndarray, latencies_ms: np.ndarray) -> np.ndarray:
    """Factors `c >= 0` with `rows @ c` near the latencies, in relative terms; all 1 without a measured path.

    Args:
        rows: `[paths, kinds]`, ms.
        latencies_ms: `[paths]`, > 0.
    """
    kinds = rows.shape[1]
    pull = _PULL_TO_ONE * math.sqrt(max(len(rows), 1))
    matrix = np.vstack([rows / latencies_ms[:, None], pull * np.eye(kinds)])
    return nnls(matrix, np.concatenate([np.ones(len(rows)), np.full(kinds, pull)]))[0]


def _rebuild_sample(quantiles: Quantiles) -> np.ndarray:
    """Durations in ms at evenly spaced probabilities, and the longest."""
    values = np.interp(_GRID, PROBABILITIES, quantiles.values_ms)
    return np.append(values, quantiles.max)
