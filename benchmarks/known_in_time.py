"""What is known at each moment of a drive: streaming AP of paths, and detection in time against its promise.

    python benchmarks/known_in_time.py [--weights FILE] [--seconds 24] [--seed 0] [--quick]

Every path of eight levels runs on every image of a rendered drive of 30 Hz, in an order drawn anew, one thread; all
else is replayed with what each found and took. Needs `profile --all-paths --threads 1`.

Streaming AP (parts/streaming.py): at the time of each image the newest publication, whatever it is, against the ground
truth of that moment. Cameras of 10 and 30 Hz; one level always, or the longest level that is expected to end before the
next image; as it was published, or moved to that moment along the detector's tracks.

Detection in time: an object is followed over the images by the overlap of its boxes. While the vehicle comes 5 m
nearer, it is looked at once a period; found is what a look finds at a score of 0.3 and an IoU of 0.5. The share of
objects found in at least one look, over all windows and phases of the period, stands beside what `DetectedInTime`
promises the scheduler for that level, period and speed, by its average precision; beside the same formula with the
share that a single look really finds; and beside this as if looks were independent. Writes results/known_in_time.json.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from parts.harness import Run, run_frame, run_script, show
from parts.streaming import known_at, published
from rich.progress import track

from deadline_perception.core.detections import Detections, pairwise_iou
from deadline_perception.core.device import read_device_facts, use_threads
from deadline_perception.core.records import Frame
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.extras.data.class_names import with_class_names
from deadline_perception.extras.evaluation.average_precision import average_precision
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.extras.several_networks.nested_task import spread
from deadline_perception.extras.several_networks.scheduling.quality import DetectedInTime
from deadline_perception.networks.model_reference import load_network
from deadline_perception.runtime.loading import load_quality
from deadline_perception.runtime.tracks import Tracks
from deadline_perception.timing.path_bound import PathForecast
from deadline_perception.timing.profile import LatencyProfile, default_profile_path
from deadline_perception.tools.profile import restart_with_environment
from deadline_perception.tools.support.file_arguments import DEFAULT_WEIGHTS

RATE_HZ, LEVELS = 30.0, 8
STRIDES = {'30 Hz': 1, '10 Hz': 3}
SCORE, IOU, SAME_OBJECT_IOU = 0.3, 0.5, 0.4
DISTANCE_M, LEAST_MPS = 5.0, 2.0
PERIODS = (3, 6, 12, 24)  # images
INDEPENDENT = 1e-7  # correlation of looks
MARGIN = 1.1  # of a level's expected time, to end before the next image
LATEST = 'longest that ends before the next image'


@dataclass(frozen=True)
class Look:
    """What a level found in an image, and how long it took."""

    found: Detections
    took_ms: float


def look_at_all(network, paths: Sequence, frames: Sequence[Frame]) -> list[list[Look]]:
    """Of every image a look of every path."""
    rng, looks = random.Random(0), []
    for frame in track(frames, 'images'):
        image, of_image = frame.load_bgr(), {}
        for path in rng.sample(paths, len(paths)):
            took_ms, found = run_frame(network, image, path)
            of_image[path] = Look(found, took_ms)
        looks.append([of_image[path] for path in paths])
    return looks


# --- streaming AP ---


def streaming(
    looks: Sequence[Sequence[Look]], frames: Sequence[Frame], class_names, size
) -> dict[str, dict]:
    """Streaming AP by camera, level or choice, and way of publication."""
    found = {}
    for camera, stride in STRIDES.items():
        seen, shown = looks[::stride], frames[::stride]
        stamps_ms, truths = (
            [frame.stamp_ns / 1e6 for frame in shown],
            [frame.ground_truth for frame in shown],
        )
        period_ms = 1000.0 * stride / RATE_HZ
        typical_ms = np.median([[look.took_ms for look in of_image] for of_image in looks], axis=0)
        fitting = np.flatnonzero(MARGIN * typical_ms <= period_ms)
        choices = {str(level): level for level in range(len(typical_ms))} | {
            LATEST: int(fitting[-1]) if len(fitting) else 0
        }
        for name, level in choices.items():
            outputs = [(of_image[level].took_ms, of_image[level].found) for of_image in seen]
            of_level = published(outputs, stamps_ms)
            found.setdefault(name, {})[camera] = {
                'level': level,
                'typical_ms': float(typical_ms[level]),
                'ap': average_precision(
                    [of_image[level].found for of_image in seen], truths, class_names
                ).ap,
                'as_published': average_precision(
                    known_at(of_level, stamps_ms), truths, class_names
                ).ap,
                'along_tracks': average_precision(
                    known_at(of_level, stamps_ms, Tracks(size)), truths, class_names
                ).ap,
            }
    return found


# --- detection in time ---


def follow(frames: Sequence[Frame]) -> list[np.ndarray]:
    """For each image the number of each of its objects, which is the same from image to image; -1 for crowds."""
    numbers, count = [], 0
    for index, frame in enumerate(frames):
        truth = frame.ground_truth
        mine = np.full(len(truth.labels), -1)
        if index:
            before = frames[index - 1].ground_truth
            overlaps = pairwise_iou(truth.boxes_xyxy_px, before.boxes_xyxy_px)
            overlaps[truth.labels[:, None] != before.labels[None]] = 0.0
            for place in np.argsort(-overlaps, axis=None):
                row, column = np.unravel_index(place, overlaps.shape)
                if overlaps[row, column] < SAME_OBJECT_IOU:
                    break
                if mine[row] < 0 and numbers[-1][column] >= 0 and numbers[-1][column] not in mine:
                    mine[row] = numbers[-1][column]
        for row in np.flatnonzero((mine < 0) & ~truth.crowd):
            mine[row], count = count, count + 1
        mine[truth.crowd] = -1
        numbers.append(mine)
    return numbers


def found_objects(frame: Frame, numbers: np.ndarray, detections: Detections) -> set[int]:
    """Numbers of the objects that a look finds."""
    truth, found = frame.ground_truth, set()
    overlaps = pairwise_iou(detections.boxes_xyxy_px, truth.boxes_xyxy_px)
    for row in np.flatnonzero(detections.scores >= SCORE):
        of_box = np.where(truth.labels == detections.labels[row], overlaps[row], 0.0)
        for place in np.argsort(-of_box):
            if of_box[place] < IOU:
                break
            if int(numbers[place]) not in found:
                found.add(int(numbers[place]))
                break
    return found - {-1}


def detection_in_time(
    looks: Sequence[Sequence[Look]], frames: Sequence[Frame], precisions: Sequence[float]
) -> list[dict[str, float]]:
    """Promised and measured share of objects that are found while the vehicle comes nearer, by level and period."""
    numbers = follow(frames)
    there = [set(mine.tolist()) - {-1} for mine in numbers]
    found = [
        [found_objects(frame, mine, look.found) for look in of_image]
        for frame, mine, of_image in zip(frames, numbers, looks)
    ]
    travelled_m = np.concatenate(
        [[0.0], np.cumsum([frame.speed_mps / RATE_HZ for frame in frames[:-1]])]
    )
    windows = []
    for begin, frame in enumerate(frames):
        end = int(np.searchsorted(travelled_m, travelled_m[begin] + DISTANCE_M))
        if frame.speed_mps >= LEAST_MPS and end < len(frames):
            windows.append(
                (
                    begin,
                    end,
                    DISTANCE_M / (end - begin) * RATE_HZ,
                    set.intersection(*there[begin:end]),
                )
            )
    rows = []
    for level, precision in enumerate(precisions):
        single = sum(
            len(of_image[level] & objects) for of_image, objects in zip(found, there)
        ) / sum(map(len, there))
        for period in PERIODS:
            met, known, looked = 0, 0, {'promised': 0.0, 'by_single_looks': 0.0, 'independent': 0.0}
            formulas = {
                'promised': DetectedInTime((precision,), DISTANCE_M),
                'by_single_looks': DetectedInTime((single,), DISTANCE_M),
                'independent': DetectedInTime((single,), DISTANCE_M, INDEPENDENT),
            }
            for begin, end, speed_mps, objects in windows:
                if not objects:
                    continue
                for phase in range(period):
                    seen = set().union(
                        *(found[at][level] for at in range(begin + phase, end, period))
                    )
                    met, known = met + len(seen & objects), known + len(objects)
                for name, formula in formulas.items():
                    quality = formula.quality(0, 1000.0 * period / RATE_HZ, speed_mps)
                    looked[name] += quality * len(objects) * period
            rows.append(
                {
                    'level': level,
                    'period_ms': 1000.0 * period / RATE_HZ,
                    'measured': met / known,
                    'single_look': single,
                    **{name: value / known for name, value in looked.items()},
                }
            )
    return rows


def main(run: Run) -> None:
    args = run.args
    restart_with_environment(1)
    use_threads(1)
    network, weights = load_network(str(args.weights), 'cpu', engine='openvino')
    profile = LatencyProfile.load(default_profile_path(network.config_name, read_device_facts()))
    forecast = PathForecast(profile, network.path_space)
    quality = load_quality(network, forecast, weights)
    best = [path for path, _, _ in FrontierPolicy(network.path_space, forecast, quality).starts()]
    paths = spread(best, [forecast.forecast_ms(path) for path in best], LEVELS)
    drive = render_drive(
        seconds=4.0 if run.quick else args.seconds, rate_hz=RATE_HZ, seed=args.seed
    )
    frames = list(with_class_names(drive, network.class_names).frames)
    size = frames[0].load_bgr().shape[:2]
    network.warm_up(list(paths), image_size=size)
    looks = look_at_all(network, paths, frames)
    streams = streaming(looks, frames, network.class_names, size)
    precisions = [float(value) for value in quality.table(paths)]
    in_time = detection_in_time(looks, frames, precisions)
    show(
        'streaming AP, %',
        (
            'level',
            'ms',
            *(
                f'{camera}, {way}'
                for camera in STRIDES
                for way in ('AP of images', 'as published', 'along tracks')
            ),
        ),
        [
            (
                name,
                of_name['30 Hz']['typical_ms'],
                *(
                    100.0 * of_name[camera][way]
                    for camera in STRIDES
                    for way in ('ap', 'as_published', 'along_tracks')
                ),
            )
            for name, of_name in streams.items()
        ],
    )
    show(
        'objects found within 5 m, %',
        ('level', 'period, ms', 'promised', 'measured', 'by single looks', 'as if independent'),
        [
            (
                row['level'],
                row['period_ms'],
                *(
                    100.0 * row[name]
                    for name in ('promised', 'measured', 'by_single_looks', 'independent')
                ),
            )
            for row in in_time
        ],
    )
    run.goal(
        'measured over promised quality, least',
        min(row['measured'] / row['promised'] for row in in_time),
        least=0.97,
    )
    off = {
        name: float(np.median([abs(row[name] / row['measured'] - 1.0) for row in in_time]))
        for name in ('by_single_looks', 'independent')
    }
    print(
        'median error of the formula with the share that a single look finds: '
        f'{100.0 * off["by_single_looks"]:.0f} %, of independent looks {100.0 * off["independent"]:.0f} %'
    )
    run.goal('error of the formula by single looks, median', off['by_single_looks'], most=0.1)
    run.write(
        weights=weights.name,
        drive_seed=args.seed,
        images=len(frames),
        paths=[str(path) for path in paths],
        expected_precisions=precisions,
        streaming=streams,
        in_time=in_time,
        error_by_formula=off,
    )


if __name__ == '__main__':
    run_script(
        main,
        {
            '--weights': {'type': Path, 'default': DEFAULT_WEIGHTS},
            '--seconds': {'type': float, 'default': 24.0},
            '--seed': {'type': int, 'default': 0},
        },
        quick='4 s',
    )
