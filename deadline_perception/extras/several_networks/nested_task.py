"""A network with its levels, bounds and qualities, as the scheduler chooses between them. Free of ROS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from deadline_perception.core.device import read_device_facts
from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.core.json_file import read_object
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.engines.segment_run import Network
from deadline_perception.extras.several_networks.scheduling.choices import Option
from deadline_perception.extras.several_networks.scheduling.quality import (
    AccuracyTable,
    Approach,
    DetectedInTime,
    LevelQuality,
    TotalAccuracy,
)
from deadline_perception.extras.several_networks.task_file import TaskRequest
from deadline_perception.networks.model_reference import ModelNotFound
from deadline_perception.runtime.job import JobRecord, Outcome
from deadline_perception.runtime.loading import (
    NetworkOptions,
    SetupError,
    load_profile,
    load_quality,
    make_calibrator,
    prepared_paths,
    warm_up,
)
from deadline_perception.runtime.resident_networks import ResidentNetworks
from deadline_perception.timing.part_bound import PartBound
from deadline_perception.timing.path_bound import PathForecast, SegmentForecast
from deadline_perception.timing.time_model import Reserve

OVERHEAD_FLOOR_MS, OVERHEAD_CEILING_MS = 1.0, 30.0  # of converting an image and publishing a result
_OVERHEAD_QUANTILE = 0.9


@dataclass(eq=False)
class NestedTask:
    """One task of a scheduler.

    Attributes:
        request: what its user asked for.
        network: warm, where it is to run.
        paths: of its levels, cheapest first.
        forecast: expected idle times of its paths.
        quality: of its levels.
        bound: of whole jobs.
        notices: what a person should know, each a sentence.
        overhead: of a job beside its network.
        slowdown: factor of contention that its bounds hold for.
    """

    request: TaskRequest
    network: Network
    paths: tuple[ExecutionPath, ...]
    forecast: SegmentForecast
    quality: LevelQuality
    bound: PartBound
    notices: tuple[str, ...] = ()
    overhead: Reserve = field(
        default_factory=lambda: Reserve(
            OVERHEAD_FLOOR_MS, OVERHEAD_CEILING_MS, quantile=_OVERHEAD_QUANTILE
        )
    )
    slowdown: float = 1.0

    @property
    def name(self) -> str:
        """Of the task."""
        return self.request.name

    def expected_ms(self, level: int) -> float:
        """Time of a job at a level, as expected now."""
        return (
            self.forecast.forecast_ms(self.paths[level]) * self.slowdown + self.overhead.reserve_ms
        )

    def bounds_ms(self) -> tuple[float, ...]:
        """Bound of a job at each level, never falling with the level."""
        bounds = [self.bound.bound_ms(self.expected_ms(level)) for level in range(len(self.paths))]
        return tuple(float(bound) for bound in np.maximum.accumulate(bounds))

    def segments_ms(self) -> tuple[float, ...]:
        """Bound of the longest part of a job between two moments at which it may be preempted, at each level, never
        falling with the level; conversion or publication go with it."""
        space, bounds = self.network.path_space, []
        for path in self.paths:
            longest_ms = max(
                self.forecast.segment_ms(segment, path) for segment in range(len(space.segments))
            )
            expected_ms = longest_ms * self.slowdown + self.overhead.reserve_ms
            bounds.append(self.bound.bound_ms(expected_ms))
        return tuple(float(bound) for bound in np.maximum.accumulate(bounds))

    def options(
        self, speed_mps: float, bounds_ms: Sequence[float], segments_ms: Sequence[float]
    ) -> list[Option]:
        """Every level at every allowed period.

        Args:
            speed_mps: of the vehicle.
            bounds_ms: of each level's jobs.
            segments_ms: of their longest segments.
        """
        return [
            Option(
                level,
                period_ms,
                bound_ms,
                self.request.weight * self.quality.quality(level, period_ms, speed_mps),
                segment_ms,
                self.request.deadline_ms,
            )
            for level, (bound_ms, segment_ms) in enumerate(zip(bounds_ms, segments_ms))
            for period_ms in self.request.periods_ms
        ]

    def observe(self, record: JobRecord) -> None:
        """Learns from a job how long the next ones take."""
        if record.outcome in (Outcome.FAILED, Outcome.HUNG):
            return
        expected_ms = self.expected_ms(record.level)
        if record.outcome is Outcome.ABORTED:
            if record.overran:  # what was aborted for want of time says nothing else
                self.bound.observe_aborted(expected_ms, record.took_ms)
            return
        self.bound.observe(expected_ms, record.took_ms)
        self.overhead.observe(max(0.0, record.took_ms - record.network_ms))


def load_nested_task(
    request: TaskRequest,
    models_folder: Path,
    *,
    threads: int = 1,
    engine: str = 'auto',
    target_miss_probability: float = 0.01,
    warm: bool = True,
    networks: ResidentNetworks | None = None,
) -> NestedTask:
    """Loads network, profile and qualities of a task. Blocks for seconds when it warms the network.

    Args:
        request: what its user asks for.
        models_folder: of the shipped models.
        threads: per network operation.
        engine: what runs segments on the CPU, as in `NetworkOptions`.
        target_miss_probability: share of jobs that may exceed their bound.
        warm: run every level once, where it is to run here.
        networks: of other tasks, whose network is taken where it is the same; None: none is shared.

    Raises:
        DeadlinePerceptionError: a part is missing, damaged, or belongs to another network or device.
    """
    try:
        options = NetworkOptions(
            request.model,
            profile=request.profile,
            device=request.device,
            threads=threads,
            engine=engine,
            target_miss_probability=target_miss_probability,
        )
        networks = networks or ResidentNetworks()
        network, weights = networks.load(
            options.model, options.device, models_folder, options.engine
        )
        profile, notices, unkept = load_profile(
            options, network, read_device_facts(options.device), weights, models_folder
        )
        forecast = PathForecast(profile, network.path_space)
        prepared = network.kept_paths or prepared_paths(network)
        paths, quality = _levels(request, network, forecast, weights, prepared)
        bound, notices_of_bound = make_calibrator(options, forecast, None)
    except (SetupError, ModelNotFound, ValueError) as error:
        raise SetupError(f'task {request.name}: {error}') from error
    task = NestedTask(
        request, network, paths, forecast, quality, bound, tuple(notices + notices_of_bound)
    )
    if warm:
        _warm(task, profile.image_size, prepared)
    if unkept is not None:
        unkept()
    return task


def _levels(
    request: TaskRequest,
    network,
    forecast: PathForecast,
    weights: Path,
    prepared: Sequence[ExecutionPath] | None,
) -> tuple[tuple[ExecutionPath, ...], LevelQuality]:
    """The paths of a task's levels, and how good they are; those that are not named are chosen among the prepared."""
    space = network.path_space
    file = (
        Path(request.quality).expanduser()
        if request.quality
        else weights.with_suffix('.quality.json')
    )
    if file.is_file() and 'accuracy' in read_object(file, 'quality file'):
        return _classifier_levels(request, space, forecast, AccuracyTable.load(file))
    table = load_quality(network, forecast, weights, request.quality)
    if isinstance(request.levels, tuple):
        paths = tuple(space.parse(name) for name in request.levels)
    else:
        best = [
            path for path, _, _ in FrontierPolicy(space, forecast, table, paths=prepared).starts()
        ]
        paths = evenly_spaced(best, [forecast.forecast_ms(path) for path in best], request.levels)
    return paths, DetectedInTime(
        tuple(float(value) for value in table.table(paths)), request.distance_m
    )


def _classifier_levels(
    request: TaskRequest, space: PathSpace, forecast: PathForecast, table: AccuracyTable
) -> tuple[tuple[ExecutionPath, ...], LevelQuality]:
    """Those of an accuracy table, or some of them."""
    paths = [space.parse(name) for name in table.levels]
    wanted = (
        request.levels
        if isinstance(request.levels, tuple)
        else [
            str(path)
            for path in evenly_spaced(
                paths, [forecast.forecast_ms(path) for path in paths], request.levels
            )
        ]
    )
    if not set(wanted) <= set(table.levels):
        raise SetupError(
            f'levels are {", ".join(wanted)}, expected some of {", ".join(table.levels)}'
        )
    rows = {name: row for name, row in zip(table.levels, table.accuracy)}
    chosen = AccuracyTable(tuple(wanted), table.sizes_px, tuple(rows[name] for name in wanted))
    return tuple(map(space.parse, wanted)), TotalAccuracy(
        chosen, Approach(request.distance_m, request.size_px_m)
    )


def evenly_spaced(
    paths: Sequence[ExecutionPath], times_ms: Sequence[float], count: int
) -> tuple[ExecutionPath, ...]:
    """At most `count` of some paths, cheapest and dearest among them, evenly in the logarithm of their times."""
    if len(paths) <= count:
        return tuple(paths)
    if count == 1:
        return (paths[0],)
    wanted = np.geomspace(times_ms[0], times_ms[-1], count)
    places = {int(np.argmin(np.abs(np.log(np.array(times_ms) / time_ms)))) for time_ms in wanted}
    return tuple(paths[place] for place in sorted(places))


def _warm(
    task: NestedTask, image_size: tuple[int, int], prepared: Sequence[ExecutionPath] | None
) -> None:
    """Runs every level, so that no job pays for first calls; by the network's own way where it has one."""
    warm_up(task.network, image_size, prepared)
    image = np.random.default_rng(0).integers(0, 256, (*image_size, 3), dtype=np.uint8)
    for path in task.paths:
        task.network.start(image, path).finish()
