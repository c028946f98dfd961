"""Turn a driving sequence into an mcap bag: images, camera info, speed and ground truth.

SOURCE is 'drive' for a rendered drive ('drive:seed=3,seconds=40'), a data set (Cityscapes, BDD100K, KITTI, COCO, YOLO,
Pascal VOC; docs/datasets.md), a video, a folder of images, or another bag. OUT that ends with .mcap becomes one file,
any other name a bag folder that `ros2 bag play` takes.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path

from deadline_perception.extras.data.bag import check_new_bag, write_bag
from deadline_perception.extras.data.recorded_speed import read_speed_trace, with_speeds_of_trace
from deadline_perception.extras.data.records import Sequence
from deadline_perception.extras.data.source import CLASSES_HELP, open_source
from deadline_perception.extras.data.speed_trace import SpeedTrace
from deadline_perception.tools.support.file_arguments import check_numbers
from deadline_perception.tools.support.terminal import progress_bar


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument('source', metavar='SOURCE', help='what to turn into a bag')
    parser.add_argument('out', metavar='OUT', type=Path, help='bag to write')
    parser.add_argument(
        '--compressed',
        action='store_true',
        help='JPEG images instead of raw ones: a tenth of the size',
    )
    parser.add_argument(
        '--rate-hz',
        type=float,
        help='frames per second to render, to make up for single images, or '
        'to keep of a recording (default: all frames; 10 where the source has no rate)',
    )
    parser.add_argument('--max-frames', type=int, help='stop after so many frames')
    parser.add_argument(
        '--split', choices=('train', 'val', 'test'), help='of a data set with splits (default: val)'
    )
    parser.add_argument('--classes', metavar='NAME|FILE', help=CLASSES_HELP)
    parser.add_argument(
        '--speed',
        metavar='M/S|FILE',
        help='speed of the vehicle where the source has none: a number, '
        'or a trace (CSV stamp_s,speed_mps; BDD100K info JSON; folder of Cityscapes vehicle JSON)',
    )
    parser.add_argument('--overwrite', action='store_true', help='replace a bag of that name')


def run(args: argparse.Namespace) -> int:
    """Writes the bag; returns the exit status."""
    from rich.console import Console

    check_numbers(args, max_frames=(1, math.inf))
    check_new_bag(args.out, overwrite=args.overwrite)
    with Console(stderr=True).status(f'opening {args.source}'):
        sequence = open_source(
            args.source, rate_hz=args.rate_hz, split=args.split, classes=args.classes
        )
    if args.max_frames is not None:
        sequence = replace(sequence, frames=sequence.frames[: args.max_frames])
    if args.speed is not None:
        sequence = with_speeds_of_trace(sequence, _trace(args.speed, sequence))
    with progress_bar(f'writing {args.out}', len(sequence.frames), 'count', 'left') as update:
        count = write_bag(
            sequence,
            args.out,
            compressed=args.compressed,
            overwrite=args.overwrite,
            progress=lambda done: update(completed=done),
        )
    print(_summary(sequence, args.out, count))
    return 0


def _trace(text: str, sequence: Sequence) -> SpeedTrace:
    try:
        speed_mps = float(text)
    except ValueError:
        return read_speed_trace(Path(text))
    seconds = (sequence.frames[-1].stamp_ns - sequence.frames[0].stamp_ns) / 1e9
    return SpeedTrace((0.0, seconds + 1.0), (speed_mps, speed_mps))


def _summary(sequence: Sequence, out: Path, count: int) -> str:
    """One line that says what was written."""
    frames = sequence.frames
    files = [out] if out.is_file() else [file for file in out.rglob('*') if file.is_file()]
    size_mb = sum(file.stat().st_size for file in files) / 1e6
    ground_truths = [frame.ground_truth for frame in frames if frame.ground_truth is not None]
    objects = sum(int((~known.crowd).sum()) for known in ground_truths)
    speeds = [frame.speed_mps for frame in frames if frame.speed_mps is not None]
    moving = f'{min(speeds):.1f} to {max(speeds):.1f} m/s' if speeds else 'no speed'
    return (
        f'wrote {out}: {len(frames)} frames of {sequence.name} over '
        f'{(frames[-1].stamp_ns - frames[0].stamp_ns) / 1e9:.1f} s, {moving}, {objects} known boxes, '
        f'{count} messages, {size_mb:.1f} MB'
    )
