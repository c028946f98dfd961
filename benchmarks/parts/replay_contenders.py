"""The policies that are replayed, each with the space, the forecast and the qualities that it decides by."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.decision.pass_policy import PassPolicy
from deadline_perception.decision.pass_quality import LookQuality, PassQuality
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.decision.policy import Choice, Policy, Quality
from deadline_perception.decision.scene import SizeQuality
from deadline_perception.engines.segment_run import Network
from deadline_perception.networks.model_reference import find_weights, load_network
from deadline_perception.networks.passes import COARSE, FINE, NONE, PassesNetwork, merged
from deadline_perception.runtime.look_twice import useful_sequences, with_passes
from deadline_perception.timing.calibration import BoundCalibrator
from deadline_perception.timing.part_bound import PartBound
from deadline_perception.timing.path_bound import PathForecast, SegmentForecast
from deadline_perception.timing.profile import LatencyProfile
from deadline_perception.timing.recent_times import RecentTimes, StartRatio
from deadline_perception.timing.time_model import TimeModel, TimeParts
from parts.harness import ROOT
from parts.replay_frames import Answer, Contender, ReplayedNetwork
from parts.replay_recording import OUR_PATHS, OURS, PUBLIC, SeenImage
from parts.replay_traces import Trace

sys.path.append(str(Path(__file__).resolve().parents[2] / 'research' / 'policies'))
from baselines import Reactive
from expected_utility import ExpectedUtilityPolicy
from rivals import Alert, ConformalPid, PressureTiers, StaticTable
from thresholds import ThresholdPolicy

PROFILE = ROOT / 'models' / 'profiles' / f'{OURS}-reference-t1.json'
ALPHA, STEP, WIDTH = 0.01, 0.05, math.log(8.0)  # of the calibration, as the node has it
PARTS = tuple(part.name for part in fields(TimeParts) if part.name != 'bounds')
MISS_COST = 1.0  # of expected utility


@dataclass(frozen=True, eq=False)
class Space:
    """Paths that some contenders choose from.

    Attributes:
        paths: that were recorded.
        costs_ms: work of their keys.
        start: how frames scatter about what is expected of them, as the profile has it.
        answer_of: see `ReplayedNetwork`.
    """

    space: PathSpace
    paths: Sequence[ExecutionPath]
    costs_ms: Mapping[str, float]
    forecast: SegmentForecast
    start: StartRatio
    answer_of: Callable[[ExecutionPath, bool], Answer]

    def results(self, path: ExecutionPath) -> list[tuple[float, Answer]]:
        """Work until each result of a path, and the result."""
        keys, found, work_ms = path.keys_by_segment, [], 0.0
        for segment, key in zip(self.space.segments, keys):
            if key is None:
                continue
            work_ms += self.costs_ms[key]
            if segment.result:
                found.append((work_ms, self.answer_of(path, True)))
        last = self.answer_of(path, False)
        if not found or found[-1][0] < work_ms:
            return [*found, (work_ms, last)]
        return [*found[:-1], (work_ms, last)]

    def times(self, parts: TimeParts = TimeParts()) -> TimeModel:
        """A time model that has seen nothing."""
        bound = PartBound(BoundCalibrator(ALPHA, STEP, WIDTH), RecentTimes(ALPHA, self.start))
        return TimeModel(self.space, self.forecast, bound, parts=parts)


class World:
    """All that contenders choose from, with times of one machine, as `measure_costs` finds them."""

    def __init__(self, costs_ms: Mapping[str, float]) -> None:
        network, weights = load_network(OURS, 'cpu', engine='eager')
        self.passes: PassesNetwork = with_passes(
            network, weights, lambda model: load_network(model, 'cpu', engine='eager')
        )[0]
        fine, space = network.path_space, self.passes.path_space
        self.costs_ms = {}
        for key, ms in costs_ms.items():
            name, _, own = key.partition(' ')
            self.costs_ms[own if name == OURS else f'{COARSE}.{own}'] = ms
        profiled = PathForecast(LatencyProfile.load(PROFILE), fine)
        paths = [fine.parse(path) for path in OUR_PATHS]
        scale = statistics.median(
            sum(self.costs_ms[key] for key in fine.keys(path)) / profiled.forecast_ms(path)
            for path in paths
        )
        expected_ms = {key: ms * scale for key, ms in profiled.costs_ms.items()}
        start = profiled.start_ratio()
        self.single = Space(
            fine,
            paths,
            self.costs_ms,
            SegmentForecast(fine, expected_ms),
            start,
            lambda path, so_far: ((OURS, str(path)),),
        )
        singles = [self.passes.single(path) for path in paths]
        firsts = [
            space.largest.replace(coarse=label, **{FINE: NONE})
            for label in self.passes.coarse_paths
        ]
        both = [one.replace(coarse=label) for label in self.passes.coarse_paths for one in singles]
        of_passes = SegmentForecast(
            space, {key: expected_ms.get(key, self.costs_ms.get(key)) for key in space.carriers()}
        )
        self.sequences = Space(
            space, [*singles, *firsts, *both], self.costs_ms, of_passes, start, self._answer_of
        )
        self._looks = tuple(look_quality(one) for one in (self.passes.fine, self.passes.coarse))
        self.single_quality: Quality = self._looks[0].overall
        self.public, self.public_quality = _public(costs_ms, start), self._looks[1].overall
        self.kept, _ = useful_sequences(self.passes, paths, self.quality(), of_passes)

    def quality(self) -> PassQuality:
        """Of sequences, with a scene that has seen nothing."""
        return PassQuality(self.passes, *self._looks)

    def _answer_of(self, path: ExecutionPath, so_far: bool) -> Answer:
        coarse, fine = self.passes.parts(path)
        looks = [(PUBLIC, coarse), (OURS, None if so_far else fine)]
        return tuple((name, str(look)) for name, look in looks if look is not None)

    @cached_property
    def answers(self) -> list[Answer]:
        """All that can be answered."""
        of_paths = [
            space.answer_of(path, False)
            for space in (self.sequences, self.public)
            for path in space.paths
        ]
        return list(dict.fromkeys(of_paths))

    def found(self, image: SeenImage, answer: Answer) -> Detections:
        """What an answer holds, labels as of the network."""
        if len(answer) == 1:
            found = image.found[answer[0]]
            return self.passes.found_coarse(found) if answer[0][0] == PUBLIC else found
        coarse, fine = (image.found[look] for look in answer)
        passes = self.passes
        return merged(passes.found_coarse(coarse), fine, image.size, passes.fusion)


def look_quality(network: Network) -> LookQuality:
    """What the shipped table says of a network."""
    file = find_weights(network.config_name).with_suffix('.quality.json')
    overall = PathQuality.load(file, network.path_space)
    overall.check(network.weights_hash)
    return LookQuality(
        overall, SizeQuality.load(file, network.path_space, network.class_names, overall)
    )


def _public(costs_ms: Mapping[str, float], start: StartRatio) -> Space:
    space = load_network(PUBLIC, 'cpu', engine='eager')[0].path_space
    own_ms = {
        key.removeprefix(f'{PUBLIC} '): ms
        for key, ms in costs_ms.items()
        if key.startswith(f'{PUBLIC} ')
    }
    return Space(
        space,
        list(space),
        own_ms,
        SegmentForecast(space, own_ms),
        start,
        lambda path, so_far: ((PUBLIC, str(path)),),
    )


Maker = Callable[[World, Trace, Trace], Contender]


def contenders(images: Sequence[SeenImage]) -> dict[str, Maker]:
    """What makes each policy, of the world, the trace that it runs on, and the trace of the idle machine."""

    @lru_cache(maxsize=100_000)
    def found(world: World, image: int, answer: Answer) -> Detections:
        return world.found(images[image], answer)

    def ours(
        parts: TimeParts = TimeParts(),
        sees: bool = True,
        maker: type[PassPolicy] = PassPolicy,
        only_singles: bool = False,
    ) -> Maker:
        def make(world: World, trace: Trace, idle: Trace) -> Contender:
            space, quality = world.sequences, world.quality()
            kept = world.kept
            if only_singles:
                kept = [path for path in space.paths if NONE in (path[COARSE], path[FINE])]
            policy = maker(space.space, space.forecast, quality, paths=kept)
            policy.prepare()
            times = space.times(parts)
            policy.learn_from(times)
            return Contender(
                ReplayedNetwork(space.space, space.costs_ms, trace, space.answer_of),
                policy,
                times,
                quality.scene if sees else None,
                lambda scene, image, answer: scene.update(
                    found(world, image, answer), images[image].size
                ),
            )

        return make

    def on(space_of: str, policy_of: Callable[..., Policy], so_far: bool = False) -> Maker:
        def make(world: World, trace: Trace, idle: Trace) -> Contender:
            space, quality = {
                'single': (world.single, world.single_quality),
                'sequences': (world.sequences, world.quality()),
                'public': (world.public, world.public_quality),
            }[space_of]
            return Contender(
                ReplayedNetwork(space.space, space.costs_ms, trace, space.answer_of),
                policy_of(space, quality, idle),
                space.times(),
                answers_so_far=so_far,
            )

        return make

    return {
        'ours': ours(),
        **{f'ours without {part}': ours(TimeParts(**{part: False})) for part in PARTS},
        'ours without scene': ours(sees=False),
        'ours without second looks': ours(only_singles=True),
        'ours without decisions on the way': ours(maker=KeepsPlan),
        'static p99': on('single', static_table),
        'static p99, sequences': on('sequences', static_table, so_far=True),
        'ALERT': on('single', among_paths(Alert)),
        'conformal PID': on('single', among_paths(ConformalPid)),
        'pressure tiers (RAMS)': on('single', among_paths(PressureTiers)),
        'thresholds': on('single', Nearest),
        'reactive': on('single', reactive),
        'expected utility': on('single', utility),
        f'{PUBLIC}, static p99': on('public', static_table),
    }


def among_paths(policy: Callable[..., Policy]) -> Callable[[Space, Quality, Trace], Policy]:
    """One that is made of paths, forecast and quality."""
    return lambda space, quality, idle: policy(space.paths, space.forecast, quality)


def static_table(space: Space, quality: Quality, idle: Trace) -> StaticTable:
    """By 99th percentiles on the idle machine."""
    works_ms = np.array([space.results(path)[-1][0] for path in space.paths])
    p99_ms = np.quantile(idle.table_ms(works_ms) + idle.rest_ms[:, None], 0.99, axis=0)
    return StaticTable(dict(zip(space.paths, p99_ms.tolist())), space.forecast, quality)


def reactive(space: Space, quality: Quality, idle: Trace) -> Reactive:
    """On a ladder of recorded paths, to the lowest after a late frame."""
    return Reactive(space.space, space.forecast, quality, to_the_lowest=True, paths=space.paths)


def utility(space: Space, quality: Quality, idle: Trace) -> ExpectedUtilityPolicy:
    """Among recorded paths."""
    return ExpectedUtilityPolicy(
        space.space, space.forecast, quality, miss_cost=MISS_COST, paths=space.paths
    )


class KeepsPlan(PassPolicy):
    """Decides as a frame begins alone."""

    def redecide(
        self,
        path: ExecutionPath,
        segment: int,
        remaining_ms: float,
        factor: float,
        elapsed_ms: float = 0.0,
    ) -> Choice:
        """`path` unchanged."""
        number = self._index[path]
        left_ms = self._remaining_ms.item(segment, number)
        fits = left_ms * factor <= remaining_ms
        return Choice(path, left_ms, left_ms * factor, fits, self._qualities.item(number))


class Nearest:
    """Thresholds at the operators of the largest recorded scale that may fit, moved to recorded paths: of those that
    agree with what has run the longest that takes no longer than what the thresholds want."""

    name = 'thresholds'
    keeps_bounds = False

    def __init__(self, space: Space, quality: Quality, idle: Trace) -> None:
        self._space = space
        self._of_scale = []
        for scale in sorted({path['scale'] for path in space.paths}, reverse=True):
            start = space.space.largest.replace(scale=scale)
            policy = ThresholdPolicy(space.space, space.forecast, quality, start=start)
            paths = [path for path in space.paths if path['scale'] == scale]
            self._of_scale.append((policy, paths))

    def plan(self, remaining_ms: float, factor: float) -> Choice:
        """See `Policy.plan`; of the largest scale whose shortest recorded path fits, else of the smallest."""
        for policy, paths in self._of_scale:
            least_ms = min(self._space.forecast.forecast_ms(path) for path in paths)
            if least_ms * factor <= remaining_ms:
                break
        return self._moved(policy.plan(remaining_ms, factor), paths, 0, remaining_ms, factor)

    def redecide(
        self,
        path: ExecutionPath,
        segment: int,
        remaining_ms: float,
        factor: float,
        elapsed_ms: float = 0.0,
    ) -> Choice:
        """See `Policy.redecide`."""
        space = self._space.space
        policy, paths = next(one for one in self._of_scale if path in one[1])
        prefix = space.prefix(path, segment)
        agreeing = [one for one in paths if space.prefix(one, segment) == prefix]
        wanted = policy.redecide(path, segment, remaining_ms, factor)
        return self._moved(wanted, agreeing, segment, remaining_ms, factor)

    def observe(self, latency_ms: float, remaining_ms: float) -> None:
        """Learns nothing; see `Policy.observe`."""

    def _moved(
        self,
        wanted: Choice,
        paths: Sequence[ExecutionPath],
        segment: int,
        remaining_ms: float,
        factor: float,
    ) -> Choice:
        times_ms = {path: self._space.forecast.forecast_ms(path, segment) for path in paths}
        shorter = [path for path in paths if times_ms[path] <= wanted.forecast_ms]
        path = max(shorter, key=times_ms.get) if shorter else min(paths, key=times_ms.get)
        left_ms = times_ms[path]
        bound_ms = left_ms * factor
        return wanted._replace(
            path=path,
            forecast_ms=left_ms,
            bound_ms=bound_ms,
            feasible=bound_ms <= remaining_ms,
        )
