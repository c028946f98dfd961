"""Measures how often each level of a classifier is right, and writes the tables that its decisions and schedules
use."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from deadline_perception.core.replaced_file import replace_file
from deadline_perception.extras.data.source import open_source
from deadline_perception.extras.evaluation.crop_accuracy import CropAccuracy, measure_accuracy
from deadline_perception.extras.evaluation.path_accuracy import annotated_frames, readable_frames
from deadline_perception.extras.rendered_drive.single_object import gather_views
from deadline_perception.extras.several_networks.classifier.classes import (
    BACKGROUND,
    REFINED,
    ROAD_USERS,
)
from deadline_perception.tools.support.terminal import print_table, progress_bar

HELD_OUT_SEED = (
    1000  # of rendered objects to be judged on; those that are learnt from have seeds below
)
_BACKGROUNDS = 3  # windows of each image
_RENDERED = 60  # objects of each class
_RENDERED_PX = (64.0, 72.0)  # so that each is shown at every size


def evaluate_crops(
    network, *, data: str, classes: str | None, limit: int | None, file: Path
) -> int:
    """Shows objects of annotated images, and rendered ones, to every level of a nested classifier; writes the table and
    prints it. Arguments are the options of `evaluate`; returns the exit status.

    Raises:
        ValueError: the data are not annotated.
    """
    sequence = open_source(data, classes=classes)
    frames = readable_frames(annotated_frames(sequence, limit))
    annotated, drawn = gather_views(
        frames,
        sequence.class_names,
        backgrounds=_BACKGROUNDS,
        rendered=_RENDERED,
        seed=HELD_OUT_SEED,
        sizes_px=_RENDERED_PX,
    )
    with progress_bar(
        f'{len(network.path_space)} levels', len(annotated) + len(drawn), 'percent', 'left'
    ) as update:
        found = measure_accuracy(
            network, annotated + drawn, progress=lambda done, total: update(completed=done)
        )
    table = accuracy_table(found) | {
        'objects_from': {sequence.name: len(annotated), 'rendered': len(drawn)}
    }
    replace_file(
        file,
        json.dumps(
            {
                'weights_hash': network.weights_hash,
                'dataset': sequence.name,
                'metric': 'accuracy',
                'images': len(frames),
                **table,
            },
            indent=1,
        )
        + '\n',
    )
    _print(found, len(annotated), len(drawn), sequence.name)
    print(f'wrote {file}')
    return 0


def accuracy_table(found: CropAccuracy) -> dict[str, object]:
    """What the file says: `levels`, `sizes_px` and `accuracy[level][size]`, the mean over all classes, as
    `nested.quality.AccuracyTable` reads them; the same of groups of classes; and of each path the mean over sizes."""
    accuracy = found.accuracy()
    groups = {
        'traffic_light': REFINED['traffic_light'],
        'traffic_sign': REFINED['traffic_sign'],
        'road_user': ROAD_USERS,
        BACKGROUND: (BACKGROUND,),
    }
    known = {
        name: members for name, members in groups.items() if set(members) & set(found.class_names)
    }
    return {
        'paths': {
            str(path): {'accuracy': round(float(row.mean()), 4)}
            for path, row in zip(found.paths, accuracy)
        },
        'levels': [str(path) for path in found.paths],
        'sizes_px': list(found.sizes_px),
        'accuracy': _rounded(accuracy),
        'accuracy_of': {name: _rounded(found.accuracy(members)) for name, members in known.items()},
        'objects': {name: row.tolist() for name, row in zip(found.class_names, found.objects)},
        'accuracy_of_largest_level': {
            name: _rounded(found.right[-1, row : row + 1])[0]
            for row, name in enumerate(found.class_names)
        },
    }


def _rounded(values: np.ndarray) -> list[list[float | None]]:
    """Shares with four digits; None where no object was."""
    return [
        [None if np.isnan(value) else round(float(value), 4) for value in row] for row in values
    ]


def _print(found: CropAccuracy, annotated: int, drawn: int, name: str) -> None:
    rows = [
        [str(path), *(f'{100 * value:.1f}' for value in row)]
        for path, row in zip(found.paths, found.accuracy())
    ]
    print_table(
        f'right answers in %, mean over classes, on {annotated} objects and pieces of background of {name} and '
        f'{drawn} rendered objects, by their longer side in px',
        ['level', *map(str, found.sizes_px)],
        rows,
    )
