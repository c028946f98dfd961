"""Images that a training does not see, by which it is judged: is what it wrote better than what it began with?"""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import dataclass, replace

from deadline_perception.extras.data.joined_sequence import joined
from deadline_perception.extras.data.records import Frame, Sequence, spread_evenly
from deadline_perception.extras.evaluation.average_precision import AveragePrecision

LEAST_IMAGES = 20  # of a source, before some are kept apart
MOST_KEPT = 50  # of all sources
_EVERY = 10


@dataclass(frozen=True, eq=False)
class KeptApart:
    """The images to judge by.

    Attributes:
        sequence: with the classes of all sources.
        frames: of it, annotated, at least one.
    """

    sequence: Sequence
    frames: tuple[Frame, ...]


def keep_apart(sequences: Many[Sequence]) -> tuple[list[Sequence], KeptApart | None]:
    """A tenth of the annotated images, distributed evenly over each source, and the sources without them.

    Sources of fewer than `LEAST_IMAGES` annotated images are learnt whole. Frames of a video look like their
    neighbours, which are learnt: for such data judge by another video.

    Returns:
        What is learnt, and what is judged by; None where every source is too small.
    """
    learnt, kept = [], []
    share = MOST_KEPT // max(1, len(sequences))
    for sequence in sequences:
        annotated = [frame for frame in sequence.frames if frame.ground_truth is not None]
        if len(annotated) < LEAST_IMAGES:
            learnt.append(sequence)
            continue
        chosen = spread_evenly(annotated, max(1, min(share, len(annotated) // _EVERY)))
        stamps = {frame.stamp_ns for frame in chosen}
        rest = tuple(frame for frame in sequence.frames if frame.stamp_ns not in stamps)
        learnt.append(replace(sequence, frames=rest))
        kept.append(replace(sequence, frames=tuple(chosen)))
    return learnt, judged_by(kept) if kept else None


def judged_by(sequences: Many[Sequence]) -> KeptApart:
    """All annotated images of the sequences.

    Raises:
        ValueError: none of their images is annotated.
    """
    names = dict.fromkeys(name for sequence in sequences for name in sequence.class_names)
    sequence = joined(sequences, tuple(names))
    frames = tuple(frame for frame in sequence.frames if frame.ground_truth is not None)
    if not frames:
        raise ValueError(f'{sequence.name} has no annotations, expected images to judge by')
    return KeptApart(sequence, frames)


def mean_ap(precision: AveragePrecision, class_names: Many[str]) -> float | None:
    """Mean AP of those of the classes of which objects are known, in [0, 1]; None where there are none."""
    known = [
        precision.per_class[name].ap
        for name in class_names
        if name in precision.per_class and precision.per_class[name].ap is not None
    ]
    return sum(known) / len(known) if known else None


def verdict(
    before: float | None, after: float | None, images: int, steps: int, planned: int
) -> list[str]:
    """Lines for a person: how the weights compare with the start, on how much training.

    Args:
        before: AP of the start, None of a fresh network.
        after: AP of what was written; None where no object of its classes is known.
        images: that were judged by.
        steps, planned: weight updates that were done and that were asked for.
    """
    done = f'{steps} of {planned} steps done'
    if after is None:
        return [f'{done}; the {images} images kept apart hold no object of the classes']
    now = f'now {100 * after:.1f} AP on {images} images kept apart, {done}'
    if before is None:
        return [now]
    lines = [f'start {100 * before:.1f} -> {now}']
    if after < before:
        lines.append(
            f'these weights are worse than those they began with, by {100 * (before - after):.1f} AP: train on '
            f'(the same command goes on), or keep the start'
        )
    return lines
