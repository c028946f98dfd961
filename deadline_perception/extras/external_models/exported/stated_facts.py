"""What an exported file says of itself: metadata of Ultralytics and LibreYOLO, in the file (ONNX), beside it
(`metadata.yaml` of OpenVINO IR) or at its end (TensorFlow Lite), and those of OpenVINO's Model API."""

from __future__ import annotations

import ast
import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deadline_perception.core.errors import printable
from deadline_perception.core.untrusted_file import (
    MOST_TEXT_BYTES,
    FileRefused,
    parse_json,
    read_bytes,
)
from deadline_perception.extras.external_models.exported.coco_names import COCO_NAMES
from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.exported.pixels import MOST_SIDE_PX
from deadline_perception.extras.plain_yaml import read_yaml

BESIDE = 'metadata.yaml'  # of Ultralytics' OpenVINO IR
_AT_END = 'metadata.json'  # of its TensorFlow Lite files, which are an archive behind the network
_MOST_BYTES = 2**30
_USUAL_STRIDE_PX, _MOST_STRIDE_PX = 32, 256
_UNREADABLE = (ValueError, TypeError, SyntaxError, MemoryError, RecursionError)
_MOST_NAMES = 10_000


@dataclass(frozen=True)
class StatedFacts:
    """What a file says of itself.

    Attributes:
        class_names: by label, `class_N` for one without a name; empty where it does not say.
        size: height and width in px that it was made for; None where it does not say.
        stride_px: that sizes are multiples of; a usual one where it does not say.
        outputs: begin of the reading of its outputs, see `families.recognise`; empty where it does not say.
    """

    class_names: tuple[str, ...] = ()
    size: tuple[int, int] | None = None
    stride_px: int = _USUAL_STRIDE_PX
    outputs: str = ''


def read_stated(model, file: Path) -> StatedFacts:
    """What a file says of itself; what is no such text counts as unsaid.

    Args:
        model: of OpenVINO.
        file: that it was read from.

    Raises:
        ModelError: it says that it is no detector.
    """
    facts = {**_near(file), **_inside(model)}
    task = facts.get('task', 'detect')
    if task not in ('detect', 'detection', ''):
        raise ModelError(
            f'{file} says that its task is {printable(task, 30)!r}, expected detect: export a detector'
        )
    stride = _value(facts.get('stride'))
    is_stride = type(stride) is int and 1 <= stride <= _MOST_STRIDE_PX
    arguments = _value(facts.get('args'))
    has_suppression = isinstance(arguments, Mapping) and arguments.get('nms') is True
    outputs = ''
    if has_suppression or _value(facts.get('end2end')) is True:
        outputs = 'detections'
    elif file.suffix.lower() == '.tflite' and facts.get('head') == 'Detect':
        outputs = 'yolov8 fraction'  # Ultralytics 8.4 divides boxes by the size there, which the shapes do not tell
    size = _value(facts.get('imgsz'))
    if type(size) is int:  # LibreYOLO
        size = [_value(facts.get(name, size)) for name in ('imgsz_h', 'imgsz_w')]
    return StatedFacts(
        _class_names(facts), _size(size), stride if is_stride else _USUAL_STRIDE_PX, outputs
    )


def _inside(model) -> dict[str, object]:
    """As OpenVINO passes it on, by name."""
    found = {}
    for section in ('framework', 'model_info'):
        if not model.has_rt_info([section]):
            continue
        for key in model.get_rt_info()[section]:
            value = model.get_rt_info([section, key]).value
            if isinstance(value, (str, int, float)) and len(str(value)) <= MOST_TEXT_BYTES:
                found[str(key)] = str(value)
    return found


def _near(file: Path) -> dict[str, object]:
    """Beside the file, or at its end."""
    content: object = None
    try:
        if file.suffix.lower() == '.xml' and (file.parent / BESIDE).is_file():
            content = read_yaml(file.parent / BESIDE)
        elif file.suffix.lower() == '.tflite':
            content = _at_end(read_bytes(file, _MOST_BYTES))
    except (OSError, FileRefused, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError):
        return {}  # RuntimeError: of an encrypted member, or a way of compression that is not known
    return {str(key): value for key, value in content.items()} if isinstance(content, dict) else {}


def _at_end(content: bytes) -> object:
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return None
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if _AT_END not in archive.namelist():
            return None
        with archive.open(_AT_END) as stream:
            text = stream.read(MOST_TEXT_BYTES + 1)
    return parse_json(text.decode('utf-8', 'replace')) if len(text) <= MOST_TEXT_BYTES else None


def _value(given: object) -> object:
    """A value that may be written as Python's text of it; None where it is none."""
    if not isinstance(given, str):
        return given
    try:
        return ast.literal_eval(given)
    except _UNREADABLE:
        return None


def _class_names(facts: Mapping[str, object]) -> tuple[str, ...]:
    """Names as Ultralytics writes them (`{0: 'person', ...}`), or OpenVINO's Model API (`person traffic_light`)."""
    names = _value(facts.get('names'))
    if names:
        return _usable(names_by_number(names) if isinstance(names, Mapping) else names)
    words = facts.get('labels')
    listed = _usable(words.split()) if isinstance(words, str) else ()
    is_coco = listed == tuple(name.replace(' ', '_') for name in COCO_NAMES)
    return COCO_NAMES if is_coco else listed


def names_by_number(names: Mapping[object, object]) -> list[object]:
    """Names in the order of their labels, whatever that of the text; empty where the keys are no labels."""
    by_label = {_label(key): name for key, name in names.items()}
    if not by_label or None in by_label or len(by_label) < len(names):
        return []
    return [by_label.get(label, unnamed(label)) for label in range(max(by_label) + 1)]


def _label(key: object) -> int | None:
    """The number that a key says; None of one that is no label. Python makes no text of very long numbers, nor back."""
    is_short = isinstance(key, str) and len(key) <= len(str(_MOST_NAMES))
    label = int(key) if is_short and key.isascii() and key.isdecimal() else key
    return label if type(label) is int and 0 <= label < _MOST_NAMES else None


def unnamed(label: int) -> str:
    """What a class is called that has no name."""
    return f'class_{label}'


def _usable(names: object) -> tuple[str, ...]:
    if not isinstance(names, (list, tuple)) or not all(map(_is_name, names)):
        return ()
    return tuple(names) if len(set(names)) == len(names) else ()


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.isprintable() and 1 <= len(name) <= 100


def _size(size: object) -> tuple[int, int] | None:
    fits = isinstance(size, (list, tuple)) and len(size) == 2
    if not fits or not all(type(side) is int and 1 <= side <= MOST_SIDE_PX for side in size):
        return None
    return tuple(size)
