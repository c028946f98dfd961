"""Heads that end with objects: suppression, if any, has happened in the file.

- `boxes`: outputs for boxes `[N, 4]`, scores `[N]` and labels `[N]` (torchvision, DEIM, D-FINE, RT-DETR), or boxes with
  a score `[N, 5]` and labels `[N]` (MMDetection, Open Model Zoo). A fourth, whose name begins with `num`, tells how many
  rows are filled (TensorRT's suppression, YOLO-NAS, TensorFlow).
- `detections`: `[1, N, 6]`, corners, score, label (YOLOv10, YOLO26, exports with suppression inside), label, score,
  corners (PaddleDetection), centre, size, score, label (RT-DETR of Ultralytics), or `[N, 7]` with the number of the
  image first (YOLOv7's).
- `ssd`: `DetectionOutput` `[1, 1, N, 7]`: image, label, score, corners from 0 to 1; a negative image ends the list.
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
    INTEL,
    MIN_SCORE,
    PLAIN,
    PX,
    ROWS_FIRST,
    ULTRALYTICS,
    Head,
    Objects,
    Output,
    to_corners,
)
from deadline_perception.extras.external_models.exported.model_error import ModelError

NAMES = ('boxes', 'detections', 'ssd')
_PARTS = {
    'boxes': ('box', 'dets'),
    'scores': ('score', 'conf', 'prob'),
    'labels': ('label', 'class', 'cls'),
}
# Of TensorFlow's Object Detection API (Huang et al. 2017), whose boxes are top, left, bottom, right as fractions; an
# export may also give them before suppression.
_TENSORFLOW = ('detection_boxes', 'detection_scores', 'detection_classes')
_COUNT = 'num'
# Columns of score, label and the first of a box, in rows of objects.
_ORDERS = {
    6: {'': (4, 5, 0), 'label-first': (1, 0, 2), CENTRES: (4, 5, 0)},
    7: {'image-first': (6, 5, 1)},
}


def readings(
    outputs: Sequence[Output], classes: int | None, input_size: tuple[int, int]
) -> list[Head]:
    """The ways in which outputs may be read as one of these heads, the likeliest first."""
    return _of_parts(outputs, input_size) + _of_rows(outputs, input_size)


def _of_parts(outputs: Sequence[Output], input_size: tuple[int, int]) -> list[Head]:
    parts = _separate(outputs)
    if parts is None:
        return []
    usual = INTEL if parts[1] is None else PLAIN
    counts = [
        place for place, output in enumerate(outputs) if output.name.lower().startswith(_COUNT)
    ]
    at_count = counts[0] if len(counts) == 1 else None
    forms = [*product((CORNERS, CENTRES, ROWS_FIRST), (PX, FRACTION))]
    if parts == _tensorflow(outputs):
        forms.sort(key=lambda form: form != (ROWS_FIRST, FRACTION))
    return [
        Head(
            f'boxes {form} {unit}',
            None,
            partial(
                _from_parts,
                places=parts,
                at_count=at_count,
                form=form,
                unit=unit,
                input_size=input_size,
            ),
            usual=usual,
        )
        for form, unit in forms
    ]


def _tensorflow(outputs: Sequence[Output]) -> tuple[int, int, int] | None:
    """Places of TensorFlow's boxes, scores and labels; None where they are not there."""
    names = [output.name.partition(':')[0] for output in outputs]
    if not set(_TENSORFLOW) <= set(names):
        return None
    at_boxes, at_scores, at_labels = map(names.index, _TENSORFLOW)
    return at_boxes, at_scores, at_labels


def _separate(outputs: Sequence[Output]) -> tuple[int, int | None, int] | None:
    """Places of boxes, scores and labels, by name, else by shape and type; None where they are not there.

    The scores have no place of their own where they are the fifth value of the boxes."""
    known = _tensorflow(outputs)
    if known is not None:
        return known
    given = [
        (place, output)
        for place, output in enumerate(outputs)
        if not output.name.lower().startswith(_COUNT)
    ]
    with_score = [place for place, output in given if output.sizes[-1:] == (5,)]
    if len(with_score) == 1:
        labels = [
            place
            for place, output in given
            if len(output.shape) <= 2 and (output.is_integer or 'label' in output.name.lower())
        ]
        return (with_score[0], None, labels[0]) if len(labels) == 1 else None
    named = [
        [place for place, output in given if any(word in output.name.lower() for word in words)]
        for words in _PARTS.values()
    ]
    if all(len(places) == 1 for places in named) and len({places[0] for places in named}) == 3:
        places = tuple(places[0] for places in named)
    elif len(given) == 3:
        boxes = [place for place, output in given if output.sizes[-1:] == (4,)]
        labels = [place for place, output in given if output.is_integer]
        if len(boxes) != 1 or len(labels) != 1 or boxes == labels:
            return None
        (at_scores,) = {place for place, _ in given} - {boxes[0], labels[0]}
        places = (boxes[0], at_scores, labels[0])
    else:
        return None
    one_score = (
        len(outputs[places[1]].sizes) < 2
        or outputs[places[1]].sizes[0] in (1, None)
        or outputs[places[1]].sizes[-1] == 1
    )
    return places if outputs[places[0]].sizes[-1:] in ((4,), (None,)) and one_score else None


def _from_parts(
    values: Sequence[np.ndarray],
    *,
    places: tuple[int, int | None, int],
    at_count: int | None,
    form: str,
    unit: str,
    input_size: tuple[int, int],
) -> Objects:
    at_boxes, at_scores, at_labels = places
    boxes = values[at_boxes].reshape(-1, values[at_boxes].shape[-1])
    scores = boxes[:, 4] if at_scores is None else values[at_scores].reshape(-1)
    labels = values[at_labels].reshape(-1)
    if not len(boxes) == len(scores) == len(labels):
        raise ModelError(
            f'the model gave {len(boxes)} boxes, {len(scores)} scores and {len(labels)} labels, '
            f'expected as many of each'
        )
    filled = slice(None if at_count is None else max(0, int(values[at_count].reshape(-1)[0])))
    return _kept(
        to_corners(boxes[filled, :4], form, unit, input_size), scores[filled], labels[filled]
    )


def _of_rows(outputs: Sequence[Output], input_size: tuple[int, int]) -> list[Head]:
    found = []
    for place, output in enumerate(outputs):
        if len(output.shape) == 4 and output.shape[:2] == (1, 1) and output.shape[3] == 7:
            found.append(
                Head(
                    'ssd', None, partial(_from_ssd, place=place, input_size=input_size), usual=INTEL
                )
            )
        elif len(output.shape) in (2, 3) and (
            len(output.shape) == 2 or output.shape[0] in (1, None)
        ):
            columns = output.shape[-1]
            found += [
                Head(
                    ' '.join(filter(None, ('detections', order, unit))),
                    None,
                    partial(
                        _from_rows,
                        place=place,
                        columns=at,
                        form=CENTRES if order == CENTRES else CORNERS,
                        unit=unit,
                        input_size=input_size,
                    ),
                    usual=ULTRALYTICS,
                )
                for order, at in _ORDERS.get(columns, {}).items()
                for unit in (PX, FRACTION)
            ]
    return found


def _from_rows(
    values: Sequence[np.ndarray],
    *,
    place: int,
    columns: tuple[int, int, int],
    form: str,
    unit: str,
    input_size: tuple[int, int],
) -> Objects:
    rows = values[place].reshape(-1, values[place].shape[-1])
    score, label, box = columns
    return _kept(
        to_corners(rows[:, box : box + 4], form, unit, input_size), rows[:, score], rows[:, label]
    )


def _from_ssd(values: Sequence[np.ndarray], *, place: int, input_size: tuple[int, int]) -> Objects:
    rows = values[place].reshape(-1, 7)
    ended = np.flatnonzero(rows[:, 0] < 0)
    rows = rows[: ended[0]] if len(ended) else rows
    return _kept(to_corners(rows[:, 3:], CORNERS, FRACTION, input_size), rows[:, 2], rows[:, 1])


def _kept(boxes: np.ndarray, scores: np.ndarray, labels: np.ndarray) -> Objects:
    kept = np.flatnonzero(scores >= MIN_SCORE)
    return Objects(boxes[kept], scores[kept], labels[kept].astype(np.int64))
