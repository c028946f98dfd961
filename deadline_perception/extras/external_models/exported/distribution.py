"""Heads that give a distribution over distances from a cell to each side of the box (generalised focal loss, Li et al.
2020), per scale or for all: NanoDet, PicoDet, and YOLOv8 exported before its decoding.

`distribution CENTRE SCORES`: a cell is at its `middle` or `corner`; scores are a `probability`, or need a `sigmoid`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product

import numpy as np

from deadline_perception.extras.external_models.exported.head import (
    PROBABILITY,
    SIGMOID,
    Head,
    Objects,
    Output,
    best_classes,
    cell_corners,
    cells,
    softmax,
    to_probabilities,
)

NAMES = ('distribution',)
_NANODET = ('stretch', 'bgr', 'ImageNet')  # see `Head.usual`
_MIDDLE, _CORNER = 'middle', 'corner'
_STRIDES = ((8, 16, 32), (8, 16, 32, 64), (16, 32), (16, 32, 64))
_BINS = range(4, 33)  # of a side; 8 of NanoDet and PicoDet, 16 of YOLOv8


def readings(
    outputs: Sequence[Output], classes: int | None, input_size: tuple[int, int]
) -> list[Head]:
    """The ways in which outputs may be read as such a head, the likeliest first."""
    found = []
    for strides in _STRIDES:
        counts = [int(np.prod(cells(input_size, stride))) for stride in strides]
        layout = _per_scale(outputs, counts, classes) or _joined(outputs, sum(counts), classes)
        if layout is None:
            continue
        places, labels = layout
        grid = cell_corners(input_size, strides)
        found += [
            Head(
                f'distribution {centre} {scores}',
                labels,
                partial(
                    _decode,
                    places=places,
                    labels=labels,
                    counts=counts,
                    grid=grid,
                    offset=0.5 if centre == _MIDDLE else 0.0,
                    scores=scores,
                ),
                True,
                tuple(place for place, other in places if place != other),
                scores,
                _NANODET,
            )
            for centre, scores in product((_MIDDLE, _CORNER), (PROBABILITY, SIGMOID))
        ]
    return found


def _per_scale(
    outputs: Sequence[Output], counts: Sequence[int], classes: int | None
) -> tuple[list[tuple[int, int]], int] | None:
    """Places of scores and distances of each scale, and the number of classes."""
    places, labels = [], set()
    if len(outputs) != 2 * len(counts):
        return None
    for count in counts:
        of_scale = [(place, _values(output, count)) for place, output in enumerate(outputs)]
        of_scale = [(place, values) for place, values in of_scale if values]
        if len(of_scale) != 2:
            return None
        ordered = sorted(
            of_scale, key=lambda one: not _is_classes(outputs[one[0]], one[1], classes)
        )
        (scores, columns), (distances, bins) = ordered
        if bins % 4 or bins // 4 not in _BINS:
            return None
        places.append((scores, distances))
        labels.add(columns)
    return (places, labels.pop()) if len(labels) == 1 and classes in (None, *labels) else None


def _is_classes(output: Output, values: int, classes: int | None) -> bool:
    """Whether an output holds scores and not distances."""
    if classes is not None and values == classes:
        return not any(word in output.name.lower() for word in ('dis', 'reg', 'box'))
    return (
        any(word in output.name.lower() for word in ('cls', 'class', 'score'))
        or values % 4 > 0
        or values > 128
    )


def _values(output: Output, count: int) -> int | None:
    """How many values a cell has in an output of a scale with so many cells; None where it is of another scale."""
    shape = output.shape
    if len(shape) == 3 and shape[0] in (1, None):
        if shape[1] == count:
            return shape[2]
        return shape[1] if shape[2] == count else None
    if len(shape) == 4 and shape[0] in (1, None) and None not in shape[1:]:
        return shape[1] if shape[2] * shape[3] == count else None
    return None


def _joined(
    outputs: Sequence[Output], count: int, classes: int | None
) -> tuple[list[tuple[int, int]], int] | None:
    """The same where scores and distances of all scales are columns of one output."""
    for place, output in enumerate(outputs):
        values = _values(output, count)
        if not values:
            continue
        for bins in (8, 16) if classes is None else _BINS:
            labels = values - 4 * bins
            if labels >= 1 and classes in (None, labels) and (classes is not None or labels == 80):
                return [(place, place)], labels
    return None


def _decode(
    values: Sequence[np.ndarray],
    *,
    places: Sequence[tuple[int, int]],
    labels: int,
    counts: Sequence[int],
    grid: tuple[np.ndarray, np.ndarray],
    offset: float,
    scores: str,
) -> Objects:
    if places[0][0] == places[0][1]:
        rows = _by_cells(values[places[0][0]], sum(counts))
        said, distances = rows[:, :labels], rows[:, labels:]
    else:
        said = np.concatenate(
            [_by_cells(values[place], count) for (place, _), count in zip(places, counts)]
        )
        distances = np.concatenate(
            [_by_cells(values[place], count) for (_, place), count in zip(places, counts)]
        )
    kept, best, found = best_classes(to_probabilities(said, scores))
    shares = softmax(distances[kept].reshape(len(kept), 4, -1))
    sides = shares @ np.arange(shares.shape[2], dtype=np.float32)
    centres, strides = grid[0][kept] + offset, grid[1][kept, None]
    boxes = np.concatenate((centres - sides[:, :2], centres + sides[:, 2:]), 1) * strides
    return Objects(boxes.astype(np.float32), best, found)


def _by_cells(values: np.ndarray, count: int) -> np.ndarray:
    """One scale's values `[cells, values]` from any of its layouts."""
    if values.ndim == 4:
        return values.reshape(values.shape[1], -1).T
    rows = values.reshape(values.shape[-2:])
    return rows if len(rows) == count else rows.T
