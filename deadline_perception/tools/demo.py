"""Play a drive through the running nodes and write a report.

Renders or opens a driving sequence, puts it into a bag, makes sure that this device has a latency profile, starts every
node in a process of its own, plays the bag to them in real time, records what they say, and makes that
summary.json and report.html.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.device import DEFAULT_THREADS, check_device
from deadline_perception.core.errors import DeadlinePerceptionError, command_line
from deadline_perception.core.replaced_file import replace_file
from deadline_perception.core.share_folder import share_folder
from deadline_perception.extras.contention.load import busy_programs
from deadline_perception.extras.data.records import Sequence
from deadline_perception.extras.data.source import CLASSES_HELP, open_source
from deadline_perception.extras.report.scenario import limited, with_speed_in_every_frame
from deadline_perception.networks.model_reference import find_weights
from deadline_perception.runtime.loading import NetworkOptions, load_task
from deadline_perception.runtime.look_twice import first_look_model
from deadline_perception.timing.profile import LatencyProfile
from deadline_perception.tools.support.ensure_profile import ensure_profile
from deadline_perception.tools.support.file_arguments import (
    DEFAULT_WEIGHTS,
    THREADS,
    check_folder,
    check_numbers,
)
from deadline_perception.tools.support.terminal import progress_bar

if TYPE_CHECKING:
    from deadline_perception.extras.report.fixed_paths import FixedPaths
    from deadline_perception.extras.report.recording import Recording

_DRIVE_SEED = 12  # stands at a red light and reaches 19.5 m/s within 32 s
_RAW_LIMIT_BYTES = 1_000_000_000  # longer sequences are put into the bag as JPEG
_START_UP_S = 240.0  # loading and warming a large network on a slow device
# Budgets of the rendered drive, at its highest and lowest speed: shares of what both looks take at their longest, ...
_SHARES = (0.3, 1.5)
# ... after what a frame takes outside the network, which a faster processor hardly shortens: benchmarks/demo_drive.py.
_OVERHEAD_MS = 6.0
_SPEEDS_MPS = (
    4.0,
    21.0,
)  # of the rendered drive, between which budgets fall as the travel per frame asks for
_PERIODS_MS = [100.0, 150.0, 200.0, 300.0, 400.0, 600.0, 900.0]  # of each, with --networks


class DemoError(DeadlinePerceptionError):
    """The demo cannot run; the message says what to do."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        '--source',
        default='drive',
        help='drive (rendered), a data set (Cityscapes, BDD100K, KITTI, COCO, YOLO, Pascal VOC), a folder of images, a '
        'video, or a recorded bag with camera images',
    )
    parser.add_argument('--classes', metavar='NAME|FILE', help=CLASSES_HELP)
    parser.add_argument(
        '--out', type=Path, default=Path('out/demo'), help='folder for bag, recording and report'
    )
    parser.add_argument(
        '--seconds', type=float, default=32.0, help='play at most so many seconds of the source'
    )
    parser.add_argument(
        '--model',
        type=Path,
        default=DEFAULT_WEIGHTS,
        help='weights (safetensors), or a set of own models (see adopt)',
    )
    parser.add_argument('--device', default='cpu', help='cpu, cuda or cuda:INDEX')
    parser.add_argument(
        '--threads',
        type=int,
        default=DEFAULT_THREADS,
        help='CPU threads of the network',
    )
    parser.add_argument(
        '--load', type=int, default=0, help='busy programs beside the nodes, to show contention'
    )
    parser.add_argument(
        '--networks',
        type=int,
        default=1,
        help='so many detectors, scheduled on one processor; the report is then a timeline of their '
        'jobs',
    )


def run(args: argparse.Namespace) -> int:
    """Plays, records and reports; returns the exit status."""
    check_numbers(args, threads=THREADS, load=(0, 1024), networks=(1, 16))
    check_folder('--out', args.out)
    check_device(args.device)
    check_ros()
    weights = find_weights(args.model)
    sequence, notes = open_sequence(args)
    profile = ensure_profile(
        weights, args.device, args.threads, share_folder() / 'models' / 'profiles'
    )
    if profile.measured:
        notes.append(
            'The latency profile was measured quickly, just before this run; '
            f'`{command_line("profile")}` makes a finer one.'
        )
    budgets = {}
    if args.source == 'drive':
        budgets = drive_budgets(longest_looks_ms(weights, profile.file, args.device, args.threads))
        notes.append(
            f'Budgets: {budgets["min_budget_ms"]:.0f} to {budgets["max_budget_ms"]:.0f} ms, '
            f'{_SHARES[0]:g} to {_SHARES[1]:g} times what both looks take at their longest on this machine, '
            f'and {_OVERHEAD_MS:g} ms for what lies around them.'
        )
    args.out.mkdir(parents=True, exist_ok=True)
    bag, recording = args.out / 'input.mcap', args.out / 'recording.mcap'
    _remove(recording)
    transport = _write_bag(sequence, bag)
    parameters = args.out / 'parameters.yaml'
    replace_file(parameters, parameters_text(args.threads, budgets))
    _play(args, sequence, weights, profile.file, bag, transport, recording)
    if args.networks > 1:
        return _report_tasks(args.out, recording, notes)
    options = NetworkOptions(
        str(weights), profile=str(profile.file), device=args.device, threads=args.threads
    )
    return _report(args.out, recording, sequence, machine_facts(profile.facts), notes, options)


def check_ros() -> None:
    """Refuses to go on without ROS and the message types, and says how to get them."""
    from deadline_perception.tools.support.import_probe import ImportProbe

    probe = ImportProbe('import rclpy, deadline_perception.msg, vision_msgs.msg; report()')
    if probe.error:
        raise DemoError(
            f'ROS 2 cannot be used here ({probe.error}); run `make setup`, or on a ROS install `colcon '
            f'build` and source install/setup.bash; `{command_line("doctor")}` says what is missing'
        )


def open_sequence(args: argparse.Namespace) -> tuple[Sequence, list[str]]:
    """What will be played, with a speed in every frame, and what a reader of the report must know about it."""
    name = args.source
    if name == 'drive':
        name = f'drive:seed={_DRIVE_SEED},seconds={args.seconds}'
    sequence, cut = limited(open_source(name, classes=args.classes), args.seconds)
    sequence, speed = with_speed_in_every_frame(sequence)
    notes = [
        f'Source: {sequence.name}, {len(sequence.frames)} frames, every node in a process of its own.',
        cut,
        speed,
    ]
    if args.load:
        notes.append(f'Busy programs beside the nodes: {args.load}.')
    return sequence, [note for note in notes if note]


def _play(
    args: argparse.Namespace,
    sequence: Sequence,
    weights: Path,
    profile: Path,
    bag: Path,
    transport: str,
    recording: Path,
) -> None:
    """Runs the nodes on the bag."""
    from deadline_perception.tools.support.node_run import keep_to_this_machine, run_nodes

    keep_to_this_machine()
    print(
        f'The nodes run on ROS domain {os.environ["ROS_DOMAIN_ID"]}; set ROS_DOMAIN_ID for another.'
    )

    arguments = [
        '--bag',
        str(bag),
        '--record',
        str(recording),
        '--model',
        str(weights),
        '--profile',
        str(profile),
        '--device',
        args.device,
        '--params-file',
        str(args.out / 'parameters.yaml'),
        '--image-transport',
        transport,
    ]
    if args.networks > 1:
        arguments += ['--tasks', str(_write_tasks(args, weights, profile))]
    length_s = (sequence.frames[-1].stamp_ns - sequence.frames[0].stamp_ns) / 1e9
    with (
        busy_programs(args.load),
        progress_bar('playing to the nodes', length_s + 15.0, 'percent', 'passed') as update,
    ):
        run_nodes(
            arguments,
            args.out / 'nodes.log',
            limit_s=length_s + _START_UP_S,
            tick=lambda passed_s: update(completed=passed_s),
        )
        update(completed=length_s + 15.0)


def longest_looks_ms(weights: Path, profile: Path, device: str, threads: int) -> float:
    """What the longest path takes here, after the longest first look of another network."""
    files = [profile]
    first_look = first_look_model(weights)
    if first_look:
        shipped = share_folder() / 'models' / 'profiles'
        first = find_weights(first_look)
        files.append(ensure_profile(first, device, threads, shipped).file)
    return sum(
        max(times.p50 for times in LatencyProfile.load(file).paths.values()) for file in files
    )


def drive_budgets(longest_ms: float) -> dict[str, float | list[float]]:
    """Parameters of the node `time_budget` for the rendered drive, so that there is something to decide on any machine.

    Args:
        longest_ms: what the network takes here at the longest.
    """
    least_ms, most_ms = (_OVERHEAD_MS + share * longest_ms for share in _SHARES)
    speeds_mps = np.geomspace(*_SPEEDS_MPS, 15)
    return {
        'min_budget_ms': least_ms,
        'max_budget_ms': most_ms,
        'table_speeds_mps': speeds_mps.tolist(),
        'table_budgets_ms': np.geomspace(most_ms, least_ms, len(speeds_mps)).tolist(),
    }


def parameters_text(threads: int, budgets: dict[str, float | list[float]]) -> str:
    """A parameter file (YAML) of the nodes; ROS reads no aliases, so that nothing in it stands for two nodes.

    Args:
        threads: of the networks.
        budgets: parameters of the node `time_budget` that are not its defaults.
    """
    import yaml

    parameters = {name: {'threads': threads} for name in ('detector', 'qos_scheduler')}
    if budgets:
        parameters['time_budget'] = budgets
    return yaml.safe_dump(
        {name: {'ros__parameters': values} for name, values in parameters.items()}
    )


def _write_tasks(args: argparse.Namespace, weights: Path, profile: Path) -> Path:
    """A task file of detectors that look at the same camera; each counts for half of the one before."""
    import yaml

    file = args.out / 'tasks.yaml'
    replace_file(
        file,
        yaml.safe_dump(
            {
                'tasks': {
                    f'network_{number + 1}': {
                        'model': str(weights),
                        'profile': str(profile),
                        'device': args.device,
                        'image_topic': 'camera/image_raw',
                        'periods_ms': list(
                            _PERIODS_MS
                        ),  # a list of its own, or YAML writes an alias
                        'weight': 0.5**number,
                    }
                    for number in range(args.networks)
                }
            }
        ),
    )
    return file


def _report_tasks(out: Path, recording: Path, notes: list[str]) -> int:
    from deadline_perception.extras.report.task_report import write_task_report

    for name, row in write_task_report(recording, out, notes).items():
        print(
            f'{name}: {row["jobs"]} jobs, {row["missed"]} missed, {row["mean_time_ms"]:.1f} ms every '
            f'{row["mean_period_ms"]:.0f} ms, {row["share"]:.0%} of the processor'
        )
    print(f'wrote {out / "report.html"}')
    return 0


def machine_facts(device_facts) -> dict[str, str]:
    """What a reader of the report should know of the machine, label to value."""
    facts = {
        'date': datetime.now().strftime('%Y-%m-%d %H:%M'),
        'ros_distro': os.environ.get('ROS_DISTRO', 'unknown'),
        'python': platform.python_version(),
        'system': f'{platform.system()} {platform.release()}',
    }
    return facts | {
        name: str(value)
        for name, value in asdict(device_facts).items()
        if value not in (0, 0.0, 'unknown', '')
    }


def _report(
    out: Path,
    recording: Path,
    sequence: Sequence,
    facts: dict[str, str],
    notes: list[str],
    options: NetworkOptions | None = None,
) -> int:
    from deadline_perception.extras.report.recorded_bag import read_recording
    from deadline_perception.extras.report.report import write_report
    from deadline_perception.tools.report import print_closing_table

    run = read_recording(recording)
    fixed = None
    try:
        fixed = options and _beside_fixed_paths(options, run, sequence)
    except DeadlinePerceptionError as error:  # the run is worth its report without it
        notes = [*notes, f'Fixed paths could not be measured: {error}.']
    summary = write_report(run, out, source=sequence, facts=facts, notes=notes, fixed=fixed)
    print_closing_table(summary, out / 'report.html')
    return 0


def _beside_fixed_paths(
    options: NetworkOptions, recording: Recording, sequence: Sequence
) -> FixedPaths | None:
    """What one path for every frame would have found; None where nothing is known to be there, or to choose from.

    The nodes have ended, so that what it takes disturbs no frame.
    """
    from deadline_perception.extras.report.fixed_paths import chosen_paths, measure_fixed_paths

    ages_known = not all(frame.age_unknown for frame in recording.frames)
    if not (recording.ground_truth and ages_known):
        return None
    loaded = load_task(options, share_folder() / 'models')
    network, forecast = loaded.task.network, loaded.task.times.forecast
    ready = loaded.kept_paths or list(network.path_space)
    if network.result_type is not Detections or len(ready) < 2:
        return None
    paths = chosen_paths(recording, ready, forecast.forecast_ms)
    with progress_bar('the same images on fixed paths', 1.0, 'percent', 'passed') as update:
        return measure_fixed_paths(
            recording,
            sequence,
            network,
            paths,
            lambda done, of: update(completed=done / of),
        )


def _write_bag(sequence: Sequence, bag: Path) -> str:
    """Writes the bag; returns the transport of its images, `raw` or `compressed`."""
    from deadline_perception.extras.data.bag import write_bag

    compressed = sequence.frames[0].load_bgr().nbytes * len(sequence.frames) > _RAW_LIMIT_BYTES
    with progress_bar('preparing the bag', len(sequence.frames), 'percent', 'passed') as update:
        write_bag(
            sequence,
            bag,
            compressed=compressed,
            overwrite=True,
            progress=lambda done: update(completed=done),
        )
    return 'compressed' if compressed else 'raw'


def _remove(bag: Path) -> None:
    """A recording of an earlier run, file or folder."""
    if bag.is_dir():
        shutil.rmtree(bag)
    else:
        bag.unlink(missing_ok=True)
