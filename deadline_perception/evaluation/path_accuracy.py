"""Average precision of execution paths on annotated images, and which paths are worth the measuring."""
from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from deadline_perception.datasets.records import Frame, GroundTruth
from deadline_perception.datasets.records import Sequence as DrivingSequence
from deadline_perception.detector.detections import Detections
from deadline_perception.evaluation.average_precision import AveragePrecision, average_precision
from deadline_perception.execution_path import ExecutionPath, PathSpace

POOLED_CLASSES = ('vehicle', 'traffic_light')  # frequent enough to rank paths by; the others have few instances


def annotated_frames(sequence: DrivingSequence, limit: int | None = None) -> list[Frame]:
    """The frames with known objects; with a limit so many of them, spread evenly.

    Raises:
        ValueError: no frame is annotated, or the limit is below 1.
    """
    if limit is not None and limit < 1:
        raise ValueError(f'limit is {limit}, expected at least 1 image')
    frames = [frame for frame in sequence.frames if frame.truth is not None]
    if not frames:
        raise ValueError(f'{sequence.name} has no ground truth, expected annotated images')
    if limit is None or limit >= len(frames):
        return frames
    return [frames[int((index + 0.5) * len(frames) / limit)] for index in range(limit)]


def relabelled(truth: GroundTruth, names: Sequence[str], network_names: Sequence[str]) -> GroundTruth:
    """The truth with labels that index the network's class names.

    Raises:
        ValueError: the truth holds an object of a class that the network does not know.
    """
    unknown = {names[label] for label in truth.labels} - set(network_names)
    if unknown:
        raise ValueError(f'class {min(unknown)!r} is not known to the network, expected some of '
                         f'{", ".join(network_names)}')
    numbers = np.array([network_names.index(name) if name in network_names else -1 for name in names], dtype=np.int64)
    return replace(truth, labels=numbers[truth.labels]) if len(truth) else truth


def measure_paths(detector, sequence: DrivingSequence, frames: Sequence[Frame], paths: Sequence[ExecutionPath],
                  progress: Callable[[int], None] | None = None) -> dict[ExecutionPath, tuple[AveragePrecision, float]]:
    """Runs every path on every frame; blocks meanwhile.

    Args:
        detector: has `class_names` and `detect(image_bgr, path) -> Detections`.
        sequence: names the classes of the truth.
        frames: annotated frames of the sequence.
        paths: paths of the detector.
        progress: called after each path on each frame with the number of those done.

    Returns:
        By path, its precision over all classes, and its AP over `POOLED_CLASSES` (NaN when none of them occurs).
    """
    truths = [relabelled(frame.truth, sequence.class_names, detector.class_names) for frame in frames]
    found: dict[ExecutionPath, list[Detections]] = {path: [] for path in paths}
    done = 0
    for frame in frames:
        image_bgr = frame.load_bgr()
        for path in paths:
            found[path].append(detector.detect(image_bgr, path))
            done += 1
            if progress:
                progress(done)
    pooled = [name for name in POOLED_CLASSES if name in detector.class_names]
    results = {}
    for path, detections in found.items():
        ap = average_precision(detections, truths, detector.class_names, classes=pooled).ap if pooled else None
        results[path] = (average_precision(detections, truths, detector.class_names),
                         float('nan') if ap is None else ap)
    return results


def sample_paths(space: PathSpace, count: int, seed: int = 0) -> list[ExecutionPath]:
    """Paths that tell most about all: the largest, the smallest, each operator's settings alone, then random ones.

    Args:
        space: all paths.
        count: number of paths, at least 2; never more than the space has.
        seed: of the random ones.

    Raises:
        ValueError: the count is below 2.
    """
    if count < 2:
        raise ValueError(f'count is {count}, expected at least 2 paths')
    largest, rng = space.largest, random.Random(seed)
    chosen = [largest, space.smallest]
    chosen += [replace(largest, skip=tuple(index == skipped for index in range(space.skips)))
               for skipped in range(space.skips)]
    for name, settings in (('width', space.widths), ('pyramid_width', space.pyramid_widths),
                           ('proposals', space.proposals), ('head', range(space.heads))):
        chosen += [replace(largest, **{name: setting}) for setting in settings]
    distinct = list(dict.fromkeys(chosen))[:count]
    wanted = min(count, len(space))
    while len(distinct) < wanted:
        path = ExecutionPath(tuple(rng.random() < 0.5 for _ in range(space.skips)), rng.choice(space.widths),
                             rng.choice(space.proposals), rng.randrange(space.heads), rng.choice(space.pyramid_widths))
        if path not in distinct:
            distinct.append(path)
    return distinct
