"""What a weights file says of its network, before any layer of it is made. Needs no torch."""

from __future__ import annotations

import reprlib
from pathlib import Path

from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.untrusted_file import FileRefused, parse_json
from deadline_perception.engines import tensor_file
from deadline_perception.engines.tensor_file import TensorHeader
from deadline_perception.networks.multi_path.score_calibration import ScoreCalibration

# Of the classes that a file names.
MOST_CLASSES = 10_000
LONGEST_NAME = 200


class CheckpointError(DeadlinePerceptionError):
    """Weights that are missing, damaged, or made for another network."""


def read_metadata(weights: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """What a file says of its network, and its class names.

    Raises:
        CheckpointError: the file is missing, truncated, no safetensors file, or says nothing of a network.
    """
    metadata = read_header(weights)[0]
    if 'config' not in metadata or 'class_names' not in metadata:
        raise CheckpointError(
            f'weights file {weights} holds {sorted(metadata) or "nothing"} beside the weights, '
            f'expected config and class_names'
        )
    return metadata, _class_names(metadata['class_names'], weights)


def stated_calibration(metadata: dict[str, str], classes: int) -> ScoreCalibration | None:
    """How the scores of so many classes are calibrated; None where a file's metadata say nothing of it.

    Raises:
        ValueError: they say something else.
    """
    text = metadata.get('score_calibration')
    return ScoreCalibration.from_json(text, classes) if text else None


def read_recipe(weights: Path) -> str | None:
    """How the weights of a file say that they came about, None where they do not.

    Raises:
        CheckpointError: the file cannot be read.
    """
    return read_header(Path(weights))[0].get('recipe')


def read_header(weights: Path) -> TensorHeader:
    """What a safetensors file says of itself; reads no tensor.

    Raises:
        CheckpointError: the file is missing or no safetensors file.
    """
    try:
        return tensor_file.read_header(weights)
    except FileNotFoundError:
        raise CheckpointError(f'weights file {weights} does not exist') from None
    except (OSError, FileRefused) as error:
        raise CheckpointError(
            f'weights file {weights} cannot be read as safetensors: {error}'
        ) from error


def _class_names(text: str, weights: Path) -> tuple[str, ...]:
    try:
        names = parse_json(text)
    except FileRefused:
        names = None
    if (
        not isinstance(names, list)
        or not 0 < len(names) <= MOST_CLASSES
        or not all(map(is_class_name, names))
    ):
        raise CheckpointError(
            f'weights file {weights} has class names {reprlib.repr(text)}, expected a JSON list of '
            f'1 to {MOST_CLASSES} names'
        )
    return tuple(names)


def is_class_name(name: object) -> bool:
    """Whether a value of a file can be the name of a class."""
    return isinstance(name, str) and len(name) <= LONGEST_NAME and name.isprintable()
