"""The classes of known objects: renamed, merged or dropped by a file, and brought into the order of a network's."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from collections.abc import Sequence as Many
from dataclasses import replace
from pathlib import Path

import numpy as np

from deadline_perception.core.untrusted_file import MOST_TEXT_BYTES, read_json
from deadline_perception.extras.data.annotation_file import expected_format
from deadline_perception.extras.data.records import GroundTruth, Sequence, check_class_names
from deadline_perception.extras.plain_yaml import read_yaml


def read_class_mapping(file: Path) -> dict[str, str | None]:
    """A JSON or YAML file of new names by the names of the data; null leaves a class out, others keep their names.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file holds anything else.
    """
    file = Path(file)
    with expected_format(file, 'a JSON or YAML mapping of class names to new names'):
        mapping = (
            read_json(file, MOST_TEXT_BYTES) if file.suffix.lower() == '.json' else read_yaml(file)
        )
        if not isinstance(mapping, dict) or not mapping:
            raise ValueError(f'it holds {type(mapping).__name__}')
        check_class_names(tuple(mapping))
        check_class_names(tuple({name for name in mapping.values() if name is not None}))
    return mapping


def relabelled(
    ground_truth: GroundTruth, names: Many[str | None], wanted: Many[str]
) -> GroundTruth:
    """The objects of wanted classes, their labels as indices into `wanted`; those of other classes are dropped.

    Args:
        ground_truth: labels index `names`.
        names: of the labels; one that occurs twice merges two classes, None is never wanted.
        wanted: each once.
    """
    index = {name: number for number, name in enumerate(wanted)}
    labels = np.array([index.get(name, -1) for name in names], np.int64)[ground_truth.labels]
    kept = labels >= 0
    return GroundTruth(ground_truth.boxes_xyxy_px[kept], labels[kept], ground_truth.crowd[kept])


def left_out(
    ground_truths: Iterable[GroundTruth], names: Many[str], wanted: Many[str]
) -> dict[str, int]:
    """How many objects `relabelled` leaves out, by name; classes without any are not named."""
    counts = sum(
        (np.bincount(known.labels[~known.crowd], minlength=len(names)) for known in ground_truths),
        np.zeros(len(names), np.int64),
    )
    return {name: int(count) for name, count in zip(names, counts) if count and name not in wanted}


def counted(boxes: dict[str, int]) -> str:
    """Boxes by class in words: `12 of person, 3 of rider`."""
    return ', '.join(f'{count} of {name}' for name, count in boxes.items())


def with_mapping(sequence: Sequence, mapping: dict[str, str | None]) -> Sequence:
    """The sequence with classes renamed, merged or dropped; warns, with counts, of boxes that are dropped.

    Raises:
        ValueError: no class remains.
    """
    if not sequence.class_names:
        return sequence
    if not set(mapping) & set(sequence.class_names):
        warnings.warn(
            f'{sequence.name}: the class mapping names none of {", ".join(sequence.class_names)}',
            stacklevel=2,
        )
    names = [mapping.get(name, name) for name in sequence.class_names]
    wanted = tuple(dict.fromkeys(name for name in names if name is not None))
    if not wanted:
        raise ValueError(
            f'the class mapping leaves out all classes of {sequence.name}, expected one to remain'
        )
    return _with_names(sequence, names, wanted)


def with_class_names(sequence: Sequence, wanted: tuple[str, ...]) -> Sequence:
    """The sequence with labels that index `wanted`; boxes of other classes are dropped, with a warning that counts."""
    return _with_names(sequence, sequence.class_names, wanted)


def _with_names(sequence: Sequence, names: Many[str | None], wanted: tuple[str, ...]) -> Sequence:
    kept = {old for old, name in zip(sequence.class_names, names) if name in wanted}
    ground_truths = (
        frame.ground_truth for frame in sequence.frames if frame.ground_truth is not None
    )
    dropped = left_out(ground_truths, sequence.class_names, kept)
    if dropped:
        warnings.warn(f'{sequence.name}: boxes left out: {counted(dropped)}', stacklevel=3)
    return replace(
        sequence,
        class_names=wanted,
        frames=tuple(
            frame
            if frame.ground_truth is None
            else replace(frame, ground_truth=relabelled(frame.ground_truth, names, wanted))
            for frame in sequence.frames
        ),
    )
