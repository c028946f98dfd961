"""What one path for every frame would have found in time: images of a run, looked at again after it.

The estimate by expected qualities (`summary.beside_fixed_paths`) favours whichever paths the tables favour; here the
answers are real ones, to the same images, beside those that the run published.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.engines.segment_run import Network
from deadline_perception.extras.data import records
from deadline_perception.extras.data.records import GroundTruth, spread_evenly
from deadline_perception.extras.evaluation.resampled_precision import bootstrap_draws, resampled_ap
from deadline_perception.extras.report.gallery import images_of
from deadline_perception.extras.report.recording import FrameRecord, Recording
from deadline_perception.extras.report.summary import path_uses
from deadline_perception.runtime.job import Outcome

MOST_MS = 20_000.0  # of looking again
_DRAWS = 200  # of images, for intervals
_INTERVAL = (0.025, 0.975)

ResultAt = tuple[float, Detections]  # ms from the beginning, and what had been found by then


@dataclass(frozen=True)
class InTime:
    """What was found in time of the images that were looked at again.

    Attributes:
        label: which path it is, in words.
        path: its name; empty for the run itself.
        with_first_look: of several passes the last result in time counts, not only that of all.
        in_time: share of the images with an answer of their own in time.
        ap50: average precision at IoU 0.50 of these answers, in [0, 1]; images without one count as without objects.
        less_than_run: 95 % interval of the run's `ap50` less this one, the same images drawn for both.
    """

    label: str
    path: str
    with_first_look: bool
    in_time: float
    ap50: float
    less_than_run: tuple[float, float]


@dataclass(frozen=True)
class FixedPaths:
    """The run beside fixed paths.

    Attributes:
        rows: the run first, then the fixed paths, ascending in time.
        images: number of images that were looked at again.
        time_ratio: what frames took in the run over what the same took alone afterwards, median; by it the times of
            the fixed paths were multiplied.
    """

    rows: tuple[InTime, ...]
    images: int
    time_ratio: float


def chosen_paths(
    recording: Recording,
    ready: Sequence[ExecutionPath],
    expected_ms: Callable[[ExecutionPath], float],
) -> dict[ExecutionPath, str]:
    """Fixed paths that are worth holding a run against, with what they are, ascending in time.

    These are the fastest and the longest that are ready, the longest that fits the time that the median frame had left,
    and the two that the run used most.

    Args:
        recording: the run, in which the age of some frame is known.
        ready: paths that it could choose from, at least one.
        expected_ms: times of paths.
    """
    by_time = sorted(ready, key=expected_ms)
    left_ms = median(time_left_ms(frame) for frame in recording.frames if not frame.age_unknown)
    fitting = [path for path in by_time if expected_ms(path) <= left_ms]
    used = [by_time[0].space.parse(use.path) for use in path_uses(recording)[:2]]
    wanted = [('fastest', by_time[0]), ('longest', by_time[-1])]
    wanted += [('longest that fits the median time left', path) for path in fitting[-1:]]
    wanted += list(zip(('used most', 'used second most'), used))
    labels: dict[ExecutionPath, list[str]] = {}
    for label, path in wanted:
        labels.setdefault(path, []).append(label)
    return {path: ', '.join(labels[path]) for path in sorted(labels, key=expected_ms)}


def measure_fixed_paths(
    recording: Recording,
    source: records.Sequence,
    network: Network,
    paths: dict[ExecutionPath, str],
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> FixedPaths | None:
    """Looks again at images distributed evenly over a run, with each path; blocks for about `MOST_MS`.

    An answer of a path is in time where the time that it takes now, slowed down as the run was, fits what the run's
    frame had left for its network. A path of several passes has a second row, for which the last result in time counts.
    Frames that never got as far as the network, as a newer image replaced them, are not among the images.

    Args:
        recording: the run.
        source: what was played in it.
        network: that ran, warm; gives detections.
        paths: of it, with what they are.
        progress: called with the number of images that are done, and of all.

    Returns:
        None where no image of the run with known objects is at hand, or none of those that were looked at holds one.
    """
    images = images_of(recording, source)
    frames = [
        frame
        for frame in recording.frames
        if frame.stamp_ns in images
        and frame.stamp_ns in recording.ground_truth
        and not frame.age_unknown
    ]
    if not frames:
        return None

    def looked_at(frame: FrameRecord) -> dict[ExecutionPath, list[ResultAt]]:
        image_bgr = images[frame.stamp_ns].load_bgr()
        return {path: results_of(network, image_bgr, path) for path in paths}

    looked_at(frames[0])  # first calls
    begun_ms = now_ms()
    looked_at(frames[0])
    frames = spread_evenly(frames, max(1, int(MOST_MS / (now_ms() - begun_ms))))
    found: list[dict[ExecutionPath, list[ResultAt]]] = []
    for frame in frames:
        found.append(looked_at(frame))
        progress(len(found), len(frames))
    if all(recording.ground_truth[frame.stamp_ns].crowd.all() for frame in frames):
        return None
    return compared(recording, frames, found, paths, network.class_names)


def results_of(network: Network, image_bgr: np.ndarray, path: ExecutionPath) -> list[ResultAt]:
    """The results that a path has on its way and in the end, each with its time."""
    begun_ms = now_ms()
    run = network.start(image_bgr, path)
    ends = [at for at in path.space.result_segments if path.keys_by_segment[at] is not None]
    results: list[ResultAt] = []
    while not run.finished:
        segment = run.segment
        run.run_segment()
        if segment in ends[:-1]:
            results.append((now_ms() - begun_ms, run.result_so_far()))
    found = run.result()
    return [*results, (now_ms() - begun_ms, found)]


def compared(
    recording: Recording,
    frames: Sequence[FrameRecord],
    found: Sequence[dict[ExecutionPath, list[ResultAt]]],
    paths: dict[ExecutionPath, str],
    class_names: Sequence[str],
) -> FixedPaths:
    """The rows of a comparison.

    Args:
        recording: the run.
        frames: those of it that were looked at again.
        found: results of each path for each of these frames.
        paths: with what they are.
        class_names: of the network.
    """
    ratio = time_ratio(frames, found)
    names = tuple(dict.fromkeys((*recording.class_names, *class_names)))
    places = np.array([names.index(name) for name in class_names], np.int64)
    # What the node does not publish is not scored of the fixed paths either.
    least_score = min(
        (float(frame.detections.scores.min()) for frame in frames if _is_own(frame)), default=0.0
    )
    answers: dict[tuple[str, str, bool], list[Detections | None]] = {
        ('this run, a path for each frame', '', True): [
            frame.detections if frame.in_time else None for frame in frames
        ]
    }
    for path, label in paths.items():
        whole: list[Detections | None] = []
        newest: list[Detections | None] = []
        for frame, results in zip(frames, found):
            left_ms = time_left_ms(frame)
            own = [
                _relabelled(result, places, least_score) if ratio * ms <= left_ms else None
                for ms, result in results[path]
            ]
            whole.append(own[-1])
            newest.append(next((one for one in reversed(own) if one is not None), None))
        answers[label, str(path), False] = whole
        if len(found[0][path]) > 1:
            answers[label, str(path), True] = newest
    ground_truths = [recording.ground_truth[frame.stamp_ns] for frame in frames]
    return FixedPaths(_rows(answers, ground_truths, names), len(frames), ratio)


def time_left_ms(frame: FrameRecord) -> float:
    """What the budget of a frame left to its network, after all else that it took."""
    return frame.budget_ms - (frame.total_ms - frame.network_ms)


def time_ratio(
    frames: Sequence[FrameRecord], found: Sequence[dict[ExecutionPath, list[ResultAt]]]
) -> float:
    """What frames took in their run over what the same path takes alone, median over frames that ran one of the paths
    to its end; 1 where none did."""
    ratios = []
    for frame, results in zip(frames, found):
        own = next((path for path in results if str(path) == frame.path), None)
        if own is None or frame.outcome is not Outcome.DETECTED or frame.missing_passes:
            continue
        ratios.append(frame.network_ms / results[own][-1][0])
    return median(ratios) if ratios else 1.0


def _is_own(frame: FrameRecord) -> bool:
    return frame.in_time and frame.detections is not None and len(frame.detections) > 0


def _relabelled(found: Detections, places: np.ndarray, least_score: float) -> Detections:
    """What a network found, its labels as places among the names of the recording."""
    kept = found.with_score(least_score)
    return Detections(kept.boxes_xyxy_px, kept.scores, places[kept.labels])


def _rows(
    answers: dict[tuple[str, str, bool], list[Detections | None]],
    ground_truths: Sequence[GroundTruth],
    names: tuple[str, ...],
) -> tuple[InTime, ...]:
    images = len(ground_truths)
    draws = np.vstack([np.ones((1, images), np.int64), bootstrap_draws(images, _DRAWS)])
    rows: list[InTime] = []
    of_run: np.ndarray | None = None
    for (label, path, with_first_look), own in answers.items():
        detections = [Detections.none() if one is None else one for one in own]
        ap50 = resampled_ap(detections, ground_truths, names, draws, only_50=True)
        of_run = ap50 if of_run is None else of_run
        less, most = np.nanquantile(of_run[1:] - ap50[1:], _INTERVAL).tolist()
        in_time = sum(one is not None for one in own) / images
        rows.append(InTime(label, path, with_first_look, in_time, float(ap50[0]), (less, most)))
    return tuple(rows)
