"""The figures of one recorded run as plain JSON, with the same keys for every run."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from statistics import median_high

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.records import GroundTruth
from deadline_perception.extras.data.class_maps import best_map
from deadline_perception.extras.data.class_names import counted
from deadline_perception.extras.evaluation.average_precision import average_precision
from deadline_perception.extras.report.recording import FrameRecord, Recording
from deadline_perception.extras.report.timeliness import frame_figures, network_figures
from deadline_perception.runtime.job import Outcome

_TIMED_FRAMES = 5  # of a path, before its times are used to say where it would have fitted
_SMALLEST_LOSS = 0.005  # of expected average precision, that is reported
_SCENE_FRAMES, _TURNS = 15, 20  # whose scene is one; after which both factors stand still
_NO_QUALITY = 1e-6


@dataclass(frozen=True)
class PathUse:
    """How one path did in a run.

    Attributes:
        frames: number of frames that it ran on.
        bound_p50_ms: median of the bounds promised for it.
        quality: expected average precision that the decision counted with, in [0, 1]; None where none was recorded.
        misses: frames without fresh detections before the deadline; those of unknown age are dropped.
    """

    path: str
    frames: int
    network_p50_ms: float
    network_p95_ms: float
    network_max_ms: float
    bound_p50_ms: float
    quality: float | None
    misses: int


def path_uses(recording: Recording) -> tuple[PathUse, ...]:
    """Every path that ran, most used first."""
    by_path: dict[str, list[FrameRecord]] = {}
    for frame in recording.frames:
        if frame.path and frame.outcome is not Outcome.COASTED:
            by_path.setdefault(frame.path, []).append(frame)
    uses = [
        PathUse(
            path,
            len(frames),
            median_high([frame.network_ms for frame in frames]),
            float(np.quantile([frame.network_ms for frame in frames], 0.95, method='higher')),
            max(frame.network_ms for frame in frames),
            median_high([frame.bound_ms for frame in frames]),
            _quality(frames),
            sum(not (frame.in_time or frame.age_unknown) for frame in frames),
        )
        for path, frames in by_path.items()
    ]
    return tuple(sorted(uses, key=lambda use: (-use.frames, use.path)))


def wasted_time(recording: Recording) -> dict[str, float | int | None]:
    """What bounds that lie far above what frames take cost; keys of summary.json.

    A frame ran a smaller network than would have fitted when another path of this run expects more quality, and took at
    most the time that the frame had left on 95 of 100 of its frames.

    Keys:
        bound_over_network: how many times what the network took its bound was, median; None without bounds.
        smaller_frames: frames that ran such a smaller network.
        smaller_quality: expected average precision that they lost, mean over all frames.
    """
    ratios = [
        frame.bound_ms / frame.network_ms
        for frame in recording.frames
        if frame.in_time and frame.network_ms > 0 and math.isfinite(frame.bound_ms)
    ]
    known = _qualities(recording)
    compared = {use.path for use in known.uses}
    lost = []
    for frame, level, own in zip(known.frames, known.scene, known.own, strict=True):
        if frame.path not in compared or not frame.in_time:
            continue
        fitting = [
            use.quality * level
            for use in known.uses
            if use.network_p95_ms <= frame.decision.remaining_ms and use.path != frame.path
        ]
        lost.append(max(fitting, default=0.0) - own)
    smaller = [loss for loss in lost if loss > _SMALLEST_LOSS]
    return {
        'bound_over_network': median_high(ratios) if ratios else None,
        'smaller_frames': len(smaller),
        'smaller_quality': sum(smaller) / len(recording.frames),
    }


def beside_fixed_paths(recording: Recording) -> list[dict[str, object]]:
    """What this run expects, beside what one path for every frame would have; empty where qualities are not known.

    An estimate: a fixed path is in time on a frame where its median time fits the time that the frame had left; it has
    its expected quality in that frame's scene there and none elsewhere, as the run has on frames that it missed.

    Keys of each: `label`, `path`, `in_time` (share), `quality` (expected average precision, mean over frames).
    """
    known = _qualities(recording)
    uses = known.uses
    if len(uses) < 2:
        return []

    def fixed(use: PathUse) -> tuple[float, float]:
        fits = [use.network_p50_ms <= frame.decision.remaining_ms for frame in known.frames]
        return float(np.mean(fits)), use.quality * float(np.mean(fits * known.scene))

    in_time = np.array([frame.in_time for frame in known.frames])
    largest = max(uses, key=lambda use: use.network_p50_ms)
    best = max(uses, key=lambda use: fixed(use)[1])
    rows = [('this run', '', (float(in_time.mean()), float((in_time * known.own).mean())))]
    rows += [('longest path always', largest.path, fixed(largest))]
    rows += [('best fixed path', best.path, fixed(best))]
    return [
        {'label': label, 'path': path, 'in_time': share, 'quality': expected}
        for label, path, (share, expected) in rows
    ]


def scored_outputs(recording: Recording) -> tuple[list[Detections], list[GroundTruth]]:
    """What a follower of the detections had at each deadline, beside what was there to see.

    One pair for every sent frame with known objects. A frame that was delivered in time, or coasted, has its
    own detections; a replaced, lost or late one has those delivered last before it; none before the first.
    """
    own = {frame.stamp_ns: frame for frame in recording.frames if frame.detections is not None}
    delivered = sorted(own)
    outputs, ground_truths = [], []
    for stamp_ns in recording.sent_stamps_ns:
        if stamp_ns not in recording.ground_truth:
            continue
        frame = own.get(stamp_ns)
        if frame is None or not (frame.in_time or frame.outcome is Outcome.COASTED):
            before = bisect_right(delivered, stamp_ns - 1)
            frame = own[delivered[before - 1]] if before else None
        outputs.append(frame.detections if frame else Detections.none())
        ground_truths.append(recording.ground_truth[stamp_ns])
    return outputs, ground_truths


def summarise(recording: Recording, facts: dict[str, str]) -> dict:
    """The content of summary.json; of the facts, what is known of the machine, it takes `ros_distro`."""
    outputs, ground_truths = scored_outputs(recording)
    scored = (
        average_precision(outputs, ground_truths, recording.class_names) if ground_truths else None
    )
    return _finite(
        {
            **frame_figures(recording),
            'ap': scored.ap if scored else None,
            'ap50': scored.ap50 if scored else None,
            'ap_per_class': asdict(scored)['per_class'] if scored else {},
            'frames_scored': scored.images if scored else 0,
            'class_names': list(recording.class_names),
            'unscored_objects': recording.unknown_objects,
            **network_figures(recording),
            **wasted_time(recording),
            'beside_fixed_paths': beside_fixed_paths(recording),
            'paths': {
                use.path: {
                    'frames': use.frames,
                    'network_p50_ms': use.network_p50_ms,
                    'bound_p50_ms': use.bound_p50_ms,
                    'quality': use.quality,
                    'misses': use.misses,
                }
                for use in path_uses(recording)
            },
            'policy': next(
                (frame.decision.policy for frame in recording.frames if frame.decision), None
            ),
            'ros_distro': facts.get('ros_distro'),
            'device': recording.frames[-1].device,
        }
    )


def unscored_words(summary: dict) -> str:
    """Why a run has no accuracy, as a clause for a person.

    Args:
        summary: of `summarise`, whose `ap50` is None.
    """
    boxes = summary['unscored_objects']
    if not boxes:
        return 'no ground truth' if not summary['frames_scored'] else 'no known object'
    return (
        f'{sum(boxes.values())} known boxes, none of a class that the network has ({counted(boxes)}): '
        f'{classes_option(summary)} brings names together'
    )


def classes_option(summary: dict) -> str:
    """The option of `bag`, `demo` and `evaluate` by which boxes are scored that the network knows by other names."""
    helpful = best_map([*summary['unscored_objects']], tuple(summary['class_names']))
    return f'--classes {helpful.name}' if helpful else '--classes NAME|FILE'


@dataclass(frozen=True, eq=False)
class _Qualities:
    """What paths and scenes add to the quality that was expected of each frame, which is taken for their product.

    Attributes:
        frames: whose expected quality is known.
        uses: paths that ran on enough of them, without those cut short; their quality is of the mean scene.
        scene: how many times that any path sees in each frame's scene, float64 `[frames]`; 1 where quality is the path's
            alone.
        own: quality of each frame; an answer cut short counts as one of the worst path.
    """

    frames: list[FrameRecord]
    uses: list[PathUse]
    scene: np.ndarray
    own: np.ndarray


def _qualities(recording: Recording) -> _Qualities:
    """Two paths ran on other frames: where quality follows the scene, their means are of other scenes. A scene is that of
    some frames before and after; both factors are found in turn, each as the mean of what the other leaves."""
    frames = [
        frame
        for frame in recording.frames
        if frame.decision is not None and math.isfinite(frame.decision.quality)
    ]
    whole = [all(one.decided for one in frame.decision.operators) for frame in frames]
    scene, counts = np.ones(len(frames)), np.array(whole, float)
    if not any(whole):
        return _Qualities([], [], scene[:0], scene[:0])
    quality = np.array([frame.decision.quality for frame in frames])
    names, path_of = np.unique([frame.path for frame in frames], return_inverse=True)
    around = np.ones(min(_SCENE_FRAMES, len(frames)))
    for _ in range(_TURNS):
        of_path = _means(partial(np.bincount, path_of), quality / scene, counts)
        of_scene = quality / np.maximum(of_path, _NO_QUALITY)[path_of]
        scene = _means(partial(np.convolve, around, mode='same'), of_scene, counts)
    level = scene.mean()
    known = dict(zip(names.tolist(), (of_path * level).tolist(), strict=True))
    not_cut = tuple(itertools.compress(frames, whole))
    uses = [
        replace(use, quality=known[use.path])
        for use in path_uses(replace(recording, frames=not_cut))
        if use.frames >= _TIMED_FRAMES
    ]
    least = min((use.quality for use in uses), default=0.0)
    own = np.where(whole, quality, least * scene / level)
    return _Qualities(frames, uses, scene / level, own)


def _means(summed: Callable[[np.ndarray], np.ndarray], values, counts) -> np.ndarray:
    """Of those values that count, as they are summed up; 1 where none does."""
    among = summed(counts)
    return np.where(among > 0.5, summed(values * counts) / np.maximum(among, 0.5), 1.0)


def _quality(frames: list[FrameRecord]) -> float | None:
    known = [
        frame.decision.quality
        for frame in frames
        if frame.decision and math.isfinite(frame.decision.quality)
    ]
    return sum(known) / len(known) if known else None


def _finite(value):
    """The same tree with None in place of NaN and infinity, which JSON does not know."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
