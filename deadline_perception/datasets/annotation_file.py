"""Annotation files read so that whatever they hold ends in values or in one line that says what is wrong."""
from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MAX_WORDS = 600


def read_json(file: Path) -> object:
    """What a JSON file holds.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no JSON file, or nested or long-numbered beyond reason.
    """
    try:
        return json.loads(file.read_text(encoding='utf-8'))
    except (ValueError, RecursionError) as error:
        raise ValueError(f'{file} is no JSON file: {_one_line(error)}') from error


@contextmanager
def expected_format(file: Path, form: str) -> Iterator[None]:
    """Turns what content of another structure provokes inside into a ValueError that names file and form."""
    try:
        yield
    except KeyError as error:
        raise ValueError(f'{file} lacks the key {_one_line(error)}, expected {form}') from error
    except (ValueError, TypeError, AttributeError, ArithmeticError, LookupError, RecursionError, OSError) as error:
        words = _one_line(error)
        own = isinstance(error, ValueError) and str(error).startswith(str(file))
        if own and words == str(error):
            raise
        raise ValueError(words if own else f'{file} is not in the form of {form}: {words}') from error


def _one_line(error: Exception) -> str:
    """The error's words, printable and not too many, whatever of the file they repeat."""
    words = ' '.join(str(error).split()).encode('ascii', 'backslashreplace').decode()
    return words if len(words) <= _MAX_WORDS else words[:_MAX_WORDS] + ' ...'
