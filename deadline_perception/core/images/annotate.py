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
# The strip is drawn at this size, and brought to the image's width.
_STRIP_PX = 124, 1280
_LEFT_PX = 20  # of what is in it
_RIGHT_PX = 1260
_BASELINE_PX = 34
_WORDS_SIZE = 0.84
_BAR_PX = 46, 62  # top and bottom
_MARKS_PX = 41, 67
_CHIPS_PX = 78, 110
_GAP_PX = 8
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
    picture = image_bgr.copy()
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
    strip = np.full((*_STRIP_PX, 3), _PAPER, np.uint8)
    _timing(strip, budget_ms, bound_ms, latency_ms, outcome, met)
    _chips(strip, path_chips(path, operators))
    strip_px = max(1, round(width * _STRIP_PX[0] / _STRIP_PX[1]))
    return np.vstack([picture, cv2.resize(strip, (width, strip_px), interpolation=cv2.INTER_AREA)])


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
    thickness: int = 2,
) -> int:
    """Writes text with its lower left corner at (x, y); returns its width."""
    cv2.putText(canvas, text, (x, y), _FONT, size, colour, thickness, cv2.LINE_AA)
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
            _put(picture, text, left + pad, y + height - pad, size, _PAPER, 1)
            return


def _overlap(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _timing(
    strip: np.ndarray,
    budget_ms: float,
    bound_ms: float,
    latency_ms: float,
    outcome: str,
    met: bool,
) -> None:
    """The budget bar with its numbers, and the outcome at the right."""
    colour = _GOOD if met else _LATE
    word = f'{outcome.replace("_", " ")}{"" if met else ", missed"}'.strip(' ,')
    x = _RIGHT_PX - _text_size(word, _WORDS_SIZE)[0]
    _put(strip, word, x, _BASELINE_PX, _WORDS_SIZE, colour)
    taken = f'{latency_ms:.0f}' if math.isfinite(latency_ms) else '-'
    has_budget = 0.0 < budget_ms < math.inf
    words = f'{taken} of {budget_ms:.0f} ms' if has_budget else f'{taken} ms'
    x = 2 * _LEFT_PX + _put(strip, words, _LEFT_PX, _BASELINE_PX, _WORDS_SIZE, _INK)
    if not has_budget:
        return

    def at(time_ms: float) -> int:
        share = np.clip(time_ms / budget_ms / _BAR_REACH, 0.0, 1.0)
        return _LEFT_PX + round((_RIGHT_PX - _LEFT_PX) * float(share))

    def fill(begin: int, end: int, shade: Colour) -> None:
        top, bottom = _BAR_PX
        cv2.rectangle(strip, (begin, top), (end, bottom), shade, cv2.FILLED)

    fill(_LEFT_PX, _RIGHT_PX, (62, 56, 52))
    fill(at(budget_ms), _RIGHT_PX, (52, 44, 84))
    if math.isfinite(latency_ms) and latency_ms > 0:
        fill(_LEFT_PX, at(latency_ms), colour)
    top, bottom = _MARKS_PX
    cv2.line(strip, (at(budget_ms), top), (at(budget_ms), bottom), _INK, 4)
    if math.isfinite(bound_ms):
        _put(strip, f'bound {bound_ms:.0f}', x, _BASELINE_PX, _WORDS_SIZE, _BOUND)
        cv2.line(strip, (at(bound_ms), top), (at(bound_ms), bottom), _BOUND, 4)


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


def _chips(strip: np.ndarray, chips: list[tuple[str, float]]) -> None:
    """One chip per operator, filled from the left by how large its setting is; the smallest is hollow. Many are small."""
    size = 0.68
    wanted = sum(_text_size(text, size)[0] for text, _ in chips)
    room = _RIGHT_PX - _LEFT_PX - 4 * _GAP_PX * len(chips)
    size *= min(1.0, max(0.4, room / max(1, wanted)))
    top, bottom = _CHIPS_PX
    x = _LEFT_PX
    for text, share in chips:
        width, height = _text_size(text, size)
        right = x + width + 3 * _GAP_PX
        filled = 1.0 if math.isnan(share) else share
        ink, rim = (_INK, (130, 110, 90)) if filled > 0 else (_MUTED, (75, 70, 66))
        if filled > 0:
            end = x + round((right - x) * filled)
            cv2.rectangle(strip, (x, top), (end, bottom), (110, 84, 50), cv2.FILLED)
        cv2.rectangle(strip, (x, top), (right, bottom), rim, 2)
        _put(strip, text, x + 3 * _GAP_PX // 2, (top + bottom + height) // 2, size, ink)
        x = right + _GAP_PX
