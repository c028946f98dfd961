"""Draws on an image what the detector found, which path it took, and how its time compares with the budget."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence

import numpy as np

from deadline_perception.core.detections import Detections
from deadline_perception.core.opencv import cv2
from deadline_perception.core.operator_record import OperatorRecord

Colour = tuple[int, int, int]
# BGR; names for the same thing share one, other names get one of `_OTHER_COLOURS` by their letters.
_COLOURS: tuple[tuple[Colour, str], ...] = (
    ((230, 159, 60), 'vehicle car'),
    ((115, 190, 40), 'bike bicycle'),
    ((200, 120, 215), 'motorbike motorcycle motor'),
    ((60, 190, 250), 'traffic_light'),
    ((80, 110, 245), 'traffic_sign'),
    ((225, 225, 60), 'person pedestrian'),
    ((170, 90, 250), 'rider'),
    ((240, 110, 120), 'truck'),
    ((60, 240, 200), 'bus'),
    ((130, 150, 175), 'train'),
)
CLASS_COLOURS = {name: colour for colour, names in _COLOURS for name in names.split()}
_OTHER_COLOURS = 720  # 180 hues, each bright or dark and full or pale
_INK = (245, 245, 245)
_PAPER = (28, 24, 22)
_MUTED = (165, 160, 155)
_GOOD = (120, 200, 80)
_LATE = (70, 80, 240)
_BOUND = (60, 200, 250)
_FONT = cv2.FONT_HERSHEY_SIMPLEX
_REFERENCE_HEIGHT_PX = 480
_BAR_REACH = 1.25  # the bar ends at this multiple of the budget, so that a miss is seen


def class_colour(name: str) -> Colour:
    """Colour of a class, BGR, by its name alone, so that it is the same in every picture, node and run."""
    known = CLASS_COLOURS.get(name.replace(' ', '_'))
    if known:
        return known
    number = zlib.crc32(name.encode()) % _OTHER_COLOURS
    hsv = [[[number % 180, (230, 120)[number // 180 % 2], (250, 170)[number // 360]]]]
    return tuple(cv2.cvtColor(np.array(hsv, np.uint8), cv2.COLOR_HSV2BGR)[0, 0].tolist())


def class_name(label: int, class_names: Sequence[str]) -> str:
    """Name of a label; its number when it lies beyond the names."""
    return class_names[label] if label < len(class_names) else f'class {label}'


def annotate(
    image_bgr: np.ndarray,
    detections: Detections,
    class_names: Sequence[str],
    *,
    budget_ms: float = math.nan,
    bound_ms: float = math.nan,
    latency_ms: float = math.nan,
    path: str = '',
    operators: Sequence[OperatorRecord] = (),
    outcome: str = '',
    met: bool = True,
) -> np.ndarray:
    """A copy of the image with boxes drawn and, below it, a strip with the time and the path.

    Args:
        image_bgr: uint8 `[H, W, 3]`.
        detections: boxes with class and score.
        class_names: names that the labels index; a label beyond them is shown by its number.
        budget_ms: longest allowed time, the full scale of the bar; NaN: no bar.
        bound_ms: predicted bound on the same clock, a mark on the bar; NaN: no mark.
        latency_ms: time the frame took; NaN: not known.
        path: name of the execution path, shown where the operators are not known.
        operators: what they were set to, shown as one chip each.
        outcome: what became of the frame, such as `detected`.
        met: the deadline was met; colours bar and outcome.

    Returns:
        uint8 `[H + strip, W, 3]`.
    """
    height, width = image_bgr.shape[:2]
    scale = min(2.5, max(0.8, height / _REFERENCE_HEIGHT_PX))
    strip_px = round(62 * scale)
    canvas = np.empty((height + strip_px, width, 3), np.uint8)
    canvas[:height] = image_bgr
    canvas[height:] = _PAPER
    picture = canvas[:height]
    boxes = [_corners(box) for box in detections.boxes_xyxy_px]
    names = [class_name(label, class_names) for label in detections.labels.tolist()]
    order = np.argsort(-detections.scores, kind='stable').tolist()
    for index in reversed(order):  # the most certain on top
        _box(picture, boxes[index], class_colour(names[index]), scale)
    taken = list(boxes)  # words hide no object
    ids = [f' #{track}' if track > 0 else '' for track in detections.ids.tolist()]
    for index in order:  # the most certain choose their place first
        _tag(
            picture,
            boxes[index],
            f'{names[index].replace("_", " ")} {detections.scores[index]:.2f}{ids[index]}',
            class_colour(names[index]),
            scale,
            taken,
        )
    strip = canvas[height:]
    _timing(strip, scale, budget_ms, bound_ms, latency_ms, outcome, met)
    _chips(strip, scale, path_chips(path, operators))
    return canvas


def _text_size(text: str, size: float) -> tuple[int, int]:
    (width, height), _ = cv2.getTextSize(text, _FONT, size, 1)
    return width, height


def _put(
    canvas: np.ndarray,
    text: str,
    x: int,
    y: int,
    size: float,
    colour: Colour,
) -> int:
    """Writes text with its lower left corner at (x, y); returns its width."""
    cv2.putText(canvas, text, (x, y), _FONT, size, colour, 1, cv2.LINE_AA)
    return _text_size(text, size)[0]


def _corners(box: np.ndarray) -> tuple[int, ...]:
    return tuple(round(min(max(value, -32000.0), 32000.0)) for value in box.tolist())


def _box(
    picture: np.ndarray,
    box: tuple[int, int, int, int],
    colour: Colour,
    scale: float,
) -> None:
    thickness = max(2, round(1.6 * scale))
    cv2.rectangle(picture, box[:2], box[2:], _PAPER, thickness + 2)  # a rim, for bright backgrounds
    cv2.rectangle(picture, box[:2], box[2:], colour, thickness)


def _tag(
    picture: np.ndarray,
    box: tuple[int, int, int, int],
    text: str,
    colour: Colour,
    scale: float,
    taken: list[tuple[int, ...]],
) -> None:
    """Writes the text at the first free place above, below or inside the box; nowhere when all are taken."""
    size = 0.38 * scale
    pad = max(2, round(2.5 * scale))
    text_width, text_height = _text_size(text, size)
    width = text_width + 2 * pad
    height = text_height + 2 * pad
    x0, y0, x1, y1 = box
    for x, y in (
        (x0, y0 - height),
        (x1 - width, y0 - height),
        (x0, y1),
        (x1 - width, y1),
        (x0, y1 - height),
        (x0, y0),
    ):
        left = max(0, min(x, picture.shape[1] - width))
        place = (left, y, left + width, y + height)
        if 0 <= y <= picture.shape[0] - height and not any(
            other is not box and _overlap(place, other) for other in taken
        ):
            taken.append(place)
            cv2.rectangle(picture, place[:2], place[2:], colour, cv2.FILLED)
            _put(picture, text, left + pad, y + height - pad, size, _PAPER)
            return


def _overlap(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _timing(
    strip: np.ndarray,
    scale: float,
    budget_ms: float,
    bound_ms: float,
    latency_ms: float,
    outcome: str,
    met: bool,
) -> None:
    """The budget bar with its numbers, and the outcome at the right."""
    inset = round(10 * scale)
    size = 0.42 * scale
    colour = _GOOD if met else _LATE
    word = f'{outcome.replace("_", " ")}{"" if met else ", missed"}'.strip(' ,')
    word_width = _text_size(word, size)[0]
    baseline = round(17 * scale)
    _put(strip, word, strip.shape[1] - inset - word_width, baseline, size, colour)
    taken = f'{latency_ms:.0f}' if math.isfinite(latency_ms) else '-'
    if not 0.0 < budget_ms < math.inf:
        _put(strip, f'{taken} ms', inset, baseline, size, _INK)
        return
    x = inset + _put(strip, f'{taken} of {budget_ms:.0f} ms', inset, baseline, size, _INK) + inset
    if math.isfinite(bound_ms):
        _put(strip, f'bound {bound_ms:.0f}', x, baseline, size, _BOUND)
    left = inset
    right = strip.shape[1] - inset
    top = round(23 * scale)
    bottom = round(31 * scale)

    def at(time_ms: float) -> int:
        return left + round((right - left) * min(max(time_ms / budget_ms / _BAR_REACH, 0.0), 1.0))

    cv2.rectangle(strip, (left, top), (right, bottom), (62, 56, 52), cv2.FILLED)
    cv2.rectangle(strip, (at(budget_ms), top), (right, bottom), (52, 44, 84), cv2.FILLED)
    if math.isfinite(latency_ms) and latency_ms > 0:
        cv2.rectangle(strip, (left, top), (at(latency_ms), bottom), colour, cv2.FILLED)
    overhang = max(2, round(2.5 * scale))
    thickness = max(2, round(2 * scale))
    for time_ms, mark in ((budget_ms, _INK), (bound_ms, _BOUND)):
        if math.isfinite(time_ms):
            cv2.line(
                strip,
                (at(time_ms), top - overhang),
                (at(time_ms), bottom + overhang),
                mark,
                thickness,
            )


def path_chips(path: str, operators: Sequence[OperatorRecord]) -> list[tuple[str, float]]:
    """Label and share of full work, in [0, 1], of each operator; one entry for a path of unknown operators."""
    if not operators:
        return [(path, math.nan)] if path else []
    return [
        (
            f'{operator.name.replace("_", " ")} {operator.setting}',
            operator.level / (operator.levels - 1) if operator.levels > 1 else 1.0,
        )
        for operator in operators
    ]


def _chips(strip: np.ndarray, scale: float, chips: list[tuple[str, float]]) -> None:
    """One chip per operator, filled from the left by how large its setting is; the smallest is hollow. Many are small."""
    inset = round(10 * scale)
    gap = max(2, round(4 * scale))
    size = 0.34 * scale

    wanted = sum(_text_size(text, size)[0] for text, _ in chips)
    room = strip.shape[1] - 2 * inset - 4 * gap * len(chips)
    size *= min(1.0, max(0.4, room / max(1, wanted)))
    x = inset
    top = round(39 * scale)
    bottom = round(55 * scale)
    for text, share in chips:
        width, height = _text_size(text, size)
        right = x + width + 3 * gap
        filled = 1.0 if math.isnan(share) else share
        if filled > 0:
            cv2.rectangle(
                strip,
                (x, top),
                (x + round((right - x) * filled), bottom),
                (110, 84, 50),
                cv2.FILLED,
            )
        cv2.rectangle(
            strip, (x, top), (right, bottom), (130, 110, 90) if filled > 0 else (75, 70, 66), 1
        )
        _put(
            strip,
            text,
            x + gap + gap // 2,
            (top + bottom + height) // 2,
            size,
            _INK if filled > 0 else _MUTED,
        )
        x = right + gap
