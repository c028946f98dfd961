"""FastestDet's head: one map `[1, 5 + C, rows, columns]` of objectness, box and classes per cell."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from deadline_perception.extras.external_models.exported.head import (
    CENTRES,
    FRACTION,
    Head,
    Objects,
    Output,
    best_classes,
    sigmoid,
    to_corners,
)

NAMES = ('cells',)
_OBJECT_POWER, _CLASS_POWER = 0.6, 0.4  # Ma, FastestDet (2022): how its two scores are joined
_FEWEST_CELLS = 8


def readings(
    outputs: Sequence[Output], classes: int | None, input_size: tuple[int, int]
) -> list[Head]:
    """The one way to read such a head, where the outputs have its shape."""
    if len(outputs) != 1 or len(outputs[0].shape) != 4 or None in outputs[0].shape[1:]:
        return []
    _, values, rows, columns = outputs[0].shape
    square = rows * input_size[1] == columns * input_size[0] and input_size[0] % rows == 0
    if (
        values < 6
        or classes not in (None, values - 5)
        or not square
        or min(rows, columns) < _FEWEST_CELLS
        or input_size[0] // rows < 8
    ):
        return []
    return [Head('cells', values - 5, partial(_decode, input_size=input_size), True)]


def _decode(values: Sequence[np.ndarray], *, input_size: tuple[int, int]) -> Objects:
    given = values[0][0]
    rows, columns = given.shape[1:]
    y, x = np.mgrid[:rows, :columns]
    said = given.reshape(len(given), -1).T
    kept, best, labels = best_classes(said[:, 5:] ** _CLASS_POWER, said[:, 0] ** _OBJECT_POWER)
    box = said[kept, 1:5]
    boxes = np.stack(
        (
            (np.tanh(box[:, 0]) + x.ravel()[kept]) / columns,
            (np.tanh(box[:, 1]) + y.ravel()[kept]) / rows,
            sigmoid(box[:, 2]),
            sigmoid(box[:, 3]),
        ),
        1,
    )
    return Objects(to_corners(boxes, CENTRES, FRACTION, input_size), best, labels)
