from pathlib import Path

from deadline_perception.extras.data.records import Sequence
from deadline_perception.extras.data.source import open_source


def opened(source: str | Path, **options) -> Sequence:
    """The sequence at a place, as a command opens it."""
    return open_source(str(source), **options)


def frame_names(sequence: Sequence) -> list[str]:
    return [frame.name for frame in sequence.frames]


def stamps_ns(sequence: Sequence) -> list[int]:
    return [frame.stamp_ns for frame in sequence.frames]


def speeds_mps(sequence: Sequence) -> list[float | None]:
    return [frame.speed_mps for frame in sequence.frames]


def object_counts(sequence: Sequence) -> list[int | None]:
    """Known objects of each frame, None where it is not annotated."""
    known = [frame.ground_truth for frame in sequence.frames]
    return [None if one is None else len(one) for one in known]


def classes_of(sequence: Sequence, at: int = 0) -> list[str]:
    """Names of the classes of a frame's objects."""
    return [sequence.class_names[label] for label in sequence.frames[at].ground_truth.labels]


def boxes_of(sequence: Sequence, at: int = 0) -> list[list[float]]:
    """Left, top, right and bottom in px of a frame's objects."""
    return sequence.frames[at].ground_truth.boxes_xyxy_px.tolist()


def crowd_of(sequence: Sequence, at: int = 0) -> list[bool]:
    """Which of a frame's objects are crowd regions."""
    return sequence.frames[at].ground_truth.crowd.tolist()
