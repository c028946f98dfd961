"""Heads of the YOLO family: a box and scores of classes per cell or anchor, decoded in the file or not.

- `yolov8` (v8, v9, 11, 12, RT-DETR as Ultralytics exports it): `[1, 4 + C, N]` or transposed: centre, size, scores; or
  `corners` in place of centre and size (PicoDet and RTMDet of LibreYOLO).
- `yolov5` (v5, v6, v7): `[1, N, 5 + C]`: centre, size, score of being an object, scores of classes given an object.
- `yolox`: the same shape, one row per cell, not decoded: offset from the cell and logarithm of the size, in strides.
- `maps`: YOLOv5 and v7 exported before their decoding: `[1, A, rows, columns, 5 + C]` per stride, with COCO's anchors.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product

import numpy as np

from deadline_perception.extras.external_models.exported.head import (
    CENTRES,
    CORNERS,
    FRACTION,
    PX,
    ULTRALYTICS,
    Head,
    Objects,
    Output,
    best_classes,
    cell_corners,
    cells,
    sigmoid,
    to_corners,
)

NAMES = ('yolov8', 'yolov5', 'yolox', 'maps')
_YOLOX = ('letterbox-corner', 'bgr', '0 to 255')  # see `Head.usual`
STRIDES = (8, 16, 32)
LARGE_STRIDES = (8, 16, 32, 64)
# Jocher et al., YOLOv5 (2020), models/yolov5s.yaml: width and height in px, three per stride, fitted to COCO.
COCO_ANCHORS_PX = (
    ((10, 13), (16, 30), (33, 23)),
    ((30, 61), (62, 45), (59, 119)),
    ((116, 90), (156, 198), (373, 326)),
)


def readings(
    outputs: Sequence[Output], classes: int | None, input_size: tuple[int, int]
) -> list[Head]:
    """The ways in which outputs may be read as one of these heads, the likeliest first."""
    found = _of_maps(outputs, classes, input_size)
    for place, output in enumerate(outputs):
        if len(output.shape) == 3 and output.shape[0] in (1, None) and not output.is_integer:
            found += _of_rows(place, output.shape[1:], classes, input_size)
    return found


def _of_rows(
    place: int,
    shape: tuple[int | None, int | None],
    classes: int | None,
    input_size: tuple[int, int],
) -> list[Head]:
    """Readings of one output `[1, rows, columns]`, of which either may be the boxes."""
    found = []
    for transposed in (True, False):
        boxes, values = shape[::-1] if transposed else shape
        if values is None or values < 5 or (boxes is not None and boxes <= values):
            continue
        is_of_anchors = not transposed and boxes == 3 * _cell_count(input_size, STRIDES)
        if is_of_anchors and classes in (None, values - 5) and values >= 6:
            # three a cell, which YOLOv5 and v7 alone have: five values before the classes
            found += _of_objectness(place, transposed, values - 5, input_size)
        if is_of_anchors:
            continue
        if classes in (None, values - 4) and values > 6:
            found += [
                _of_scores(place, transposed, values - 4, form, unit, input_size)
                for form, unit in product((CENTRES, CORNERS), (PX, FRACTION))
            ]
        elif (
            classes == values - 4
        ):  # five and six values may also be boxes with a score, see `objects`
            found.append(_of_scores(place, transposed, classes, CENTRES, PX, input_size))
        if values < 6 or classes not in (None, values - 5):
            continue
        strides = next(
            (
                known
                for known in (STRIDES, LARGE_STRIDES)
                if boxes == _cell_count(input_size, known)
            ),
            None,
        )
        if strides and not transposed:
            found.append(
                Head(
                    'yolox',
                    values - 5,
                    partial(
                        _from_cells,
                        place=place,
                        transposed=transposed,
                        grid=cell_corners(input_size, strides),
                    ),
                    True,
                    usual=_YOLOX,
                )
            )
        if not transposed:  # nobody exports these with boxes as columns
            found += _of_objectness(place, transposed, values - 5, input_size)
    return found


def _of_objectness(
    place: int, transposed: bool, labels: int, input_size: tuple[int, int]
) -> list[Head]:
    found = []
    for unit in (PX, FRACTION):
        decode = partial(
            _with_objectness, place=place, transposed=transposed, unit=unit, input_size=input_size
        )
        found.append(Head(f'yolov5 {unit}', labels, decode, True, usual=ULTRALYTICS))
    return found


def _of_scores(
    place: int, transposed: bool, labels: int, form: str, unit: str, input_size: tuple[int, int]
) -> Head:
    name = f'yolov8 {unit}' if form == CENTRES else f'yolov8 {form} {unit}'
    decode = partial(
        _plain, place=place, transposed=transposed, form=form, unit=unit, input_size=input_size
    )
    return Head(name, labels, decode, True, usual=ULTRALYTICS)


def _cell_count(input_size: tuple[int, int], strides: Sequence[int]) -> int:
    return sum(int(np.prod(cells(input_size, stride))) for stride in strides)


def _rows(values: Sequence[np.ndarray], place: int, transposed: bool) -> np.ndarray:
    """`[N, values of a box]`."""
    rows = values[place].reshape(values[place].shape[-2:])
    return rows.T if transposed else rows


def _plain(
    values: Sequence[np.ndarray],
    *,
    place: int,
    transposed: bool,
    form: str,
    unit: str,
    input_size: tuple[int, int],
) -> Objects:
    rows = _rows(values, place, transposed)
    kept, scores, labels = best_classes(rows[:, 4:])
    return Objects(to_corners(rows[kept, :4], form, unit, input_size), scores, labels)


def _with_objectness(
    values: Sequence[np.ndarray],
    *,
    place: int,
    transposed: bool,
    unit: str,
    input_size: tuple[int, int],
) -> Objects:
    rows = _rows(values, place, transposed)
    kept, scores, labels = best_classes(rows[:, 5:], rows[:, 4])
    return Objects(to_corners(rows[kept, :4], CENTRES, unit, input_size), scores, labels)


def _from_cells(
    values: Sequence[np.ndarray],
    *,
    place: int,
    transposed: bool,
    grid: tuple[np.ndarray, np.ndarray],
) -> Objects:
    rows = _rows(values, place, transposed)
    kept, scores, labels = best_classes(rows[:, 5:], rows[:, 4])
    places, strides = grid[0][kept], grid[1][kept, None]
    boxes = np.concatenate(
        ((rows[kept, :2] + places) * strides, np.exp(rows[kept, 2:4].clip(max=20.0)) * strides), 1
    )
    return Objects(to_corners(boxes, CENTRES, PX, (1, 1)), scores, labels)


def _of_maps(
    outputs: Sequence[Output], classes: int | None, input_size: tuple[int, int]
) -> list[Head]:
    maps = [
        (place, output.shape)
        for place, output in enumerate(outputs)
        if len(output.shape) == 5 and output.shape[1] == len(COCO_ANCHORS_PX[0])
    ]
    maps.sort(key=lambda one: -(one[1][2] or 0))
    values = {shape[4] for _, shape in maps}
    if (
        len(maps) != len(STRIDES)
        or len(values) != 1
        or None in values
        or classes not in (None, min(values) - 5)
    ):
        return []
    if [shape[2:4] for _, shape in maps] != [cells(input_size, stride) for stride in STRIDES]:
        return []
    return [
        Head(
            'maps',
            min(values) - 5,
            partial(_from_maps, places=[place for place, _ in maps]),
            True,
            usual=ULTRALYTICS,
        )
    ]


def _from_maps(values: Sequence[np.ndarray], *, places: Sequence[int]) -> Objects:
    """YOLOv5's decoding: centres within 1.5 cells, sizes up to four times the anchor's."""
    parts = []
    for place, stride, anchors in zip(places, STRIDES, COCO_ANCHORS_PX):
        given = values[place]
        rows, columns = given.shape[2:4]
        y, x = np.mgrid[:rows, :columns]
        cell = np.tile(np.stack((x.ravel(), y.ravel()), 1), (len(anchors), 1)).astype(np.float32)
        sizes = np.repeat(np.float32(anchors), rows * columns, 0)
        said = sigmoid(given.reshape(-1, given.shape[4]))
        kept, scores, labels = best_classes(said[:, 5:], said[:, 4])
        centres = (2.0 * said[kept, :2] - 0.5 + cell[kept]) * stride
        boxes = np.concatenate((centres, (2.0 * said[kept, 2:4]) ** 2 * sizes[kept]), 1)
        parts.append((to_corners(boxes, CENTRES, PX, (1, 1)), scores, labels))
    return Objects(*(np.concatenate(column) for column in zip(*parts)))
