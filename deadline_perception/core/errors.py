"""The one root of the package's own failures, their words made printable, and the commands that they name."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

_PROGRAM = 'deadline-perception'
_LONGEST_LINE = (
    4000  # of a message, characters; names from a file could fill the terminal otherwise
)


class DeadlinePerceptionError(Exception):
    """A failure that one line explains; commands print it and return 1, nodes log it and degrade."""

    def __str__(self) -> str:
        """The words, whatever of a file they repeat: what a terminal would obey never gets there."""
        return printable_lines(super().__str__())


def printable(text: object, limit: int = 300) -> str:
    """Text of a file in one line for a message: what cannot be printed escaped, what is too long cut.

    Args:
        text: as its `str` has it.
        limit: characters at most, beside the ` ...` that tells of the rest.
    """
    words = _escaped(' '.join(str(text).split()))
    return words if len(words) <= limit else f'{words[:limit]} ...'


def printable_lines(text: str) -> str:
    """A message that may have several lines, each printable and not too long."""
    lines = (_escaped(line.expandtabs()) for line in text.split('\n'))
    return '\n'.join(
        line if len(line) <= _LONGEST_LINE else f'{line[:_LONGEST_LINE]} ...' for line in lines
    )


def _escaped(text: str) -> str:
    """Controls of a terminal, of the direction of writing, and halves of characters as Python writes them."""
    if text.isprintable():
        return text
    return ''.join(
        letter if letter.isprintable() else letter.encode('unicode_escape').decode()
        for letter in text
    )


def command_line(arguments: str) -> str:
    """A command of this package as it can be pasted here: `ros2 run ...` where a colcon workspace has installed it."""
    program = _PROGRAM
    if shutil.which(_PROGRAM) is None:
        beside = Path(sys.executable).with_name(_PROGRAM)  # an environment that is not activated
        if beside.is_file():
            program = shlex.quote(str(beside))
        elif os.environ.get('AMENT_PREFIX_PATH'):
            program = f'ros2 run deadline_perception {_PROGRAM}'
    return f'{program} {arguments}'
