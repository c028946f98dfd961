"""Worst cases added to a latency profile, from its own times and from what interruptions take of this device."""
from __future__ import annotations

from dataclasses import replace

from deadline_perception.latency.interference import interference_of, watch_interruptions
from deadline_perception.latency.profile import LatencyProfile
from deadline_perception.latency.quantiles import Quantiles
from deadline_perception.wcet.interval_model import Processor
from deadline_perception.wcet.processor_facts import measure_bandwidth_gb_s, read_cpu_lanes
from deadline_perception.wcet.segment_model import EXECUTION, fit_wcet

WATCHED_S = 3.0
_PROBABILITY = 0.99  # of the windows that no more is taken of, and of the frames that a bound holds
_COPY_BYTES = 2**25  # to find the memory's bandwidth; more than the caches of most devices


def with_wcet(profile: LatencyProfile, network, *, probability: float = _PROBABILITY,
              watched_s: float = WATCHED_S) -> LatencyProfile:
    """The profile with the worst cases of its segments, each from its own times; watches the clock for some seconds.

    Args:
        profile: as it was measured on this device.
        network: as it was measured.
        probability: share of frames that the bounds are to hold, in (0, 1].
        watched_s: time for which interruptions are watched.
    """
    interference = interference_of(*watch_interruptions(watched_s), probability)
    execution_ms = {key: getattr(times, EXECUTION) for key, times in profile.segments.items()}
    return replace(profile, wcet=fit_wcet(execution_ms, interference, whole_paths(profile, network), probability))


def processor_here(profile: LatencyProfile, device: str) -> Processor:
    """The processor that a profile was measured on, as the interval model sees it."""
    return Processor.of(profile.facts, measure_bandwidth_gb_s(device, _COPY_BYTES), read_cpu_lanes())


def whole_paths(profile: LatencyProfile, network) -> dict[tuple[str, ...], Quantiles]:
    """Times of the whole paths of a profile, by their segments."""
    space = network.path_space
    return {space.keys(space.parse(name)): times for name, times in profile.paths.items()}
