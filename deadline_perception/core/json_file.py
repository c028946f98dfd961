"""Files that hold one JSON object each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deadline_perception.core.decoding import decode
from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.untrusted_file import FileRefused, read_json


class JsonFileError(DeadlinePerceptionError):
    """A JSON file is missing, unreadable or not a JSON object."""


def read_object(file: Path, what: str) -> dict[str, Any]:
    """Reads a file that holds one JSON object.

    Args:
        file: where it lies.
        what: what the file should be, for the error message: `latency profile`.

    Raises:
        JsonFileError: the file is missing, no ordinary file, too large, unreadable, no JSON, or JSON of another kind.
    """
    try:
        content = read_json(file)
    except (OSError, FileRefused) as error:
        raise JsonFileError(f'{what} {file} cannot be read: {error}') from error
    if not isinstance(content, dict):
        raise JsonFileError(f'{what} {file} holds {type(content).__name__}, expected a JSON object')
    return content


def read_record(file: Path, kind: Any, what: str) -> Any:
    """Reads a file that holds one record; see `read_object` and `decode`.

    Raises:
        JsonFileError: as `read_object`, or it holds another record.
    """
    content = read_object(file, what)
    try:
        return decode(content, kind, what)
    except FileRefused as error:
        raise JsonFileError(f'{what} {file} cannot be used: {error}') from error
