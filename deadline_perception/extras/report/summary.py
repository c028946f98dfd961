"""The figures of one recorded run as plain JSON, with the same keys for every run."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import asdict, dataclass
from statistics import median_high

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.extras.data.class_maps import best_map
from deadline_perception.extras.data.class_names import counted
from deadline_perception.extras.data.records import GroundTruth
from deadline_perception.extras.evaluation.average_precision import average_precision
from deadline_perception.extras.report.recording import FrameRecord, Recording
from deadline_perception.extras.report.timeliness import frame_figures, network_figures
from deadline_perception.runtime.job import Outcome

_TIMED_FRAMES = 5  # of a path, before its times are used to say where it would have fitted
_SMALLEST_LOSS = 0.005  # of expected average precision, that is reported


@dataclass(frozen=True)
class PathUse:
    """How one path did in a run.

    Attributes:
        frames: number of frames that it ran on.
        cut_short: those of them that were answered before all its passes had ended.
        network_p50_ms, network_p95_ms, network_max_ms: of the other frames; of all where there are no others.
        bound_p50_ms: median of the bounds promised for it.
        quality: expected average precision that the decision counted with, in [0, 1]; None where none was recorded.
        misses: frames without fresh detections before the deadline; those of unknown age are dropped.
    """

    path: str
    frames: int
    cut_short: int
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
    uses = [_path_use(path, frames) for path, frames in by_path.items()]
    return tuple(sorted(uses, key=lambda use: (-use.frames, use.path)))


def _path_use(path: str, frames: list[FrameRecord]) -> PathUse:
    whole = [frame for frame in frames if not frame.missing_passes]
    times_ms = [frame.network_ms for frame in whole or frames]
    return PathUse(
        path,
        len(frames),
        len(frames) - len(whole),
        median_high(times_ms),
        float(np.quantile(times_ms, 0.95, method='higher')),
        max(times_ms),
        median_high([frame.bound_ms for frame in frames]),
        _quality(frames),
        sum(not (frame.in_time or frame.age_unknown) for frame in frames),
    )


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
    uses = _comparable_uses(recording)
    own = {use.path: use for use in uses}
    lost = []
    for frame in recording.frames:
        if frame.decision is None or frame.path not in own or not frame.in_time:
            continue
        best = max(
            use.quality
            for use in uses
            if use.network_p95_ms <= frame.decision.remaining_ms or use is own[frame.path]
        )
        lost.append(best - own[frame.path].quality)
    smaller = [loss for loss in lost if loss > _SMALLEST_LOSS]
    return {
        'bound_over_network': median_high(ratios) if ratios else None,
        'smaller_frames': len(smaller),
        'smaller_quality': sum(smaller) / len(recording.frames),
    }


def beside_fixed_paths(recording: Recording) -> list[dict[str, object]]:
    """What this run expects, beside what one path for every frame would have; empty where qualities are not known.

    Empty, too, where quality follows the scene.
    An estimate: a fixed path is in time on a frame where its median time fits the time that the frame had left; it has
    its expected quality there and none elsewhere, as the run has on frames that it missed.

    Keys of each: `label`, `path`, `in_time` (share), `quality` (expected average precision, mean over frames).
    """
    frames = [frame for frame in recording.frames if frame.decision is not None]
    uses = _comparable_uses(recording)
    if len(uses) < 2:
        return []
    quality = {use.path: use.quality for use in uses}

    def fixed(use: PathUse) -> tuple[float, float]:
        fits = sum(use.network_p50_ms <= frame.decision.remaining_ms for frame in frames)
        return fits / len(frames), use.quality * fits / len(frames)

    own = [quality.get(frame.path, 0.0) for frame in frames if frame.in_time]
    largest = max(uses, key=lambda use: use.network_p50_ms)
    best = max(uses, key=lambda use: fixed(use)[1])
    rows = [('this run', '', (len(own) / len(frames), sum(own) / len(frames)))]
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
                    'cut_short': use.cut_short,
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


def _comparable_uses(recording: Recording) -> list[PathUse]:
    """Paths whose qualities can be held against each other; none where quality follows the scene, so that those of two
    paths are of other frames."""
    by_path: dict[str, set[float]] = {}
    for frame in recording.frames:
        if frame.decision is not None and math.isfinite(frame.decision.quality):
            by_path.setdefault(frame.path, set()).add(round(frame.decision.quality, 4))
    if any(len(qualities) > 1 for qualities in by_path.values()):
        return []
    return [
        use
        for use in path_uses(recording)
        if use.quality is not None and use.frames >= _TIMED_FRAMES
    ]


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
