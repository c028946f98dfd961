"""Files and folders that a command is told of: places to write are tried before it works for minutes."""
from __future__ import annotations

import os
from pathlib import Path

from deadline_perception.core.share_folder import DEFAULT_MODEL


def check_file(option: str, file: Path) -> None:
    """Makes sure that a file can be written, and its folder made; writes and makes nothing.

    Args:
        option: name of the option, for the message.
        file: place of the file.

    Raises:
        ValueError: a folder lies there, a file lies where a folder must be, or this user may not write there.
    """
    if file.is_dir():
        raise ValueError(f'{option} is {file}, which is a folder; expected a file')
    _check(option, file)


def check_folder(option: str, folder: Path) -> None:
    """The same of a folder.

    Raises:
        ValueError: a file lies there or where a folder above it must be, or this user may not write there.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f'{option} is {folder}, which is a file; expected a folder')
    _check(option, folder)


def _check(option: str, place: Path) -> None:
    there = next(path for path in (place, *place.absolute().parents) if path.exists())
    if there != place and not there.is_dir():
        raise ValueError(f'{option} is {place}, but {there} is a file; expected a folder')
    if not os.access(there, os.W_OK):
        raise ValueError(f'{option} is {place}, but this user may not write {there}; expected another place')


DEFAULT_WEIGHTS = Path(f'models/{DEFAULT_MODEL}.safetensors')
