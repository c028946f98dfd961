"""What the outputs of an exported detector mean: recognised by their shapes and names, and turned into objects.

Four forms are known. `yolov8` (also v9, v11): `[1, 4 + C, N]`, box centre and size, then a score per class. `yolov5`
(also v7): `[1, N, 5 + C]`, the same with a score of being an object before those of the classes. `detections` (exports
with suppression inside, YOLOv10): `[1, N, 6]`, corners, score, label. `boxes`: separate outputs for boxes `[N, 4]`
(corners), scores `[N]` and labels `[N]`, as torchvision's and others' exports give them. Boxes are in px of the model's
input. The first two pass through non-maximum suppression here.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from deadline_perception.model_set.whole_detector import ModelError

FORMS = ('yolov8', 'yolov5', 'detections', 'boxes')
MIN_SCORE = 0.01  # of what is suppressed and kept; the node's own limit lies above
MAX_IOU = 0.6  # between objects of one class
MAX_CANDIDATES, MAX_OBJECTS = 1000, 300
_PARTS = {'boxes': ('box',), 'scores': ('score', 'conf', 'prob'), 'labels': ('label', 'class', 'cls')}
_CORNERS_SCORE_LABEL = 6


@dataclass(frozen=True)
class Output:
    """One output of a file.

    Attributes:
        name: in the file.
        shape: sizes, None where the file leaves one open.
        is_integer: its values are whole numbers.
    """

    name: str
    shape: tuple[int | None, ...]
    is_integer: bool = False

    def __str__(self) -> str:
        return f'{self.name} [{", ".join("?" if size is None else str(size) for size in self.shape)}]'

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """Its shape without dimensions of 1 before the last two, or without the first of a batch of 1."""
        shape = self.shape
        while len(shape) > 2 and shape[0] == 1:
            shape = shape[1:]
        return shape


@dataclass(frozen=True)
class OutputForm:
    """How outputs are read.

    Attributes:
        form: one of `FORMS`.
        places: indices of the outputs that are read: one; or those of boxes, scores and labels.
        by_rows: of a YOLO head, whether a row (and not a column) is one box.
    """

    form: str
    places: tuple[int, ...]
    by_rows: bool = True


def recognise(outputs: Sequence[Output], classes: int, stated: str = '') -> OutputForm:
    """How the outputs of a file are to be read.

    Args:
        outputs: in the order of the file.
        classes: number of labels that the model gives.
        stated: form of `FORMS`, or empty where it is to be recognised.

    Raises:
        ModelError: no form fits, or several do; says what was found, and what would fit.
    """
    if stated and stated not in FORMS:
        raise ModelError(f'outputs are stated as {stated!r}, expected one of {", ".join(FORMS)}')
    found = [form for form in _fitting(outputs, classes) if stated in ('', form.form)]
    listed = '; '.join(map(str, outputs))
    if not found:
        raise ModelError(f'outputs are {listed}: with {classes} classes expected {_expected(classes, stated)}'
                         f'{_other_counts(outputs, classes)}')
    if len({form.form for form in found}) > 1:
        names = ' or '.join(dict.fromkeys(form.form for form in found))
        raise ModelError(f'outputs are {listed}, which with {classes} classes may be {names}: state which, with '
                         f'--outputs or as `outputs:` in the set file')
    return found[0]


def _fitting(outputs: Sequence[Output], classes: int) -> list[OutputForm]:
    found = []
    parts = _separate(outputs)
    if parts is not None:
        found.append(OutputForm('boxes', parts))
    for place, output in enumerate(outputs):
        if len(output.shape) != 3 or output.shape[0] not in (1, None):
            continue
        rows, columns = output.shape[1:]
        many = columns is None or columns > 4 + classes  # a head gives more boxes than a box has values
        if rows == 4 + classes and many:
            found.append(OutputForm('yolov8', (place,), by_rows=False))
        if columns == 4 + classes and (rows is None or rows > columns):
            found.append(OutputForm('yolov8', (place,)))
        if rows == 5 + classes and (columns is None or columns > rows):
            found.append(OutputForm('yolov5', (place,), by_rows=False))
        if columns == 5 + classes and (rows is None or rows > columns):
            found.append(OutputForm('yolov5', (place,)))
        if columns == _CORNERS_SCORE_LABEL:
            found.append(OutputForm('detections', (place,)))
    return found


def _separate(outputs: Sequence[Output]) -> tuple[int, int, int] | None:
    """Places of boxes, scores and labels, by name, else by shape and type; None where they are not there."""
    named = [[place for place, output in enumerate(outputs) if any(word in output.name.lower() for word in words)]
             for words in _PARTS.values()]
    if all(len(places) == 1 for places in named) and len({places[0] for places in named}) == 3:
        places = tuple(places[0] for places in named)
    elif len(outputs) == 3:
        boxes = [place for place, output in enumerate(outputs) if output.sizes[-1:] == (4,)]
        labels = [place for place, output in enumerate(outputs) if output.is_integer]
        if len(boxes) != 1 or len(labels) != 1 or boxes == labels:
            return None
        places = (boxes[0], ({0, 1, 2} - {boxes[0], labels[0]}).pop(), labels[0])
    else:
        return None
    return places if outputs[places[0]].sizes[-1:] in ((4,), (None,)) else None


def _expected(classes: int, stated: str) -> str:
    shapes = {'yolov8': f'[1, {4 + classes}, N] (YOLOv8, v11)', 'yolov5': f'[1, N, {5 + classes}] (YOLOv5, v7)',
              'detections': f'[1, N, {_CORNERS_SCORE_LABEL}] (corners, score, label)',
              'boxes': 'outputs for boxes [N, 4], scores [N] and labels [N]'}
    return shapes[stated] if stated else ', '.join(list(shapes.values())[:-1]) + f', or {shapes["boxes"]}'


def _other_counts(outputs: Sequence[Output], classes: int) -> str:
    """The numbers of classes that the outputs would have, as a hint."""
    counts = set()
    for output in outputs:
        known = [size for size in output.shape[1:] if size is not None] if len(output.shape) == 3 else []
        if known and min(known) > 4:
            counts |= {min(known) - 4, min(known) - 5} - {0, classes}
    if not counts:
        return ''
    return (f'. By their shape they are of {" or ".join(map(str, sorted(counts)))} classes: name as many, in the '
            f'model\'s order')


def objects(form: OutputForm, values: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Corners `[N, 4]` in px of the input, scores `[N]` and labels `[N]`.

    Args:
        form: how to read them.
        values: the outputs, in the order of the file.

    Raises:
        ModelError: the separate outputs differ in length.
    """
    if form.form == 'boxes':
        boxes, scores, labels = (values[place] for place in form.places)
        boxes, scores, labels = boxes.reshape(-1, 4), scores.reshape(-1), labels.reshape(-1)
        if not len(boxes) == len(scores) == len(labels):
            raise ModelError(f'the model gave {len(boxes)} boxes, {len(scores)} scores and {len(labels)} labels, '
                             f'expected as many of each')
        return boxes, scores, labels
    rows = values[form.places[0]][0]
    if form.form == 'detections':
        rows = rows[rows[:, 4] >= MIN_SCORE]
        return rows[:, :4], rows[:, 4], rows[:, 5]
    rows = rows if form.by_rows else rows.T
    scores = rows[:, 4:]
    if form.form == 'yolov5':
        rows = rows[rows[:, 4] >= MIN_SCORE]  # no class is more certain than that it is an object
        scores = rows[:, 5:] * rows[:, 4:5]
    labels = scores.argmax(1)
    best = scores[np.arange(len(scores)), labels]
    kept = np.flatnonzero(best >= MIN_SCORE)
    if len(kept) > MAX_CANDIDATES:
        kept = kept[np.argpartition(-best[kept], MAX_CANDIDATES)[:MAX_CANDIDATES]]
    centres, sizes, best, labels = rows[kept, :2], rows[kept, 2:4], best[kept], labels[kept]
    boxes = np.hstack([centres - sizes / 2, centres + sizes / 2])
    chosen = suppressed(boxes, best, labels)
    return boxes[chosen], best[chosen], labels[chosen]


def suppressed(boxes_xyxy: np.ndarray, scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Indices of the boxes that non-maximum suppression within each class keeps, most certain first."""
    if not len(boxes_xyxy):
        return np.zeros(0, np.intp)
    x_y_width_height = np.hstack([boxes_xyxy[:, :2], boxes_xyxy[:, 2:] - boxes_xyxy[:, :2]]).astype(np.float64)
    kept = cv2.dnn.NMSBoxesBatched(x_y_width_height, scores.astype(np.float32), labels.astype(np.int32), MIN_SCORE,
                                   MAX_IOU)
    kept = np.asarray(kept, np.intp).reshape(-1)
    return kept[np.argsort(-scores[kept], kind='stable')][:MAX_OBJECTS]
