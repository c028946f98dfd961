"""Heads with boxes `[1, N, 4]` and a score per class `[1, N, C]` in two outputs: DETR and its family before their own
selection, YOLO-NAS, YOLOv4, SSD before suppression.

`class_scores FORM UNIT SCORES [BACKGROUND]`, such as `class_scores centres fraction sigmoid`. A column that means
nothing is a background where it wins for most boxes (DETR, SSD), and an idle class of a sigmoid where it does not
(RF-DETR on classes of one's own): shapes do not tell these apart, outputs do, see `Head.fits`.
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
    PROBABILITY,
    PX,
    SIGMOID,
    SOFTMAX,
    Head,
    Objects,
    Output,
    best_classes,
    to_corners,
    to_probabilities,
)

NAMES = ('class_scores',)
_SCORE_WORDS = ('logit', 'score', 'class', 'cls', 'conf', 'label')
_NO_BACKGROUND, _FIRST, _LAST = '', 'background-first', 'background-last'
_NOTHING_AT = {_FIRST: 0, _LAST: -1}
_SCORES = (  # the likeliest first
    (SIGMOID, _NO_BACKGROUND),
    (PROBABILITY, _NO_BACKGROUND),
    (SOFTMAX, _LAST),
    (SOFTMAX, _FIRST),
    (PROBABILITY, _FIRST),
    (PROBABILITY, _LAST),
    (SIGMOID, _LAST),
    (SIGMOID, _FIRST),
)


def readings(
    outputs: Sequence[Output], classes: int | None, input_size: tuple[int, int]
) -> list[Head]:
    """The ways in which outputs may be read as such a head, the likeliest first."""
    pair = _pair(outputs)
    if pair is None:
        return []
    at_boxes, at_scores = pair
    columns = outputs[at_scores].sizes[-1]
    found = []
    forms = ((CENTRES, FRACTION), (CORNERS, PX), (CORNERS, FRACTION), (CENTRES, PX))
    for (form, unit), (scores, background) in product(forms, _SCORES):
        labels = columns - bool(background)
        if classes not in (None, labels):
            continue
        decode = partial(
            _decode,
            places=pair,
            form=form,
            unit=unit,
            scores=scores,
            background=background,
            input_size=input_size,
        )
        name = ' '.join(filter(None, ('class_scores', form, unit, scores, background)))
        column = _NOTHING_AT.get(background) if scores != SIGMOID else None
        found.append(Head(name, labels, decode, True, (at_scores,), scores, nothing_at=column))
    return found


def _pair(outputs: Sequence[Output]) -> tuple[int, int] | None:
    """Places of boxes and scores; None where there are none, or several."""
    boxes = [
        place
        for place, output in enumerate(outputs)
        if len(output.shape) in (3, 4)
        and output.shape[-1] == 4
        and not output.is_integer
        and (len(output.shape) == 3 or output.shape[2] == 1)
    ]
    if len(boxes) > 1:  # three classes and one for nothing have as many values as a box
        boxes = [
            place
            for place in boxes
            if not any(word in outputs[place].name.lower() for word in _SCORE_WORDS)
        ]
    scores = [
        place
        for place, output in enumerate(outputs)
        if len(output.shape) == 3
        and (output.shape[-1] or 0) > 1
        and place not in boxes
        and not output.is_integer
        and output.shape[1] not in (1,)
    ]
    same = [
        (box, score)
        for box, score in product(boxes, scores)
        if outputs[box].shape[1] == outputs[score].shape[1]
    ]
    return same[0] if len(same) == 1 else None


def _decode(
    values: Sequence[np.ndarray],
    *,
    places: tuple[int, int],
    form: str,
    unit: str,
    scores: str,
    background: str,
    input_size: tuple[int, int],
) -> Objects:
    boxes = values[places[0]].reshape(-1, 4)
    given = to_probabilities(values[places[1]].reshape(len(boxes), -1), scores)
    if background:
        given = given[:, 1:] if background == _FIRST else given[:, :-1]
    kept, best, labels = best_classes(given)
    return Objects(to_corners(boxes[kept], form, unit, input_size), best, labels)
