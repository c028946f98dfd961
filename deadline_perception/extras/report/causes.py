"""Why a frame missed its deadline, in words for a person."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from deadline_perception.extras.report.recording import FrameRecord, Recording
from deadline_perception.runtime.job import Outcome

_WORST = 10  # frames that are listed
PHASE_WORDS = {
    'age': 'on its way from the camera',
    'queue': 'waiting for the detector',
    'convert': 'converting the image',
    'decision': 'deciding',
    'publish': 'publishing',
}


class Cause(Enum):
    """What is to blame for a late frame."""

    INFEASIBLE = 'budget too short'
    ARRIVED_LATE = 'image arrived late'
    BOUND_EXCEEDED = 'network exceeded its bound'
    OVERHEAD = 'time outside the network'
    HELD_UP = 'frame before hung'
    COASTED = 'coasted'
    NONE = 'in time'


@dataclass(frozen=True, eq=False)
class Blame:
    """A frame, the largest cause of its delay, and one sentence on it with its numbers."""

    frame: FrameRecord
    cause: Cause
    sentence: str


def typical_phases_ms(frames: Sequence[FrameRecord]) -> dict[str, float]:
    """Median time per phase of node and network over the frames; 0 for a phase that was never measured."""
    times_ms: dict[str, list[float]] = {}
    for frame in frames:
        for phase, time_ms in (*frame.phase_ms.items(), *frame.network_phase_ms.items()):
            times_ms.setdefault(phase, []).extend([time_ms] if math.isfinite(time_ms) else [])
    return {
        phase: float(np.median(finite)) if finite else 0.0 for phase, finite in times_ms.items()
    }


def blame(frame: FrameRecord, typical_ms: dict[str, float], slowdown: float) -> Blame:
    """Names the cause of one frame's delay.

    Args:
        frame: to blame.
        typical_ms: from `typical_phases_ms`.
        slowdown: the machine's estimated slowdown at the time, NaN when unknown.
    """
    if frame.in_time:
        return Blame(
            frame, Cause.NONE, f'{frame.total_ms:.0f} of {frame.budget_ms:.0f} ms were used.'
        )
    contention = (
        f' while other work slowed everything down {slowdown:.1f}-fold' if slowdown >= 1.15 else ''
    )
    early_ms = {
        phase: frame.phase_ms[phase] - typical_ms[phase]
        for phase in ('age', 'queue')
        if math.isfinite(frame.phase_ms[phase])
    }
    slowest = max(early_ms, key=early_ms.get, default=None)
    waited = slowest is not None and early_ms[slowest] > 0.2 * frame.budget_ms
    wait = (
        f'the image had spent {frame.phase_ms[slowest]:.0f} ms {PHASE_WORDS[slowest]}'
        if waited
        else ''
    )
    if frame.held_up:
        waited_ms = frame.phase_ms['queue']
        return Blame(
            frame,
            Cause.HELD_UP,
            f'The image waited {waited_ms:.0f} ms for the frame before, until its '
            f'deadline; no path was planned{contention}.',
        )
    if not frame.feasible:
        cause = Cause.ARRIVED_LATE if waited else Cause.INFEASIBLE
        left = (
            f'the {frame.decision.remaining_ms:.0f} ms that were' if frame.decision else 'what was'
        )
        bound = f' (bound {frame.bound_ms:.0f} ms)' if frame.path else ''
        need = f'even the cheapest path{bound} did not fit {left} left of {frame.budget_ms:.0f} ms'
        return Blame(
            frame, cause, _sentence(f'{wait}, and {need}' if waited else need) + f'{contention}.'
        )
    if frame.network_ms > frame.bound_ms:
        over_ms = {
            phase: time_ms - typical_ms[phase] for phase, time_ms in frame.network_phase_ms.items()
        }
        where = f', most of it in {max(over_ms, key=over_ms.get)}' if over_ms else ''
        return Blame(
            frame,
            Cause.BOUND_EXCEEDED,
            f'The network took {frame.network_ms:.0f} ms, {frame.network_ms - frame.bound_ms:.0f} ms beyond '
            f'its bound{where}{contention}.',
        )
    if frame.decision is not None and frame.network_ms > frame.decision.remaining_ms:
        # a bound of 0: nothing was to follow
        decided = [
            operator
            for operator in frame.decision.operators
            if operator.decided and operator.bound_ms >= 0.5
        ]
        enough = (
            f', and from {decided[-1].name} on {decided[-1].bound_ms:.0f} were to be enough'
            if decided
            else ''
        )
        return Blame(
            frame,
            Cause.BOUND_EXCEEDED,
            f'The network took {frame.network_ms:.0f} ms where it had {frame.decision.remaining_ms:.0f}'
            f'{enough}{contention}.',
        )
    if waited:
        return Blame(frame, Cause.ARRIVED_LATE, _sentence(wait) + f'{contention}.')
    if frame.outcome is Outcome.COASTED:
        return Blame(
            frame,
            Cause.COASTED,
            f'After {frame.network_ms:.0f} ms in the network (bound {frame.bound_ms:.0f} ms) the rest no '
            f'longer fitted; the detections before were published, coasted{contention}.',
        )
    outside = max(
        ('convert', 'decision', 'publish'),
        key=lambda phase: frame.phase_ms[phase] - typical_ms[phase],
    )
    return Blame(
        frame,
        Cause.OVERHEAD,
        f'The network kept its bound; {frame.overhead_ms:.0f} ms went outside it, most of them '
        f'{PHASE_WORDS[outside]}{contention}.',
    )


def worst_frames(recording: Recording) -> list[Blame]:
    """The frames that used the most of their budget, worst first: those that missed before those in time."""
    typical_ms = typical_phases_ms(recording.frames)
    timed = [
        frame for frame in recording.frames if math.isfinite(frame.total_ms) and frame.budget_ms > 0
    ]
    ranked = sorted(timed, key=lambda frame: (frame.in_time, -frame.total_ms / frame.budget_ms))
    return [blame(frame, typical_ms, slowdown_of(recording, frame)) for frame in ranked[:_WORST]]


def slowdown_of(recording: Recording, frame: FrameRecord) -> float:
    """The slowdown that the frame's decision counted with, else the monitor's latest; NaN when neither is known."""
    return frame.decision.slowdown if frame.decision else recording.slowdown.at(frame.stamp_ns)


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]
