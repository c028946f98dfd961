"""A latency profile for a device that nobody measured: its parts from another device, their scale from frames here.

Between two devices the times of segments of one kind (stage, pyramid, head, ...) differ mostly by a factor, so that a
few whole paths tell how long all others take. Segments that these paths run are measured; the others are those of the
reference times their kind's factor. How wrong that is shows in the whole paths, each forecast without itself
(`PathForecast.residual_quantile`), and from there the bounds are calibrated by frames as those of a measured profile.
benchmarks/new_device.py of commit a7507dff says how well it does. Needs no torch.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from deadline_perception.core.device import DeviceFacts, read_device_facts
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.json_file import JsonFileError
from deadline_perception.core.measurement_plan import distinct_paths
from deadline_perception.engines.segment_run import Network
from deadline_perception.timing.path_bound import kind_of
from deadline_perception.timing.profile import LatencyProfile, time_frame, wait_for_frame
from deadline_perception.timing.quantiles import Quantiles

PATHS, REPEATS = 8, 6  # measured: benchmarks/new_device.py of commit a7507dff
_LEAST_REPEATS, _ENOUGH_S = 4, 3.0  # segments that run eagerly take long
_BLOCK_PX = 16


def find_reference(
    folder: Path, network: Network, facts: DeviceFacts, engine: str
) -> LatencyProfile | None:
    """The profile in a folder that is nearest to the device at hand: of the same network, with each of its segments, and
    kind of processor, by preference of the same engine, then of the same number of threads; None where there is none.

    Files that cannot be read are passed over.
    """
    found = []
    for file in sorted(folder.glob(f'{network.config_name}-*.json')):
        try:
            profile = LatencyProfile.load(file)
        except JsonFileError:
            continue
        same = (profile.network_hash, profile.input_size, profile.facts.kind)
        if (
            same == (network.network_hash, network.input_size, facts.kind)
            and profile.segments.keys() >= network.path_space.carriers().keys()
        ):
            found.append(profile)
    return max(
        found,
        default=None,
        key=lambda profile: (
            _family(profile.engine) == _family(engine),
            profile.facts.threads == facts.threads,
        ),
    )


def transfer(
    reference: LatencyProfile,
    detector: Network,
    *,
    paths: int = PATHS,
    repeats: int = REPEATS,
    among: Sequence[ExecutionPath] | None = None,
) -> LatencyProfile:
    """The reference brought to this device by timing some whole paths here; blocks for a second or two.

    The paths are the smallest, the largest, and the largest with one operator at its smallest setting, as far as they
    reach, then random ones. Frames whose segments count alternate with frames that count as a whole. A slow network
    gets fewer repeats, at least 4.

    Args:
        reference: a profile of the same network, from any device.
        detector: the network here, see `measure_profile`.
        paths: that are timed, >= 2.
        repeats: frames of each of them that count, >= 2.
        among: paths to time; None: any.
    """
    space = detector.path_space
    rng = random.Random(0)
    load_before = os.getloadavg()[0]
    image = blocks_image(reference.image_size)
    known = list(space if among is None else among)
    lowest = {
        space.largest.replace(**{operator.name: operator.settings[0]}): None
        for operator in space.operators
    }
    chosen = distinct_paths(known, paths, rng, first=[path for path in lowest if path in known])
    segments: dict[str, list[float]] = {}
    totals: dict[str, list[float]] = {str(path): [] for path in chosen}
    begun_s = time.monotonic()
    for number in range(-1, repeats):
        if number >= _LEAST_REPEATS and time.monotonic() - begun_s > _ENOUGH_S:
            break
        for path in rng.sample(chosen, len(chosen)):
            wait_for_frame()
            total_ms, segments_ms = time_frame(detector, image, path)
            if number < 0:  # first calls allocate and choose kernels
                continue
            if number % 2:
                totals[str(path)].append(total_ms)
                continue
            for segment, duration_ms in enumerate(segments_ms):
                key = space.key(segment, path)
                if key is not None:
                    segments.setdefault(key, []).append(duration_ms)
    here = {key: Quantiles.from_samples(durations_ms) for key, durations_ms in segments.items()}
    return replace(
        reference,
        facts=read_device_facts(detector.device),
        engine=detector.engine.identity,
        scaled_from=reference.scaled_from or str(reference.facts),
        date=datetime.now(timezone.utc).isoformat(timespec='seconds'),
        load_before=round(load_before, 2),
        wcet=None,
        segments=scaled_segments(reference.segments, here),
        paths={name: Quantiles.from_samples(durations_ms) for name, durations_ms in totals.items()},
    )


def scaled_segments(
    reference: Mapping[str, Quantiles], here: Mapping[str, Quantiles]
) -> dict[str, Quantiles]:
    """Times of all segments of a reference on another device, by the names of `PathSpace.key`.

    Args:
        reference: of all segments, there.
        here: of some segments, which stay as they are. The others of their kind take the median of the kind's ratios
            of both devices' medians, those of other kinds the median of all ratios; they are estimates, of count 0.
    """
    ratios: dict[str, list[float]] = {}
    for key, times in here.items():
        if reference[key].p50 > 0.0:
            ratios.setdefault(kind_of(key), []).append(times.p50 / reference[key].p50)
    factors = {kind: float(np.median(of_kind)) for kind, of_kind in ratios.items()}
    other = float(np.median(sum(ratios.values(), []) or [1.0]))
    scaled = {
        key: Quantiles.of(
            [value * factors.get(kind_of(key), other) for value in times.values_ms], 0
        )
        for key, times in reference.items()
    }
    return {**scaled, **here}


def blocks_image(size: tuple[int, int]) -> np.ndarray:
    """An image of that height and width with edges at many places, so that proposals are made and suppressed as on a
    street."""
    height, width = size
    rows = -(-height // _BLOCK_PX)
    columns = -(-width // _BLOCK_PX)
    blocks = np.random.default_rng(0).integers(0, 256, (rows, columns, 3), np.uint8)
    return blocks.repeat(_BLOCK_PX, 0).repeat(_BLOCK_PX, 1)[:height, :width].copy()


def _family(engine: str) -> str:
    """`openvino 2026.4.1 nncf 3.4.0` -> `openvino`."""
    return engine.split()[0]
