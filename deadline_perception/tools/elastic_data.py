"""Data of the commands that make and tune elastic networks: what calibrates or trains, what scores, and how well."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.execution_path import ExecutionPath
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.extras.data.class_images import (
    ClassImages,
    cut_objects,
    read_class_folders,
)
from deadline_perception.extras.data.records import Sequence
from deadline_perception.extras.data.source import open_source
from deadline_perception.extras.evaluation.class_accuracy import measure_accuracy
from deadline_perception.extras.evaluation.path_accuracy import annotated_frames, measure_paths
from deadline_perception.tools.support.terminal import progress_bar

_SCORED = 4  # one of so many images scores, the others calibrate and train
DATA_HELP = (
    'labelled images: of a classifier a folder with a folder of images for each class, or annotated driving '
    'images, whose objects are cut out; of a detector annotated images. One of four scores, the others '
    'calibrate and train'
)


@dataclass(frozen=True, eq=False)
class ElasticData:
    """Images to learn from, and images to score with; of a classifier with their classes, of a detector as a sequence.

    Attributes:
        learning: uint8 `[H, W, 3]` each.
        labels: of the former, int64 indices into `class_names`; None of a detector's.
        class_names: of the labels.
        scoring: labelled images, or annotated frames.
    """

    learning: list[np.ndarray]
    labels: np.ndarray | None
    class_names: tuple[str, ...]
    scoring: ClassImages | Sequence


def read_data(
    text: str, detects: bool, input_size: tuple[int, int], limit: int = 200
) -> ElasticData:
    """Reads what `--data` names.

    Args:
        text: see `DATA_HELP`.
        detects: the network is a detector.
        input_size: height and width in px of a classifier's images.
        limit: most images, evenly spaced; of a classifier of each class.

    Raises:
        ValueError: there are fewer than 8 images, or they have no labels.
        FileNotFoundError: nothing has that name.
    """
    if detects:
        sequence = open_source(text)
        frames = annotated_frames(sequence, limit)
        scored = tuple(
            frame for number, frame in enumerate(frames) if number % _SCORED == _SCORED - 1
        )
        learning = [
            frame.load_bgr()
            for number, frame in enumerate(frames)
            if number % _SCORED != _SCORED - 1
        ]
        _check(len(frames), text)
        return ElasticData(
            learning, None, (), Sequence(sequence.name, sequence.class_names, scored)
        )
    try:  # annotated images may lie in folders too
        images = _first_of_each(cut_objects(open_source(text), input_size), limit)
    except (ValueError, OSError):
        images = read_class_folders(Path(text), input_size, limit)
    _check(len(images), text)
    scores = np.arange(len(images)) % _SCORED == _SCORED - 1
    return ElasticData(
        list(images.images[~scores]),
        images.labels[~scores],
        images.class_names,
        ClassImages(images.images[scores], images.labels[scores], images.class_names),
    )


def score_paths(
    network, data: ElasticData, paths: list[ExecutionPath]
) -> dict[ExecutionPath, float]:
    """Accuracy of a classifier's paths, or average precision of a detector's, in [0, 1]; with progress on the
    screen."""
    if network.result_type is not Detections:
        return measure_accuracy(network, data.scoring, paths)
    names = set(network.class_names) & set(data.scoring.class_names)
    if not names:
        raise ValueError(
            f'{data.scoring.name} names {", ".join(data.scoring.class_names)}, the network knows '
            f'{", ".join(network.class_names[:20])}; expected one class in common'
        )
    frames = data.scoring.frames
    with progress_bar('scoring', len(paths) * len(frames), 'percent', 'left') as update:
        found = measure_paths(
            network, data.scoring, frames, paths, lambda done: update(completed=done)
        )
    return {path: scores.precision.ap or 0.0 for path, scores in found.items()}


def save_quality(network, scores: dict[ExecutionPath, float], data: str, weights: Path) -> Path:
    """Writes the table of qualities that the detector node finds beside the weights; returns its place."""
    file = weights.with_suffix('.quality.json')
    metric = 'ap' if network.result_type is Detections else 'accuracy'
    PathQuality(scores, weights_hash=network.weights_hash, dataset=data, metric=metric).save(file)
    return file


def _check(count: int, text: str) -> None:
    if count < 2 * _SCORED:
        raise ValueError(f'{text} holds {count} labelled images, expected at least {2 * _SCORED}')


def _first_of_each(images: ClassImages, limit: int) -> ClassImages:
    """At most so many images of each class, evenly spaced."""
    kept = np.sort(
        np.concatenate(
            [
                places[np.linspace(0, len(places) - 1, min(limit, len(places))).astype(int)]
                for places in (
                    np.flatnonzero(images.labels == label)
                    for label in range(len(images.class_names))
                )
                if len(places)
            ]
        )
    )
    return ClassImages(images.images[kept], images.labels[kept], images.class_names)
