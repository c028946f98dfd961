"""JSON files that are either whole or absent: a reader never sees half a file, whenever the writer dies."""
from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from deadline_perception.errors import DeadlinePerceptionError

_MOST_BYTES = 2**24  # of a file that is read; the largest of this package's own have some hundred thousand


class JsonFileError(DeadlinePerceptionError):
    """A JSON file is missing, unreadable or not a JSON object."""


def write_text_atomically(file: Path, text: str) -> None:
    """Replaces a file in one step: writes beside it, flushes to disk, renames. Makes the folder when needed."""
    file = Path(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=f'.{file.name}.')
    try:
        with os.fdopen(handle, 'w', encoding='utf-8') as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, file)
    finally:
        Path(temporary).unlink(missing_ok=True)  # still there only when something failed


def read_object(file: Path, what: str) -> dict:
    """Reads a file that holds one JSON object.

    Args:
        file: where it lies.
        what: what the file should be, for the error message: `latency profile`.

    Raises:
        JsonFileError: the file is missing, no ordinary file, too large, unreadable, no JSON, or JSON of another kind.
    """
    file = Path(file)
    try:
        if file.exists() and not file.is_file():  # a pipe would be waited for, a device read without end
            raise ValueError('it is no ordinary file')
        if file.stat().st_size > _MOST_BYTES:
            raise ValueError(f'it has {file.stat().st_size} bytes, expected at most {_MOST_BYTES}')
        content = json.loads(file.read_text(encoding='utf-8'))
    except (OSError, ValueError, RecursionError) as error:  # no text, no JSON, or numbers and nesting beyond reason
        raise JsonFileError(f'{what} {file} cannot be read: {error}') from error
    if not isinstance(content, dict):
        raise JsonFileError(f'{what} {file} holds {type(content).__name__}, expected a JSON object')
    return content
