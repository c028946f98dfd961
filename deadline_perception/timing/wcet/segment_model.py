"""Worst-case execution times of paths, from what their segments and some whole paths took in the engine in use.

- `fit_wcet`: the path's worst case, the sum of its segments' executions, times the factor that whole paths show
  (multi-path paper, section IV-D), and interruptions once for all of them (`timing/interference.py`).
- `with_wcet`: gives a profile the table of its own times.

The paper's model of layers lies in research/multi_path. Needs no torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from deadline_perception.engines.segment_run import Network
from deadline_perception.timing.interference import (
    Interference,
    WcetTable,
    interference_of,
    watch_interruptions,
)
from deadline_perception.timing.path_bound import rebuilt_sample
from deadline_perception.timing.profile import LatencyProfile
from deadline_perception.timing.quantiles import Quantiles

_LEAST_FACTOR = (
    0.5  # on executions, also where interruptions took more than all of the frames' time
)
# Quantile of a segment's times; what is longer was interrupted (measured: research/multi_path/wcet_bounds.py).
EXECUTION = 'p75'
_PROBABILITY = 0.99  # of the windows that no more is taken of, and of the frames that a bound holds


def fit_wcet(
    execution_ms: Mapping[str, float],
    interference: Interference,
    paths: Mapping[tuple[str, ...], Quantiles],
    probability: float = _PROBABILITY,
) -> WcetTable:
    """The table whose bounds hold so large a share of the frames of whole paths (section IV-D).

    Args:
        execution_ms: longest execution of every segment.
        interference: what interruptions take of the device.
        paths: times of whole paths that were measured, by their segments; empty: sums are taken as they are.
        probability: that share, in (0, 1].
    """
    ratios = []
    for keys, times in paths.items():
        taken_ms = rebuilt_sample(times)
        # What ends after R = C + I(R) ends no earlier than L where C is at least L - I(L).
        ratios.append(
            (taken_ms - interference.most_ms(taken_ms))
            / math.fsum(execution_ms[key] for key in keys)
        )
    factor = (
        max(float(np.quantile(np.concatenate(ratios), probability)), _LEAST_FACTOR)
        if ratios
        else 1.0
    )
    return WcetTable(
        {key: round(value * factor, 4) for key, value in execution_ms.items()}, interference
    )


def with_wcet(
    profile: LatencyProfile, network: Network, *, watched_s: float = 3.0
) -> LatencyProfile:
    """The profile with the worst cases of its segments, each from its own times; watches the clock for some seconds.

    Args:
        profile: as it was measured on this device.
        network: as it was measured.
        watched_s: time for which interruptions are watched.
    """
    interference = interference_of(*watch_interruptions(watched_s), _PROBABILITY)
    execution_ms = {key: getattr(times, EXECUTION) for key, times in profile.segments.items()}
    return replace(
        profile, wcet=fit_wcet(execution_ms, interference, whole_paths(profile, network))
    )


def whole_paths(profile: LatencyProfile, network: Network) -> dict[tuple[str, ...], Quantiles]:
    """Times of the whole paths of a profile, by their segments."""
    space = network.path_space
    return {space.keys(space.parse(name)): times for name, times in profile.paths.items()}
