"""Makes any driving sequence fit to be played against deadlines: not too long, and with a speed in every frame."""

from __future__ import annotations

import math
from dataclasses import replace

from deadline_perception.extras.data.records import Sequence

TOP_SPEED_MPS = 20.0
_CYCLE_S = 32.0
# Share of the cycle and speed as a share of the top speed: stand, speed up, cruise, brake, crawl, speed up, stop.
_KNOTS = (
    (0.0, 0.0),
    (0.06, 0.0),
    (0.28, 0.7),
    (0.42, 1.0),
    (0.52, 1.0),
    (0.66, 0.25),
    (0.74, 0.25),
    (0.84, 0.5),
    (0.96, 0.0),
    (1.0, 0.0),
)


def limited(sequence: Sequence, seconds: float) -> tuple[Sequence, str]:
    """The sequence's beginning, and a sentence on what was dropped; the sentence is empty when nothing was.

    Raises:
        ValueError: the limit is not positive.
    """
    if not seconds > 0:
        raise ValueError(f'seconds is {seconds}, expected more than 0')
    end_ns = sequence.frames[0].stamp_ns + seconds * 1e9
    kept = tuple(frame for frame in sequence.frames if frame.stamp_ns < end_ns)
    left_out = len(sequence.frames) - len(kept)
    if not left_out:
        return sequence, ''
    return replace(sequence, frames=kept), (
        f'Only the first {seconds:g} s of {sequence.name} were played: '
        f'{left_out} of {len(sequence.frames)} frames were left out.'
    )


def with_speed_in_every_frame(sequence: Sequence) -> tuple[Sequence, str]:
    """The sequence with a speed in every frame, and a sentence when speeds had to be synthesised.

    Recorded speeds are kept; a frame without one among them takes the one before it. Where none is recorded, a made-up
    speed rises and falls between 0 and 20 m/s.
    """
    recorded = [frame.speed_mps for frame in sequence.frames if frame.speed_mps is not None]
    if len(recorded) == len(sequence.frames):
        return sequence, ''
    if not recorded:
        first_ns = sequence.frames[0].stamp_ns
        frames = tuple(
            replace(frame, speed_mps=synthetic_speed_mps((frame.stamp_ns - first_ns) / 1e9))
            for frame in sequence.frames
        )
        return replace(sequence, frames=frames), (
            f'{sequence.name} has no recorded speed: a made-up one between 0 and '
            f'{TOP_SPEED_MPS:g} m/s was played with it.'
        )
    frames, speed_mps = [], recorded[0]
    for frame in sequence.frames:
        speed_mps = speed_mps if frame.speed_mps is None else frame.speed_mps
        frames.append(replace(frame, speed_mps=speed_mps))
    missing = len(sequence.frames) - len(recorded)
    return replace(sequence, frames=tuple(frames)), (
        f'{missing} of {len(frames)} frames of {sequence.name} have no '
        f'recorded speed and take the one before.'
    )


def synthetic_speed_mps(time_s: float) -> float:
    """A speed between 0 and `TOP_SPEED_MPS` that repeats every 32 s, with smooth changes."""
    share = math.fmod(time_s, _CYCLE_S) / _CYCLE_S
    for (begin, low), (end, high) in zip(_KNOTS, _KNOTS[1:]):
        if share <= end:
            smooth = 0.5 - 0.5 * math.cos(math.pi * (share - begin) / (end - begin))
            return TOP_SPEED_MPS * (low + (high - low) * smooth)
    return 0.0
