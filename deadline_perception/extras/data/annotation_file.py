"""Annotation files read so that whatever they hold ends in values or in one line that says what is wrong."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deadline_perception.core import untrusted_file
from deadline_perception.core.errors import printable
from deadline_perception.core.untrusted_file import MIB, FileRefused

_MAX_WORDS = 600
_MOST_BYTES = 512 * MIB  # of all annotations; those of COCO's 118,000 training images have 448 MiB


def read_json(file: Path) -> object:
    """What a JSON file holds.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no JSON file, too large, or nested or long-numbered beyond reason.
    """
    try:
        return untrusted_file.read_json(file, _MOST_BYTES)
    except FileRefused as error:
        raise ValueError(f'{file} is no JSON file that can be read: {error}') from error


@contextmanager
def expected_format(file: Path, form: str) -> Iterator[None]:
    """Converts what content of another structure provokes inside into a ValueError that names file and form."""
    try:
        yield
    except KeyError as error:
        raise ValueError(
            f'{file} lacks the key {printable(error, _MAX_WORDS)}, expected {form}'
        ) from error
    except (
        ValueError,
        TypeError,
        AttributeError,
        ArithmeticError,
        LookupError,
        RecursionError,
        OSError,
        csv.Error,
    ) as error:
        words = printable(error, _MAX_WORDS)
        own = isinstance(error, ValueError) and str(error).startswith(str(file))
        if own and words == str(error):
            raise
        raise ValueError(
            words if own else f'{file} is not in the form of {form}: {words}'
        ) from error
