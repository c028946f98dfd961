"""Which frames the charts draw, what of them, and where the axes end, for one run or several beside each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deadline_perception.extras.report.causes import slowdown_of
from deadline_perception.extras.report.recording import FrameRecord, Recording
from deadline_perception.runtime.job import Outcome

MOST_FRAMES = (
    1200  # drawn singly; of longer runs the worst frame of each of so many stretches is drawn
)
MOST_RATIO = 5.0  # of a time to its bound that is drawn apart
NETWORK_COLOURS = 6  # of the network's phases, in turn
_RATIO_STEP = 0.025
_BOUNDS_SHARE = 1.5  # of what times need, that an axis gives to bounds above them
_NODE_LAYERS = (
    ('age', 'camera to node', ('age',)),
    ('queue', 'waiting for the frame before', ('queue',)),
    ('node', 'convert, decide, publish', ('convert', 'decision', 'publish')),
)


@dataclass(frozen=True)
class Scales:
    """Where axes end; runs that share them can be held against each other.

    Attributes:
        time_s: first and last second of every time axis.
        latency_ms: bottom and top of latency and budget.
        logarithmic: whether these are drawn so, because most frames lie far below the longest.
        speed_mps, slowdown: tops.
        phases_ms: top of the stacked phases.
        ratio: right end of the histogram of times over their bounds.
        ratio_frames: its top.
    """

    time_s: tuple[float, float]
    latency_ms: tuple[float, float]
    logarithmic: bool
    speed_mps: float
    slowdown: float
    phases_ms: float
    ratio: float
    ratio_frames: float


def scales_of(runs: Sequence[tuple[Recording, list[FrameRecord]]]) -> Scales:
    """Scales that fit all of the runs, each with its frames of `drawn_frames`."""
    frames = [frame for _, drawn in runs for frame in drawn]
    times = np.concatenate([frame_times_s(*run) for run in runs])
    totals = np.array([frame.total_ms for frame in frames])
    budgets = np.array([frame.budget_ms for frame in frames])
    top_ms = max(float(np.max(totals, initial=1)), float(np.max(budgets, initial=1)))
    logarithmic = len(frames) > 0 and top_ms > 5 * float(np.median(totals))
    longest_bound_ms = max(
        filter(math.isfinite, (frame.total_bound_ms for frame in frames)), default=1.0
    )
    top_ms = max(top_ms, min(longest_bound_ms, _BOUNDS_SHARE * top_ms))
    latency_ms = (
        (0.8 * float(min(totals.min(), budgets.min())), 1.25 * top_ms)
        if logarithmic
        else (0.0, 1.08 * top_ms)
    )
    # NaN where it is unknown
    speeds = [value for recording, _ in runs for value in recording.speed_mps.values]
    slowdowns = [slowdown_of(recording, frame) for recording, drawn in runs for frame in drawn]
    stacked = [np.max(np.sum(stacked_ms(*run), axis=0), initial=1) for run in runs]
    ratios = [bound_ratios(recording) for recording, _ in runs]
    ratio = max(1.2, max(float(np.max(values, initial=0)) for values in ratios) + 0.05)
    counts = [np.histogram(values, ratio_edges(ratio))[0].max() for values in ratios]
    return Scales(
        time_s=_time_range_s(times),
        latency_ms=latency_ms,
        logarithmic=logarithmic,
        speed_mps=1.05 * max(filter(math.isfinite, speeds), default=1.0) or 1.0,
        slowdown=max(2.0, 1.1 * max(filter(math.isfinite, slowdowns), default=2.0)),
        phases_ms=1.15 * float(max(stacked)),
        ratio=ratio,
        ratio_frames=1.05 * float(max(*counts, 1)),
    )


def drawn_frames(recording: Recording) -> list[FrameRecord]:
    """The stamped frames that the charts draw, in the order of their stamps."""
    frames = sorted(
        (frame for frame in recording.frames if frame.stamp_ns and math.isfinite(frame.total_ms)),
        key=lambda frame: frame.stamp_ns,
    )
    if len(frames) <= MOST_FRAMES:
        return frames
    stretches = np.array_split(np.arange(len(frames)), MOST_FRAMES)
    return [
        max(
            (frames[index] for index in stretch),
            key=lambda frame: frame.total_ms / max(frame.budget_ms, 1e-9),
        )
        for stretch in stretches
    ]


def times_s(recording: Recording, stamps_ns: Sequence[int]) -> np.ndarray:
    """Seconds since the first image that the camera sent with a stamp."""
    first = next((stamp_ns for stamp_ns in recording.sent_stamps_ns if stamp_ns), 0)
    return (np.array(stamps_ns, dtype=np.int64) - first) / 1e9


def frame_times_s(recording: Recording, frames: Sequence[FrameRecord]) -> np.ndarray:
    return times_s(recording, [frame.stamp_ns for frame in frames])


def phase_layers(recording: Recording) -> list[tuple[str, str, tuple[str, ...]]]:
    """Colour, words and phases of each layer of `phases`, bottom first."""
    network = [
        (f'network{number % NETWORK_COLOURS}', f'network: {phase}', (phase,))
        for number, phase in enumerate(recording.network_phases)
    ]
    return [*_NODE_LAYERS, *network]


def stacked_ms(recording: Recording, frames: Sequence[FrameRecord]) -> np.ndarray:
    """Time of each layer of `phases` on every frame, in ms; float64 `[layers, frames]`."""
    spent = [{**frame.phase_ms, **frame.network_phase_ms} for frame in frames]
    return np.array(
        [
            [sum(np.nan_to_num(times.get(phase, 0.0)) for phase in names) for times in spent]
            for _, _, names in phase_layers(recording)
        ]
    )


def bound_ratios(recording: Recording) -> np.ndarray:
    """The network's time over its bound, per frame; one that hung does not stretch the axis.

    Frames that were aborted within their bound are dropped: nobody knows how long they would have taken.
    """
    ratios = [
        frame.network_ms / frame.bound_ms
        for frame in recording.frames
        if frame.bound_ms > 0
        and not (frame.outcome is Outcome.COASTED and frame.network_ms <= frame.bound_ms)
    ]
    return np.minimum(np.array(ratios), MOST_RATIO)


def ratio_edges(ratio: float) -> np.ndarray:
    return np.arange(0.0, ratio + _RATIO_STEP, _RATIO_STEP)


def _time_range_s(time_s: np.ndarray) -> tuple[float, float]:
    begin_s, end_s = (float(time_s.min()), float(time_s.max())) if len(time_s) else (0.0, 1.0)
    return (begin_s, end_s) if end_s > begin_s else (begin_s, begin_s + 1.0)
