"""Loads the task that the detector node runs, checks that its parts belong together, and warms it up. Free of ROS."""

from __future__ import annotations

import contextlib
import math
import os
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from deadline_perception.core.device import (
    DEFAULT_THREADS,
    DeviceFacts,
    keep_settings,
    profile_command,
    read_device_facts,
    use_threads,
)
from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.core.measurement_plan import covering_paths, fewest_covering
from deadline_perception.core.number import is_count, number_or_nan, told_value
from deadline_perception.core.process_memory import give_back_memory, use_huge_pages
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.pass_policy import PassPolicy
from deadline_perception.decision.pass_quality import LookQuality, PassQuality
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.decision.policy import Policy, Quality
from deadline_perception.decision.scene import SizeQuality
from deadline_perception.decision.useful_paths import paths_of, useful_paths
from deadline_perception.engines.eager import Eager
from deadline_perception.engines.segment_run import Network
from deadline_perception.engines.segment_store import MODELS_SUFFIX, Form
from deadline_perception.networks.model_reference import (
    ModelKind,
    ModelNotFound,
    ModelReference,
    is_set,
)
from deadline_perception.networks.passes import PassesNetwork
from deadline_perception.runtime.look_twice import (
    joined_profile,
    useful_sequences,
    with_passes,
)
from deadline_perception.runtime.resident_networks import ResidentNetworks
from deadline_perception.runtime.task import Task
from deadline_perception.timing.calibration import BoundCalibrator, CalibrationFile, ForeignFile
from deadline_perception.timing.part_bound import PartBound
from deadline_perception.timing.path_bound import PathForecast, SegmentForecast, WcetForecast
from deadline_perception.timing.profile import (
    WCET_FRAMES,
    LatencyProfile,
    ProfileMismatch,
    default_profile_path,
    measure_profile,
    timing_key,
)
from deadline_perception.timing.recent_times import RecentTimes, StartRatio
from deadline_perception.timing.time_model import CALIBRATED, WCET, Forecast, TimeModel, TimeParts
from deadline_perception.timing.transferred_profile import find_reference, transfer
from deadline_perception.timing.wcet.segment_model import with_wcet

_UNKNOWN_DEVIATION = 0.08  # of log ratios, where a profile has no whole paths: bounds begin at 1.25
_LARGEST_FACTOR = 8.0  # the width of the interval that holds latency over bound
_CALIBRATION_STEP = (
    0.05  # of the factor's logarithm after each frame; measured: path_bounds.py of commit 44e7b7c6
)
# Of a profile measured at start.
_COARSE: dict[str, Any] = {'repeats': 2, 'whole_paths': 8, 'path_repeats': 2, 'time_limit_s': 8.0}
_WATCHED_S = 1.0  # for which interruptions are watched at start

PolicyMaker = Callable[[PathSpace, Forecast, Quality], Policy]
Passes = tuple[PassesNetwork, Path]  # the network, and the weights of the first look


class SetupError(DeadlinePerceptionError):
    """The detector cannot be configured: something that it needs is not there."""


class NoProfile(SetupError):
    """There is no latency profile of this network on this device."""


@dataclass(frozen=True)
class NetworkOptions:
    """Where the parts of the detector lie.

    Attributes:
        model: weights file, or the name of one in the package's `models` folder, such as `street`; or a set of models,
            as `deadline-perception adopt` writes it; or any other network as `package.module:callable`, which is called
            with the device; or a network.
        profile: latency profile; empty: the one of this device, the user's own before the package's.
        device: `cpu` or `cuda`.
        engine: what runs the segments of weights on the CPU, one of `ENGINES`; on a GPU CUDA graphs do.
        threads: threads per network operation.
        policy: `frontier`; or what gives a policy of path space, forecast and quality, or its name as
            `package.module:callable`.
        target_miss_probability: of the bounds.
        calibration_file: keeps what the calibrator learnt over a restart; empty: nothing is kept.
        bounds: what bounds are made of, see `TimeParts`.
        classes: of an exported detector, what its labels mean, in their order: names, a file of them, or `coco`; empty:
            as the file says.
        two_passes: look at an image twice where the weights declare how (see `networks.passes`), under the policy
            `frontier`.
        class_weights: what objects of a class count for, over others, as a path is chosen: `{'person': 3.0}`. Of a
            network that looks twice.

    Raises:
        ValueError: a number lies outside its range, or is none.
    """

    model: str | Network
    profile: str = ''
    device: str = 'cpu'
    engine: str = 'auto'
    threads: int = DEFAULT_THREADS
    policy: str | PolicyMaker = 'frontier'
    target_miss_probability: float = 0.01
    calibration_file: str = ''
    bounds: str = CALIBRATED
    classes: str | Sequence[str] = ()
    two_passes: bool = True
    class_weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not is_count(self.threads) or self.threads < 1:
            raise ValueError(
                f'threads is {told_value(self.threads)}, expected a number of at least 1'
            )
        if not 0.0 < number_or_nan(self.target_miss_probability) < 1.0:
            raise ValueError(
                f'target_miss_probability is {told_value(self.target_miss_probability)}, '
                f'expected a number in (0, 1)'
            )


@dataclass(frozen=True, eq=False)
class LoadedTask:
    """A task whose network is warm.

    Attributes:
        task: the task.
        options: what it was loaded from.
        facts: the device that runs it.
        origin: what the calibration of its bounds holds for, by name.
        kept_paths: those of the network's paths that are kept ready; None: all.
        calibration_file: keeps what the calibrator learns; None when nothing is kept.
        notices: what happened while loading that a person should know, each a sentence.
        degraded: why times may differ from what was measured, each with what to run; it stays so until the node is
            configured anew. The calibration follows such times, but its first hundreds of frames do not know them.
    """

    task: Task
    options: NetworkOptions
    facts: DeviceFacts
    origin: Mapping[str, str | int]
    kept_paths: Sequence[ExecutionPath] | None
    calibration_file: CalibrationFile | None
    notices: tuple[str, ...]
    degraded: tuple[str, ...]

    @property
    def ready_paths(self) -> int:
        """Number of the paths that are kept ready."""
        return len(self.task.network.path_space if self.kept_paths is None else self.kept_paths)

    @classmethod
    def of(cls, task: Task) -> LoadedTask:
        """A task that was not loaded from files."""
        return cls(task, NetworkOptions(task.network), read_device_facts(), {}, None, None, (), ())


def load_task(
    options: NetworkOptions,
    models_folder: Path,
    images: Callable[[], Sequence[np.ndarray]] | None = None,
    prepare: Callable[[Path], None] | None = None,
    networks: ResidentNetworks | None = None,
) -> LoadedTask:
    """Loads, checks and warms up. Blocks for seconds; call it on the thread that will run the network, because
    OpenMP threads and GPU handles belong to a thread.

    Args:
        options: what to load.
        models_folder: holds the shipped models.
        images: on which a profile is measured where there is none, in some 10 s, and kept; None: that is refused.
        prepare: prepares the segments of a weights file where `engine` auto wants them and they are missing, in about
            a minute; None: the network runs eagerly then.
        networks: of the same thread, where that of another task is taken if it is the same; None: none is shared.

    Raises:
        DeadlinePerceptionError: a part is missing, damaged, or belongs to another network or device.
    """
    if options.device == 'cpu':
        keep_settings(options.threads)
    use_threads(options.threads)
    networks = networks or ResidentNetworks()
    network, weights, passes = _load_networks(options, models_folder, prepare, networks)
    runs = network if passes is None else passes[0]
    facts = read_device_facts(options.device)
    find = partial(_profile_at_hand, facts=facts, models_folder=models_folder, images=images)
    profile, degraded, unkept = find(options, network, weights)
    if passes is not None:
        own_place = replace(options, profile='')
        of_first, further, unkept_first = find(own_place, passes[0].coarse, weights)
        profile = joined_profile(passes[0], profile, of_first)
        degraded += further
        if unkept_first is not None:
            unkept_first()
    forecast = PathForecast(profile, runs.path_space)
    prepared = prepared_paths(network)
    at_hand = list(network.path_space) if prepared is None else prepared
    at_hand = paths_of(at_hand, profile.measured_keys) or at_hand
    quality, kept, notice = decided_by(options, network, weights, passes, forecast, at_hand)
    degraded += environment_faults(options.device, options.threads)
    if kept is None and prepared is not None:
        degraded.append(
            f'{len(network.path_space) - len(prepared)} of {len(network.path_space)} paths run eagerly in '
            f'part, since the policy frontier has no use for them and {options.policy} may. Prepare all: '
            f'{_profile_command(options, weights, " --all-paths")}'
        )
    wcet = None if profile.wcet is None else WcetForecast(runs.path_space, profile.wcet)
    bounds = options.bounds
    # Worst cases of few frames hold for fewer than they say.
    if bounds == WCET and (wcet is None or profile.whole_frames < WCET_FRAMES):
        bounds = CALIBRATED
        degraded.append(
            f'bounds is wcet, and the latency profile has {"no" if wcet is None else "some"} worst cases, of '
            f'{profile.whole_frames} whole frames, expected {WCET_FRAMES}: bounds are calibrated. '
            f'Measure one: {_profile_command(options, weights)}'
        )
    planned_by = wcet if wcet and bounds == WCET else forecast
    covering = _covering(runs.path_space, kept)
    with ThreadPoolExecutor(1) as beside:  # most of it without Python's lock
        keys = [key for path in covering for key in runs.path_space.keys(path)]
        segments = beside.submit(runs.engine.load, keys)
        policy = make_policy(options.policy, runs.path_space, planned_by, quality, kept)
        segments.result()
    if networks.take_cold(network, covering):
        _warm_up_once(runs, profile.image_size, kept, covering)
    origin, calibration_file = _calibration_origin(options, profile, runs, facts, degraded)
    bound, notices = make_calibrator(options, forecast, calibration_file)
    parts = TimeParts(bounds=bounds)
    times = TimeModel(runs.path_space, forecast, bound, wcet=wcet, parts=parts)
    if isinstance(policy, PassPolicy) and planned_by is forecast:
        policy.learn_from(times)
    # Scaled times have a notice of their own, and are scaled anew at the next start.
    if profile.was_disturbed and not profile.scaled_from:
        notices.append(
            f'the latency profile was measured beside other programs, at a load of {profile.load_before:.1f} '
            f'on {profile.facts.cores} cores: frames correct it. Measure again: {_profile_command(options, weights)}'
        )
    notices += [words for words in (runs.engine.notice, notice) if words]
    if unkept is not None:  # not before all of it has loaded
        unkept()
    scene = quality.scene if isinstance(quality, PassQuality) else None
    task = Task(runs, policy, times, scene)
    return LoadedTask(
        task,
        options,
        facts,
        origin,
        kept,
        calibration_file,
        tuple(notices),
        tuple(dict.fromkeys(degraded)),
    )


def _ready_network(
    options: NetworkOptions,
    models_folder: Path,
    prepare: Callable[[Path], None] | None,
    networks: ResidentNetworks,
    model: str | Path | Network,
    classes: str | Sequence[str] = (),
) -> tuple[Network, Path]:
    """A network and its file, its segments prepared where that was missing; see `load_task`."""
    load = partial(networks.load, model, options.device, models_folder, options.engine, classes)
    network, weights = load()
    if prepare is not None and _segments_are_missing(options, network, weights):
        prepare(weights)
        networks.clear()
        network, _ = load()
    return network, weights


def _profile_at_hand(
    options: NetworkOptions,
    network: Network,
    weights: Path,
    *,
    facts: DeviceFacts,
    models_folder: Path,
    images: Callable[[], Sequence[np.ndarray]] | None,
) -> FoundProfile:
    """The profile of a network, measured where there is none; see `load_task`."""
    try:
        return load_profile(options, network, facts, weights, models_folder)
    except (NoProfile, ProfileMismatch) as error:
        if images is None or options.profile:
            raise
        return measure_anew(network, facts, images(), str(error))


def _load_networks(
    options: NetworkOptions,
    models_folder: Path,
    prepare: Callable[[Path], None] | None,
    networks: ResidentNetworks,
) -> tuple[Network, Path, Passes | None]:
    """The network that is meant, prepared where that is wanted, the file of its weights, and its two passes, if any."""
    load = partial(_ready_network, options, models_folder, prepare, networks)
    network, weights = load(options.model, options.classes)
    # Whoever names paths names one look.
    if not options.two_passes or options.policy != 'frontier' or network.kept_paths:
        return network, weights, None
    return network, weights, with_passes(network, weights, load)


def decided_by(
    options: NetworkOptions,
    network: Network,
    weights: Path,
    passes: Passes | None,
    forecast: PathForecast,
    at_hand: Sequence[ExecutionPath],
) -> tuple[Quality, Sequence[ExecutionPath] | None, str]:
    """Quality of the paths or of the sequences of passes, those that are kept ready, and what a person should know.

    They are those that the network keeps, or the useful ones of those at hand, without passes where these are all; None
    where the policy does not say which it needs.

    Args:
        options: name the policy.
        network: whose paths are looked at.
        weights: its file.
        passes: of it, if any.
        forecast: of what runs, which are its passes where it has some.
        at_hand: paths of the network that can be kept.
    """
    space = network.path_space
    of_network = SegmentForecast(space, {key: forecast.costs_ms[key] for key in space.carriers()})
    quality = load_quality(network, of_network, weights)
    if options.class_weights and passes is None:
        raise SetupError(
            f'class_weights are {dict(options.class_weights)}, but {network.config_name} is looked at once, '
            f'expected weights that look twice, and two_passes'
        )
    if options.policy != 'frontier' or network.kept_paths:
        return quality, network.kept_paths, ''
    if passes is None:
        is_whole = len(at_hand) == len(space)
        return quality, useful_paths(space, of_network, quality) if is_whole else at_hand, ''
    of_passes = pass_quality(passes, quality, weights, forecast, options.class_weights)
    return of_passes, *useful_sequences(passes[0], at_hand, of_passes, forecast)


def _warm_up_once(
    network: Network,
    image_size: tuple[int, int],
    kept: Sequence[ExecutionPath] | None,
    covering: Sequence[ExecutionPath],
) -> None:
    """Warms up a network that nobody runs yet, and lets memory be what frames need: the first frame of a path otherwise
    faults in some thousand pages, which takes up to as long as the frame."""
    warm_up(network, image_size, kept)
    give_back_memory()
    use_huge_pages()
    of_most_results = max(covering, key=lambda path: len(network.path_space.results(path)))
    check_results(network, image_size, of_most_results)
    others = [path for path in covering if path != of_most_results]
    network.warm_up(others, image_size)  # last, as what no segment holds was given back


def _calibration_origin(
    options: NetworkOptions,
    profile: LatencyProfile,
    network: Network,
    facts: DeviceFacts,
    degraded: list[str],
) -> tuple[dict[str, str | int], CalibrationFile | None]:
    """What a calibration holds for, and the file that keeps it; None where nothing is kept, `degraded` says why."""
    key = timing_key(network.network_hash, facts, network.input_size, network.engine.identity)
    origin = {'profile': profile.digest, **key}
    if not options.calibration_file:
        return origin, None
    file = CalibrationFile(Path(options.calibration_file).expanduser(), origin)
    try:
        file.check_place()
    except ForeignFile as error:
        degraded.append(f'{error}; nothing is kept over a restart: name another file')
        return origin, None
    return origin, file


def prepared_paths(network: Network) -> Sequence[ExecutionPath] | None:
    """The paths whose segments the engine was prepared for; None: all."""
    space = network.path_space
    keys = network.engine.keys
    return (
        None if keys is None or keys.issuperset(space.carriers()) else paths_of(space, keys) or None
    )


def _segments_are_missing(options: NetworkOptions, network: Network, weights: Path) -> bool:
    """Return whether the engine wants prepared segments that are missing, and preparing takes about a minute."""
    if options.engine != 'auto' or type(network.engine) is not Eager or not network.engine.notice:
        return False
    return weights.with_suffix(MODELS_SUFFIX).is_file() or not network.quantises


def warm_up(
    network: Network, image_size: tuple[int, int], kept: Sequence[ExecutionPath] | None = None
) -> None:
    """Runs some of the paths that are kept ready, so that no frame pays for first calls: together they hold every
    segment that an engine made something of, or where it makes nothing, every one."""
    space = network.path_space
    forms = network.engine.forms
    eager = Form.EAGER.value
    compiled = {key for key in space.carriers() if forms.get(key, eager) != eager}
    network.warm_up(_covering(space, kept, compiled or None), image_size)


def check_results(network: Network, image_size: tuple[int, int], path: ExecutionPath) -> None:
    """Makes sure that a network gives the results so far that it declares on a path.

    Raises:
        SetupError: one is missing, or of another type; says after which segment.
    """
    space = network.path_space
    if not space.result_segments:
        return
    run = network.start(np.zeros((*image_size, 3), np.uint8), path)
    while not run.finished:
        key = run.path.keys_by_segment[run.segment]
        segment = space.segments[run.segment]
        run.run_segment()
        found = run.result() if run.finished else run.result_so_far()
        if segment.result and key is not None and not isinstance(found, network.result_type):
            raise SetupError(
                f'{network.config_name} declares the result {segment.result!r} after segment {segment.name} and '
                f'gives {type(found).__name__}, expected {network.result_type.__name__}'
            )


def _covering(
    space: PathSpace,
    kept: Sequence[ExecutionPath] | None,
    keys: Collection[str] | None = None,
) -> list[ExecutionPath]:
    """Some of the paths that are kept ready, which together hold every segment of them, or of these keys."""
    if kept is None:
        return covering_paths(space, 1, random.Random(0))
    return fewest_covering(kept, keys)


def environment_faults(device: str, threads: int) -> list[str]:
    """Why times of the CPU vary widely: what `keep_settings` could not set any more. Empty when nothing is missing, and
    for a GPU.

    Args:
        device: that the network runs on.
        threads: threads per network operation.
    """
    if device != 'cpu' or threads == 1 or os.environ.get('OMP_WAIT_POLICY') == 'PASSIVE':
        return []
    return [
        'PyTorch was loaded first, and its threads spin while they wait, so that times vary: start the process behind '
        '`env OMP_WAIT_POLICY=PASSIVE`'
    ]


def _keep(profile: LatencyProfile, file: Path) -> None:
    """Writes times where the next start finds them, if the disk takes them; else they are taken again then."""
    with contextlib.suppress(OSError):
        profile.save(file)


FoundProfile = tuple[LatencyProfile, list[str], Callable[[], None] | None]


def load_profile(
    options: NetworkOptions,
    network: Network,
    facts: DeviceFacts,
    weights: Path,
    models_folder: Path,
) -> FoundProfile:
    """The latency profile, how its device and settings differ from those at hand, with what to run, and what the caller
    may keep once all else has loaded.

    Args:
        options: name the profile, or leave it to be found.
        network: with `config_name`, `network_hash`, `input_size` and `engine`.
        facts: the device at hand.
        weights: file of the network, for the command that is named.
        models_folder: holds the profiles that came with the package.

    Where nobody measured this device, the times of another one are brought to it by timing some paths, which blocks for
    a second or two.

    Raises:
        NoProfile: none is named and none is found, of no device.
        JsonFileError: it cannot be read.
        ProfileMismatch: it was measured with another network, input size or kind of processor.
    """
    command = _profile_command(options, weights)
    if options.profile:
        file = Path(options.profile).expanduser()
    else:
        places = [
            default_profile_path(network.config_name, facts),
            default_profile_path(network.config_name, facts, models_folder / 'profiles'),
        ]
        if is_set(weights):
            places.append(weights.with_suffix('.profile.json'))
        found = next((place for place in places if place.is_file()), None)
        if found is None:
            profile = _transferred(network, facts, places[0], models_folder / 'profiles', command)
            return profile, _scaling(profile, command), partial(_keep, profile, places[0])
        file = found
    profile = LatencyProfile.load(file)
    unkept = None
    here: dict[str, Any] = {
        'network_hash': network.network_hash,
        'facts': facts,
        'input_size': network.input_size,
        'engine': network.engine.identity,
    }
    outdated = profile.was_disturbed or profile.mismatches(**here)
    # Before segments were prepared, or beside other programs, whose times would refuse frames that fit now.
    if profile.scaled_from and not options.profile and outdated:
        profile = _transferred(network, facts, file, models_folder / 'profiles', command)
        unkept = partial(_keep, profile, file)
    # Times of another network mean nothing. Those of another device or setting are wrong by a factor, which the
    # calibration finds within some hundred frames: so that is said, and the node runs.
    foreign = profile.mismatches(**{**here, 'facts': profile.facts, 'engine': profile.engine})
    if profile.facts.kind != facts.kind:
        foreign.append(
            f'it was measured on {profile.facts.kind} and the network runs on {facts.kind}'
        )
    if foreign:
        raise ProfileMismatch(
            f'latency profile {file} does not fit: {"; ".join(foreign)}. Measure one: {command}'
        )
    # What a process lacks has a notice of its own, with the remedy.
    if environment_faults(options.device, options.threads):
        here['facts'] = replace(facts, wait_policy=profile.facts.wait_policy)
    differences = profile.mismatches(**here)
    if differences:
        words = f'latency profile {file.name}: {"; ".join(differences)}. Measure one: {command}'
        return profile, [words], unkept
    return profile, _scaling(profile, command), unkept


def _profile_command(options: NetworkOptions, weights: Path, more: str = '') -> str:
    if isinstance(options.model, str):
        name = options.model if options.model == weights.stem else str(weights)
        return profile_command(name, options.device, options.threads) + more
    return 'measure_profile of deadline_perception.timing.profile'  # no command has the network


def _scaling(profile: LatencyProfile, command: str) -> list[str]:
    """That times were scaled rather than measured, where it is so."""
    return (
        [
            f'this device was not measured: times are scaled from those of {profile.scaled_from}. Measure them: {command}'
        ]
        if profile.scaled_from
        else []
    )


def _transferred(
    network: Network, facts: DeviceFacts, file: Path, folder: Path, command: str
) -> LatencyProfile:
    """A profile for a device that nobody measured.

    Raises:
        NoProfile: this network was measured on no device of this kind.
    """
    reference = find_reference(folder, network, facts, network.engine.identity)
    if reference is None:
        raise NoProfile(
            f'no latency profile of {network.config_name!r} for {facts} in {file.parent} or {folder}. '
            f'Measure one: {command}'
        )
    return with_wcet(
        transfer(reference, network, among=prepared_paths(network)), network, watched_s=_WATCHED_S
    )


def measure_anew(
    network: Network, facts: DeviceFacts, images: Sequence[np.ndarray], because: str
) -> FoundProfile:
    """Measures a coarse profile in seconds; see `load_profile`.

    Args:
        network: that is measured.
        facts: the device at hand.
        images: to measure on.
        because: why there is none.
    """
    profile = with_wcet(
        measure_profile(
            network,
            [network.example(image) for image in images],
            **_COARSE,
        ),
        network,
        watched_s=_WATCHED_S,
    )
    file = default_profile_path(network.config_name, facts)
    return profile, [f'measured in seconds, coarsely: {because}'], partial(_keep, profile, file)


def pass_quality(
    passes: Passes,
    fine: Quality,
    weights: Path,
    forecast: SegmentForecast,
    class_weights: Mapping[str, float],
) -> PassQuality:
    """Quality of the sequences of passes, by size of object where the tables have that.

    Args:
        passes: the network, and the weights of the first look.
        fine: of the network of the closer look, over all objects.
        weights: file of that, beside which its table lies.
        forecast: times of the sequences.
        class_weights: see `NetworkOptions`.

    Raises:
        QualityTableError: a table cannot be read.
        SetupError: the network has no such class, or a weight is no number above 0.
    """
    network, coarse_weights = passes

    def quality_of(of: Network, overall: Quality, file: Path) -> LookQuality:
        sizes = None
        if file.is_file():
            sizes = SizeQuality.load(file, of.path_space, of.class_names, overall)
        return LookQuality(overall, sizes)

    of_fine = quality_of(network.fine, fine, weights.with_suffix('.quality.json'))
    costs = {
        key: forecast.costs_ms[f'coarse.{key}']
        for path in network.coarse_paths.values()
        for key in network.coarse.path_space.keys(path)
    }
    of_coarse = load_quality(
        network.coarse, SegmentForecast(network.coarse.path_space, costs), coarse_weights
    )
    table = coarse_weights.with_suffix('.quality.json')
    looks = of_fine, quality_of(network.coarse, of_coarse, table)
    try:
        return PassQuality(network, *looks, class_weights)
    except ValueError as error:
        raise SetupError(str(error)) from error


def load_quality(
    network: Network, forecast: SegmentForecast, weights: Path, named: str = ''
) -> PathQuality:
    """The table of path qualities: the one that is named, or beside the weights; without, longer paths are better.

    Raises:
        DeadlinePerceptionError: it cannot be read, or is of other weights.
    """
    file = Path(named).expanduser() if named else weights.with_suffix('.quality.json')
    if not named and not file.is_file():  # the latter also of a network that has no file
        return PathQuality.from_forecast(network.path_space, forecast)
    quality = PathQuality.load(file, network.path_space)
    quality.check(network.weights_hash)
    return quality


def make_policy(
    policy: str | PolicyMaker,
    space: PathSpace,
    forecast: Forecast,
    quality: Quality,
    kept: Sequence[ExecutionPath] | None = None,
) -> Policy:
    """The policy of that name, ready to decide.

    Raises:
        SetupError: there is none.
        ValueError: forecast or quality gives values that are out of range.
    """
    if policy == 'frontier' or kept is not None and len(kept) == 1:  # of one path no other decides
        maker = PassPolicy if space.result_segments else FrontierPolicy
        made = maker(space, forecast, quality, paths=kept)
        made.prepare()
        return made
    return (find_policy(policy) if isinstance(policy, str) else policy)(space, forecast, quality)


def check_policy(name: str) -> None:
    """Refuses what names no policy; whether its module is there is looked at when it is made.

    Raises:
        ValueError: it does not.
    """
    if name != 'frontier' and ModelReference.parse(name).kind is not ModelKind.CALLABLE:
        raise ValueError(f'policy is {name!r}, expected frontier or package.module:callable')


def find_policy(name: str) -> PolicyMaker:
    """What makes the policy that is named `package.module:callable`.

    Raises:
        SetupError: there is none of that name.
    """
    try:
        check_policy(name)
        return ModelReference.parse(name).find()
    except (ValueError, ModelNotFound) as error:
        raise SetupError(f'policy {name} cannot be used: {error}') from error


def make_calibrator(
    options: NetworkOptions, forecast: PathForecast, kept: CalibrationFile | None
) -> tuple[PartBound, list[str]]:
    """The bound that goes on where a file was written, or a new one, and why the file could not be used."""
    alpha = options.target_miss_probability
    begun_anew = []
    try:
        start = forecast.start_ratio()
    except ValueError:
        start = StartRatio(0.0, _UNKNOWN_DEVIATION)  # a profile without whole paths
    if kept is not None and kept.file.exists():
        try:
            return PartBound.from_state(kept.load(alpha=alpha, eta=_CALIBRATION_STEP), start), []
        except DeadlinePerceptionError as error:
            begun_anew.append(f'{error}; the calibration begins anew')
        except ValueError as error:
            begun_anew.append(
                f'calibration file {kept.file} cannot be used: {error}; the calibration begins anew'
            )
    integral = BoundCalibrator(alpha, _CALIBRATION_STEP, math.log(_LARGEST_FACTOR))
    return PartBound(integral, RecentTimes(alpha, start)), begun_anew
