"""The one way in for files that others may have made: weights, sets, tasks, annotations, tables, caches. No torch.

Whatever lies at a path, reading it ends soon, within a stated number of bytes, in values or in a `FileRefused` whose
words can be printed. It is read once: what is checked is what is used, whoever rewrites the file meanwhile. YAML is
read by `extras/plain_yaml.py` and tensors by `tensor_file.py`, both through here. docs/security.md lists the limits.
"""

from __future__ import annotations

import codecs
import json
import os
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from deadline_perception.core.errors import printable

MIB = 2**20
MOST_TEXT_BYTES = MIB  # of what a person writes: sets, tasks, names of classes
# Of a file of this package; the largest have some hundred thousand bytes.
MOST_JSON_BYTES = 16 * MIB
MOST_DEPTH = 64  # of lists and mappings within each other
MOST_DIGITS = 30  # of a whole number; more than a time in ns or a 64-bit id has
_KINDS = {
    stat.S_IFDIR: 'a folder',
    stat.S_IFIFO: 'a pipe',
    stat.S_IFSOCK: 'a socket',
    stat.S_IFCHR: 'a device',
    stat.S_IFBLK: 'a device',
}


class FileRefused(ValueError):
    """Why the content of a file is not taken, as a clause that follows the name of the file."""


def check_kind(file: Path) -> None:
    """Makes sure that an ordinary file lies there: a pipe would be waited for, a device read without end.

    Raises:
        OSError: nothing is there, or it may not be looked at.
        FileRefused: it is something else.
    """
    _check_mode(os.stat(file).st_mode)


@contextmanager
def open_file(file: Path) -> Iterator[tuple[BinaryIO, int]]:
    """An ordinary file, open to be read, and its size in bytes.

    Raises:
        OSError: it cannot be read.
        FileRefused: it is no ordinary file.
    """
    check_kind(file)  # before it is opened, which alone makes some devices act
    with open(
        os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), 'rb'
    ) as stream:
        facts = os.fstat(
            stream.fileno()
        )  # of what was opened, which another may have put there since
        _check_mode(facts.st_mode)
        yield stream, facts.st_size


def read_bytes(file: Path, most_bytes: int) -> bytes:
    """The content of an ordinary file, read in one go.

    Args:
        file: where it lies.
        most_bytes: that it may have.

    Raises:
        OSError: it cannot be read.
        FileRefused: it is no ordinary file, too large, or was written to meanwhile.
    """
    with open_file(file) as (stream, size):
        if size > most_bytes:
            raise FileRefused(f'it has {size} bytes, expected at most {most_bytes}')
        content = stream.read(size + 1)
    if len(content) != size:
        raise FileRefused(
            'it was written to while it was read, expected one that is replaced as a whole'
        )
    return content


def read_text(file: Path, most_bytes: int = MOST_TEXT_BYTES) -> str:
    """The same as text in UTF-8.

    Raises:
        OSError: it cannot be read.
        FileRefused: as `read_bytes`, or it is no such text.
    """
    return _decoded(read_bytes(file, most_bytes))


def read_json(file: Path, most_bytes: int = MOST_JSON_BYTES) -> object:
    """What a JSON file holds; see `parse_json`.

    Raises:
        OSError: it cannot be read.
        FileRefused: as `read_text`, or it is no such JSON.
    """
    return parse_json(read_text(file, most_bytes))


def parse_json(text: str) -> object:
    """Values of a JSON text without keys that occur twice, deep nesting, or whole numbers beyond reason.

    Raises:
        FileRefused: it is anything else.
    """
    try:
        content = json.loads(text, object_pairs_hook=_without_duplicates, parse_int=whole_number)
    except RecursionError:
        raise FileRefused(
            f'it is nested too deeply, expected at most {MOST_DEPTH} levels'
        ) from None
    except FileRefused:
        raise
    except ValueError as error:
        raise FileRefused(f'it is no JSON: {printable(error)}') from error
    check_depth(content)
    return content


def whole_number(text: str) -> int:
    """The whole number that a file states in decimal digits.

    Raises:
        FileRefused: it has too many of them.
    """
    if len(text) > MOST_DIGITS:
        raise FileRefused(
            f'it holds a number of {len(text)} digits, expected at most {MOST_DIGITS}'
        )
    return int(text)


def check_depth(content: object) -> None:
    """Makes sure that values are not nested deeper than `MOST_DEPTH`, which functions that call themselves survive.

    Raises:
        FileRefused: they are.
    """
    level = [content]
    for _ in range(MOST_DEPTH + 1):
        level = [
            value
            for parent in level
            if isinstance(parent, (dict, list))
            for value in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(value, (dict, list))
        ]
        if not level:
            return
    raise FileRefused(f'it is nested too deeply, expected at most {MOST_DEPTH} levels')


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise FileRefused(
            f'it holds the key {printable(repr(twice), 100)} twice, expected each once'
        )
    return content


def _decoded(content: bytes) -> str:
    try:
        return content.removeprefix(codecs.BOM_UTF8).decode(
            'utf-8'
        )  # some editors of Windows begin so
    except UnicodeDecodeError as error:
        raise FileRefused(
            f'it is no text in UTF-8: byte {error.start} is 0x{content[error.start]:02x}'
        ) from None


def _check_mode(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise FileRefused(
            f'it is no ordinary file but {_KINDS.get(stat.S_IFMT(mode), "something else")}'
        )
