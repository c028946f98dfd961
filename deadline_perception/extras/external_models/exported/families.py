"""Which families of heads are known, and which of them the outputs of a file may be."""

from __future__ import annotations

from collections.abc import Sequence

from deadline_perception.extras.external_models.exported import (
    cells,
    class_scores,
    distribution,
    objects,
    yolo,
)
from deadline_perception.extras.external_models.exported.coco_names import COCO_LABELS
from deadline_perception.extras.external_models.exported.head import Head, Output
from deadline_perception.extras.external_models.exported.model_error import ModelError

# A new family is a file with `NAMES` and `readings`, and its place here. A reading of an earlier one is the likelier.
# Boxes and scores in two outputs of one length come before what one of these may be alone.
FAMILIES = (distribution, class_scores, yolo, objects, cells)
NAMES = tuple(name for family in FAMILIES for name in family.NAMES)
_MOST_OUTPUTS = 64
_SHOWN_OUTPUTS = 6
_LEAST_CLASSES_OF_CLASSIFIER = 2


def recognise(
    outputs: Sequence[Output], classes: int | None, input_size: tuple[int, int], stated: str = ''
) -> list[Head]:
    """The ways in which the outputs of a file may be read, the likeliest first; at least one.

    Args:
        outputs: in the order of the file.
        classes: number of labels that the model gives; None where it is not known.
        input_size: height and width of the input in px.
        stated: begin of the name of a reading, such as `yolov8` or `boxes corners fraction`; empty for all that fit.

    Raises:
        ModelError: none fits; says what was found, and what would fit.
    """
    if len(outputs) > _MOST_OUTPUTS:
        raise ModelError(
            f'it has {len(outputs)} outputs, expected at most {_MOST_OUTPUTS}, those of a detector'
        )
    words = stated.split()
    if words and words[0] not in NAMES:
        raise ModelError(f'outputs are stated as {stated!r}, expected one of {", ".join(NAMES)}')
    found = [
        reading for family in FAMILIES for reading in family.readings(outputs, classes, input_size)
    ]
    fitting = [reading for reading in found if reading.name.split()[: len(words)] == words]
    if classes is None:
        fitting.sort(
            key=lambda reading: reading.labels is not None and reading.labels not in COCO_LABELS
        )
    if fitting:
        return fitting
    listed = '; '.join(map(str, outputs[:_SHOWN_OUTPUTS]))
    listed += f' and {len(outputs) - _SHOWN_OUTPUTS} more' if len(outputs) > _SHOWN_OUTPUTS else ''
    raise ModelError(
        f'outputs are {listed or "none"}{_guess(outputs, classes, input_size, found, stated)}'
    )


def _guess(
    outputs: Sequence[Output],
    classes: int | None,
    input_size: tuple[int, int],
    found: Sequence[Head],
    stated: str,
) -> str:
    """What the outputs look like, and what would help."""
    if found:
        return f', stated as {stated!r}: expected one of ' + ', '.join(
            dict.fromkeys(one.name for one in found)
        )
    counts = sorted(
        {
            reading.labels
            for family in FAMILIES
            for reading in family.readings(outputs, None, input_size)
            if reading.labels
        }
    )
    if classes is not None and counts:
        return (
            f': with {classes} classes expected another shape. By their shape they are of '
            f"{' or '.join(map(str, counts))} classes: name as many, in the model's order"
        )
    shapes = [output.sizes for output in outputs]
    if (
        len(outputs) == 1
        and len(outputs[0].shape) <= 2
        and (outputs[0].shape[-1] or 0) >= _LEAST_CLASSES_OF_CLASSIFIER
    ):
        return ', as of a classifier: expected a detector, which gives boxes'
    if (
        len(outputs) == 1
        and len(shapes[0]) >= 2
        and len(outputs[0].shape) == 4
        and shapes[0][-2:] == input_size
    ):
        return ', as of a segmenter, with a value for each pixel: expected a detector, which gives boxes'
    unnamed = ', or one that its classes tell (--classes)' if classes is None else ''
    return (
        f': no known head of a detector{unnamed}. Known are {", ".join(NAMES)} (docs/own_models.md); any other is '
        f'read by `decode: package.module:function` in the set file'
    )
