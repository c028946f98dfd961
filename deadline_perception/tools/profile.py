"""Measure how long every part of a network takes on this device, so that deadlines can be met.

Runs whole frames over many images and execution paths, with the settings (threads, memory allocator) that the detector
node uses, and writes a latency profile that the node finds by itself. Takes some minutes; other programs should rest
meanwhile, because the profile says how fast the device is when idle.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from deadline_perception.core.device import (
    DeviceFacts,
    check_device,
    read_device_facts,
    use_threads,
)
from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.core.share_folder import share_folder
from deadline_perception.engines.segment_run import Network
from deadline_perception.extras.contention.other_programs import watch_cores_of_others
from deadline_perception.extras.data.records import Frame, spread_evenly
from deadline_perception.extras.evaluation.sample_size import bounded_share, samples_needed
from deadline_perception.networks.model_reference import (
    find_weights,
    is_set,
    load_network,
    use_engine,
)
from deadline_perception.runtime.loading import NetworkOptions, decided_by
from deadline_perception.runtime.look_twice import first_look_model, joined_profile, with_passes
from deadline_perception.system.priority import Role, ThreadPriority
from deadline_perception.timing.path_bound import PathForecast
from deadline_perception.timing.profile import (
    LatencyProfile,
    default_profile_path,
    measure_profile,
    time_frame,
)
from deadline_perception.timing.transferred_profile import find_reference, scaled_segments
from deadline_perception.timing.wcet.segment_model import with_wcet
from deadline_perception.tools.support.file_arguments import (
    DEFAULT_WEIGHTS,
    add_device_arguments,
    check_file,
    check_numbers,
)
from deadline_perception.tools.support.inference_thread import inference_thread
from deadline_perception.tools.support.restart import restart_with_environment
from deadline_perception.tools.support.segment_preparation import (
    are_ready,
    prepare_for_engine,
    segments_bar,
)
from deadline_perception.tools.support.terminal import print_table, progress_bar, say

_IMAGES, _PREPARED_IMAGES = 40, 16  # that are measured on, and that segments are prepared with
_DRIVE_S = 40.0  # of the rendered drive that they come from
_TARGET = 0.99  # of the detector's bounds unless a parameter says otherwise
_BUSY_CORES = 0.25  # of other programs; at more the device is not idle


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        repeats: times that each segment is timed.
        whole_paths: paths that are timed as a whole.
        path_repeats: times that each of those is timed.
    """

    repeats: int
    whole_paths: int
    path_repeats: int


_THOROUGH = Effort(repeats=50, whole_paths=40, path_repeats=16)
_QUICK = Effort(repeats=12, whole_paths=16, path_repeats=6)
_QUICK_MINUTES = 40 / 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        '--model',
        '--weights',
        dest='weights',
        type=Path,
        default=DEFAULT_WEIGHTS,
        help='network to measure, or a set of models (see adopt)',
    )
    add_device_arguments(
        parser,
        engine='what runs the network on a CPU: openvino prepares its segments in 8 bit '
        'first, where they are not ready yet, which takes minutes; auto does so where OpenVINO is '
        'installed',
    )
    parser.add_argument(
        '--minutes', type=float, help='longest time to measure; 2, or 40 s with --quick'
    )
    parser.add_argument(
        '--quick',
        action='store_true',
        help='fewer frames: coarser, in about 40 s once segments are prepared',
    )
    parser.add_argument(
        '--all-paths',
        action='store_true',
        help='also segments of no path that the policy frontier would plan, which other policies and '
        'benchmarks may run; without, some 80 of the 144 segments of street are measured',
    )
    parser.add_argument(
        '--prepare-only',
        action='store_true',
        help='prepare the segments of weights, and measure nothing; a node has it done beside it',
    )
    parser.add_argument(
        '--source',
        help='images to measure on: a folder, annotation, video or bag file; '
        'a rendered drive otherwise',
    )
    parser.add_argument(
        '--out', type=Path, help='profile to write; by default where the detector node looks for it'
    )


def run(args: argparse.Namespace) -> int:
    """Measures and writes a profile, and that of the network that takes the first look; returns the exit status."""
    check_numbers(args, minutes=(0.001, 600.0))
    minutes = args.minutes or (_QUICK_MINUTES if args.quick else 2.0)
    if args.out is not None:
        check_file('--out', args.out, args.weights, args.source)
    restart_with_environment(args.threads)
    check_device(args.device)
    networks = [args]
    first_look = first_look_model(find_weights(args.weights))
    if first_look:
        networks.append(argparse.Namespace(**{**vars(args), 'weights': first_look, 'out': None}))
    if args.prepare_only:
        return _prepare(networks)
    with inference_thread(lock_memory=args.device == 'cpu') as priority:
        return max(_measure(one, minutes, priority) for one in networks)


def _prepare(networks: Sequence[argparse.Namespace]) -> int:
    """Prepares the segments of all with one bar."""
    use_threads(networks[0].threads)
    facts, needed = read_device_facts('cpu'), []
    for args in networks:
        weights = find_weights(args.weights)
        if is_set(weights) or args.device != 'cpu' or args.engine == 'eager':
            raise ValueError(
                f'--prepare-only is given for {weights} on {args.device} with the engine {args.engine}, '
                f'expected weights on cpu with auto or openvino'
            )
        network, _ = load_network(weights, 'cpu')
        keys = _keys(_planned(args, weights, network, facts)[1]) or network.path_space.carriers()
        if not are_ready(network, facts, keys):
            needed.append((weights, network, keys))
    if not needed:
        return 0
    images = read_images(networks[0].source, _PREPARED_IMAGES)
    words = f'preparing {needed[0][0].stem}, once'
    before = 0
    with segments_bar(words, sum(len(keys) for *_, keys in needed)) as show:
        for weights, network, keys in needed:
            prepare_for_engine(
                weights,
                network,
                images,
                facts,
                'openvino',
                keys,
                lambda done, before=before: show(before + done),
            )
            before += len(keys)
    return 0


def _planned(
    args: argparse.Namespace, weights: Path, network: Network, facts: DeviceFacts
) -> tuple[LatencyProfile | None, Sequence[ExecutionPath] | None]:
    """An earlier profile, of this device or another, and the paths that are useful by it; None: all are measured."""
    if args.all_paths or is_set(weights):
        return None, None
    folder = share_folder() / 'models' / 'profiles'
    known = _reference_profile(network, facts, folder)
    if known is None:
        return None, None
    try:
        passes = with_passes(network, weights, lambda model: load_network(model, args.device))
        profile, space = known, network.path_space
        if passes is not None:
            space = passes[0].path_space
            of_first = _reference_profile(passes[0].coarse, facts, folder)
            if of_first is None:
                return known, None
            profile = joined_profile(passes[0], known, of_first)
        forecast = PathForecast(profile, space)
        options = NetworkOptions(str(weights))
        every = list(network.path_space)
        _, kept, _ = decided_by(options, network, weights, passes, forecast, every)
        if passes is not None:
            looks = (passes[0].parts(path)[1] for path in kept)
            kept = list(dict.fromkeys(look for look in looks if look is not None))
        return known, kept
    except (
        DeadlinePerceptionError
    ) as error:  # such as a table that was measured with the weights before these
        say(f'all segments are prepared and measured: which are useful is not known, {error}')
        return None, None


def _keys(paths: Sequence[ExecutionPath] | None) -> set[str] | None:
    return None if paths is None else {key for path in paths for key in path.space.keys(path)}


def _measure(args: argparse.Namespace, minutes: float, priority: ThreadPriority) -> int:
    use_threads(args.threads)
    facts = read_device_facts(args.device)
    weights = find_weights(args.weights)
    is_cpu = args.device == 'cpu'
    before = 'auto' if is_cpu and args.engine == 'openvino' else args.engine
    detector, _ = load_network(weights, args.device, engine=before)
    say_if_busy('the profile will make the device look slower than it is.')
    images = [detector.example(image) for image in read_images(args.source)]
    known, paths = None, None
    if not is_set(weights):  # whose models have their engines
        known, paths = _planned(args, weights, detector, facts)
        prepare_for_engine(weights, detector, images, facts, args.engine, _keys(paths))
        if is_cpu:
            use_engine(detector, args.engine, args.device, args.weights)  # as the node does
    profile = measure_with_progress(
        detector,
        images,
        priority,
        f'measuring {detector.config_name} on {detector.device}',
        minutes * 60.0,
        _QUICK if args.quick else _THOROUGH,
        paths,
    )
    if known is not None:
        profile = replace(profile, segments=scaled_segments(known.segments, profile.segments))
    profile = with_wcet(profile, detector)
    file = args.out or default_profile_path(detector.config_name, facts)
    profile.save(file)
    if detector.engine.notice:
        say(detector.engine.notice)
    _print_tables(profile, detector.path_space, detector.engine.forms)
    print(f'wrote {file}')
    return 0


def say_if_busy(why_not: str) -> None:
    """Prints how many cores other programs keep busy at this moment, if it matters, and what that does."""
    cores = watch_cores_of_others()
    if cores > _BUSY_CORES:
        say(f'Other programs keep {cores:.1f} cores busy: {why_not}')


def read_images(source: str | None, count: int = _IMAGES) -> list[np.ndarray]:
    """Images of a source, or of a rendered drive; see `spread_images`."""
    if source is None:
        from deadline_perception.extras.rendered_drive.drive import render_drive

        # As many frames as are wanted: the boxes of each are computed at once, which takes longer than an image.
        frames = render_drive(_DRIVE_S, rate_hz=count / _DRIVE_S).frames
    else:
        from deadline_perception.extras.data.source import open_source

        frames = open_source(source).frames
    return spread_images(frames, count)


def spread_images(frames: Sequence[Frame], count: int = _IMAGES) -> list[np.ndarray]:
    """Images of some frames, evenly spaced, those that have the size of the first."""
    images = [frame.load_bgr() for frame in spread_evenly(list(frames), count)]
    return [image for image in images if image.shape == images[0].shape]


def measure_with_progress(
    network: Network,
    images: Sequence,
    priority: ThreadPriority,
    words: str,
    limit_s: float,
    effort: Effort,
    among: Sequence[ExecutionPath] | None = None,
) -> LatencyProfile:
    """See `measure_profile`, on this thread, which is raised first; with a bar that shows how far it is."""
    # Starts the threads that are raised with this one.
    time_frame(network, images[0], among[-1] if among else network.path_space.largest)
    priority.raise_thread(Role.INFERENCE)
    say('; '.join((f'measured with {priority.in_force}', *priority.refusals)))
    with progress_bar(
        words,
        1.0,
        '{task.fields[frames]} frames,',
        'passed',
        'passed, {task.fields[left]} left',
        frames=0,
        left='-',
    ) as update:

        def report(done: int, planned: int, elapsed_s: float) -> None:
            priority.between_frames()
            share = min(1.0, max(done / planned, elapsed_s / limit_s))
            left_s = elapsed_s * (1.0 - share) / share
            update(completed=share, frames=done, left=f'{left_s / 60.0:.0f}:{left_s % 60.0:02.0f}')

        return measure_profile(
            network, images, **asdict(effort), time_limit_s=limit_s, among=among, progress=report
        )


def _print_tables(profile: LatencyProfile, space: PathSpace, forms: dict[str, str]) -> None:
    rows = [
        (
            name,
            forms.get(name, 'eager'),
            f'{times.p50:.2f}',
            f'{times.p99:.2f}',
            f'{times.max:.2f}',
            str(times.count),
        )
        for name, times in profile.segments.items()
        if name in profile.measured_keys
    ]
    print_table(
        f'{profile.config_name} on {profile.facts}, {profile.engine}, ms',
        ('segment', 'form', 'median', 'p99', 'max', 'samples'),
        rows,
        left=('segment', 'form'),
    )
    if len(profile.measured_keys) < len(profile.segments):
        print(
            f'{len(profile.segments) - len(profile.measured_keys)} other segments serve no path that would be '
            'planned, and were neither prepared nor measured: --all-paths does both.'
        )
    forecast = PathForecast(profile, space)
    timed = sorted(map(space.parse, profile.paths), key=forecast.forecast_ms)
    print_table(
        'whole frames, ms',
        ('path', '', 'forecast', 'WCET', 'median', 'p99', 'max'),
        [
            (str(path), label, *_path_row(path, profile, forecast, space))
            for label, path in (('cheapest', timed[0]), ('full', timed[-1]))
        ],
        left=('path', ''),
    )
    low, high = forecast.residual_quantile(0.05), forecast.residual_quantile(0.95)
    print(
        f'Nine of ten frames took between {math.exp(low):.2f} and {math.exp(high):.2f} times their forecast.'
    )
    print(sufficiency(sum(times.count for times in profile.paths.values())))


def sufficiency(frames: int) -> str:
    """Whether so many whole frames are enough for the bound that the detector begins with."""
    said = (
        f'The longest of {frames} whole frames, against its forecast, bounds {100.0 * bounded_share(frames):.1f} % '
        f'of further ones with 95 % confidence, if they are alike'
    )
    needed = samples_needed(_TARGET)
    if frames < needed:
        return (
            f'{said}: too few for {100.0 * _TARGET:.0f} %, which takes {needed}. Measure without --quick, or with '
            f'more --minutes.'
        )
    return f'{said}: enough for {100.0 * _TARGET:.0f} %, which takes {needed}.'


def _path_row(
    path: ExecutionPath, profile: LatencyProfile, forecast: PathForecast, space: PathSpace
) -> list[str]:
    times = profile.paths[str(path)]
    worst_ms = float(
        profile.wcet.bound_ms(sum(profile.wcet.segments_ms[key] for key in space.keys(path)))
    )
    return [
        f'{value:.2f}'
        for value in (forecast.forecast_ms(path), worst_ms, times.p50, times.p99, times.max)
    ]


def _reference_profile(network: Network, facts: DeviceFacts, folder: Path) -> LatencyProfile | None:
    """A profile of the network: one that was measured or scaled here, or else of those in a folder the one that is
    nearest to this device, of prepared segments by preference; None where there is none."""
    here = default_profile_path(network.config_name, facts).parent
    places = (find_reference(place, network, facts, 'openvino') for place in (here, folder))
    return next(filter(None, places), None)
