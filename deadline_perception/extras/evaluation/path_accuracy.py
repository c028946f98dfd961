"""Average precision of execution paths on annotated images, and which paths are worth the measuring."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import NamedTuple

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.errors import DeadlinePerceptionError, printable
from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.core.measurement_plan import distinct_paths
from deadline_perception.core.opencv import cv2
from deadline_perception.engines.segment_run import SegmentRun
from deadline_perception.extras.data.class_names import relabelled
from deadline_perception.extras.data.records import Frame, GroundTruth, spread_evenly
from deadline_perception.extras.data.records import Sequence as DrivingSequence
from deadline_perception.extras.evaluation.average_precision import (
    AveragePrecision,
    average_precision,
)
from deadline_perception.extras.evaluation.resampled_precision import bootstrap_draws, resampled_ap
from deadline_perception.extras.evaluation.size_precision import precision_by_size
from deadline_perception.extras.workers import Workers

# The AP of a class with n objects varies by up to 50 / sqrt(n) points (a share of n draws): 7 points with so many.
RANKING_OBJECTS = 50
_NAMED = 10  # images that are named as they cannot be read


class PathScores(NamedTuple):
    """What one path was measured to reach.

    Attributes:
        precision: over all classes.
        pooled: AP over the classes that paths are ranked by, in [0, 1]; NaN when there are none.
        resampled: of each draw of images the AP that paths are ranked by, float64 `[draws]`: the pooled one, or that
            of all classes where no class ranks; NaN in a draw without any of their objects.
        by_size: AP by class and size of object, see `precision_by_size`: float64 `[classes, bins]`.
    """

    precision: AveragePrecision
    pooled: float
    resampled: np.ndarray
    by_size: np.ndarray


def annotated_frames(sequence: DrivingSequence, limit: int | None = None) -> list[Frame]:
    """The frames with known objects; with a limit so many of them, evenly spaced.

    Raises:
        ValueError: no frame is annotated, or the limit is below 1.
    """
    if limit is not None and limit < 1:
        raise ValueError(f'limit is {limit}, expected at least 1 image')
    frames = [frame for frame in sequence.frames if frame.ground_truth is not None]
    if not frames:
        raise ValueError(f'{sequence.name} has no ground truth, expected annotated images')
    return frames if limit is None else spread_evenly(frames, limit)


def readable_frames(frames: Sequence[Frame]) -> list[Frame]:
    """The frames whose images can be read, which each of them is; the others are named in warnings.

    Raises:
        ValueError: no image can be read.
    """
    readable: list[Frame] = []
    reasons: list[str] = []
    for frame in frames:
        try:
            frame.load_bgr()
        except (ValueError, OSError, DeadlinePerceptionError, cv2.error) as error:
            reasons.append(printable(error))
            if len(reasons) <= _NAMED:
                warnings.warn(
                    f'image {frame.name} is left out, {len(reasons)} so far: {reasons[-1]}',
                    stacklevel=2,
                )
        else:
            readable.append(frame)
    if not readable:
        raise ValueError(f'none of {len(frames)} images can be read, the last: {reasons[-1]}')
    return readable


def ranking_classes(
    ground_truths: Sequence[GroundTruth], class_names: Sequence[str], rank_by: str | None = None
) -> dict[str, int]:
    """The classes that paths are ranked by, with their numbers of objects; empty when none has enough objects.

    A class with few objects would swing the mean of all classes, and with it the order of paths, by chance.

    Args:
        ground_truths: labels index the class names; crowd regions do not count.
        class_names: of the network.
        rank_by: names with commas, or the least number of objects; None for `RANKING_OBJECTS`.

    Raises:
        ValueError: no image holds an object of the classes; a name is not the network's, or occurs nowhere in the
            ground truth; or the number is below 1.
    """
    counts = {
        name: sum(int((known.labels[~known.crowd] == label).sum()) for known in ground_truths)
        for label, name in enumerate(class_names)
    }
    if not any(counts.values()):
        raise ValueError(
            f'none of {len(ground_truths)} images holds an object of {", ".join(class_names)}, expected '
            f'some to score'
        )
    if rank_by is None or rank_by.strip().isdecimal():
        least = RANKING_OBJECTS if rank_by is None else int(rank_by)
        if least < 1:
            raise ValueError(
                f'paths are to be ranked by classes of {least} objects, expected at least 1'
            )
        return {name: count for name, count in counts.items() if count >= least}
    chosen = [name.strip() for name in rank_by.split(',')]
    for name in chosen:
        if not counts.get(name):
            raise ValueError(
                f'paths are to be ranked by class {name!r}, expected some with objects among '
                + ', '.join(f'{known} ({count})' for known, count in counts.items())
            )
    return {name: counts[name] for name in chosen}


def forked(run: SegmentRun) -> SegmentRun:
    """A second run of the frame from here on: both keep what has been computed, and neither disturbs the other."""
    other = copy(run)
    for name, value in vars(run).items():
        if isinstance(value, SegmentRun):
            setattr(other, name, forked(value))
        elif isinstance(value, dict):
            setattr(other, name, dict(value))
    return other


def detect_on_paths(
    detector, image_bgr: np.ndarray, paths: Sequence[ExecutionPath]
) -> Iterator[tuple[ExecutionPath, Detections]]:
    """Detections of one image on many paths; what paths have in common from the image on is computed once.

    The same operations run on the same values as in `detector.detect`, so the detections are equal to the last bit.

    Args:
        detector: has `path_space` and `start(image_bgr, path)`.
        image_bgr: uint8 `[H, W, 3]`.
        paths: distinct paths of the detector.

    Returns:
        Every path with its detections, in an order of its own.

    Raises:
        ValueError: its engine's buffers serve one run at a time.
    """
    if len(paths) > 1 and detector.engine.reuses_buffers:
        raise ValueError(
            f'engine {detector.engine.identity} reuses its buffers, expected one that runs can share'
        )

    def onto(run, path: ExecutionPath):
        run.redirect(path)
        return run

    def finished(run, members: list[ExecutionPath]) -> Iterator[tuple[ExecutionPath, Detections]]:
        while not run.finished:
            branches: dict[tuple, list[ExecutionPath]] = {}
            for path in members:
                branches.setdefault(detector.path_space.prefix(path, run.segment + 1), []).append(
                    path
                )
            members, *others = branches.values()
            for branch in others:
                yield from finished(onto(forked(run), branch[0]), branch)
            onto(run, members[0]).run_segment()
        yield members[0], run.result()

    if paths:
        yield from finished(detector.start(image_bgr, paths[0]), list(paths))


def detect_on_frames(
    detector,
    frames: Sequence[Frame],
    paths: Sequence[ExecutionPath],
    progress: Callable[[int], None] | None = None,
) -> dict[ExecutionPath, list[Detections]]:
    """Detections of every path, frame by frame; see `detect_on_paths`.

    `progress` is called after each path on each frame with the number of those that are done.
    """
    found: dict[ExecutionPath, list[Detections]] = {path: [] for path in paths}
    done = 0
    for frame in frames:
        for path, detections in detect_on_paths(detector, frame.load_bgr(), paths):
            found[path].append(detections)
            done += 1
            if progress:
                progress(done)
    return found


def measure_paths(
    detector,
    sequence: DrivingSequence,
    frames: Sequence[Frame],
    paths: Sequence[ExecutionPath],
    progress: Callable[[int], None] | None = None,
    workers: Workers = Workers(),
    draws: int = 1,
    ranked_by: Sequence[str] = (),
) -> dict[ExecutionPath, PathScores] | None:
    """Runs every path on every frame; blocks meanwhile.

    Of several processes each detects on its share of the frames, then scores its share of the paths.

    Args:
        detector: see `detect_on_paths`; has `class_names` too.
        sequence: names the classes of the ground truth; objects of classes that the network does not know are dropped.
        frames: annotated frames of the sequence, at least 1, neighbours beside each other.
        paths: distinct paths of the detector.
        progress: called after each path on each frame with the number of those that this process has done.
        workers: the processes that call this with the same arguments.
        draws: draws of images for `PathScores.resampled`, at least 1, the same for every path.
        ranked_by: names of the classes that paths are ranked by, see `ranking_classes`.

    Returns:
        By path, its scores; None in every process but the first.
    """
    ground_truths = [
        relabelled(frame.ground_truth, sequence.class_names, detector.class_names)
        for frame in frames
    ]
    counts = bootstrap_draws(len(frames), draws)
    sizes = [frame.load_bgr().shape[:2] for frame in frames]
    found = detect_on_frames(detector, workers.share(frames), paths, progress)
    scored = {}
    for rank in range(workers.count):
        parts = workers.gather({path: found.pop(path) for path in workers.share(paths, rank)}, rank)
        if parts is not None:
            for path in workers.share(paths):
                detections = [Detections.none()] * len(frames)
                for number, part in enumerate(parts):
                    detections[number :: workers.count] = part[path]
                scored[path] = _scores(
                    detections, ground_truths, detector.class_names, counts, ranked_by, sizes
                )
    results = workers.gather(scored)
    if results is None:
        return None
    merged = {path: result for part in results for path, result in part.items()}
    return {path: merged[path] for path in paths}


def _scores(
    detections: list[Detections],
    ground_truths: list[GroundTruth],
    class_names: Sequence[str],
    counts: np.ndarray,
    ranked_by: Sequence[str],
    image_sizes: Sequence[tuple[int, int]],
) -> PathScores:
    result = average_precision(detections, ground_truths, class_names)
    return PathScores(
        result,
        pooled_ap(result, ranked_by),
        resampled_ap(detections, ground_truths, class_names, counts, list(ranked_by) or None),
        precision_by_size(detections, ground_truths, class_names, image_sizes),
    )


def pooled_ap(result: AveragePrecision, ranked_by: Sequence[str]) -> float:
    """Mean AP of the classes that paths are ranked by, each weighing the same, in [0, 1]; NaN when there are none."""
    known = [ap for ap in (result.per_class[name].ap for name in ranked_by) if ap is not None]
    return sum(known) / len(known) if known else float('nan')


def sample_paths(space: PathSpace, count: int) -> list[ExecutionPath]:
    """Paths that tell most about all: the largest, the smallest, each operator's settings alone, then random ones.

    Args:
        space: all paths.
        count: number of paths, at least 2; never more than the space has.

    Raises:
        ValueError: the count is below 2.
    """
    if count < 2:
        raise ValueError(f'count is {count}, expected at least 2 paths')
    return distinct_paths(space, count, random.Random(0), first=one_at_a_time(space))


def one_at_a_time(path_space: PathSpace) -> tuple[ExecutionPath, ...]:
    """The largest path with one operator at a time at each of its other settings."""
    return tuple(
        path_space.largest.replace(**{operator.name: setting})
        for operator in path_space.operators
        for setting in operator.settings[:-1]
    )
