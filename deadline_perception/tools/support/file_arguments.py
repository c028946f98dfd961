"""What a command is given of, tried before it works for minutes: places to write, numbers, and where it computes."""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

from deadline_perception.core.device import DEFAULT_THREADS
from deadline_perception.core.share_folder import DEFAULT_MODEL
from deadline_perception.engines.choice import ENGINES


def check_file(option: str, file: Path, *others: str | Path | None) -> None:
    """Makes sure that a file can be written, and its folder made; writes and makes nothing.

    Args:
        option: name of the option, for the message.
        file: place of the file.
        others: what the command reads, or writes as well; None for what is not given.

    Raises:
        ValueError: a folder or a device lies there, or one of the others; a file lies where a folder must be; or this
            user may not write there.
    """
    if file.exists() and not file.is_file():
        raise ValueError(
            f'{option} is {file}, which is {"a folder" if file.is_dir() else "a device"}; expected a file'
        )
    if os.path.realpath(file) in [os.path.realpath(other) for other in others if other is not None]:
        raise ValueError(
            f'{option} is {file}, as another file of this command; expected one of its own'
        )
    _check(option, file, file.absolute().parent)


def check_folder(option: str, folder: Path) -> None:
    """The same of a folder.

    Raises:
        ValueError: a file lies there or where a folder above it must be, or this user may not write there.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f'{option} is {folder}, which is a file; expected a folder')
    _check(option, folder, folder.absolute())


def check_numbers(args: argparse.Namespace, **ranges: tuple[float, float]) -> None:
    """Makes sure that numbers lie in their ranges, both ends included; those that are not given do.

    Args:
        args: of the command.
        ranges: smallest and largest value of an option, by its name with underscores.

    Raises:
        ValueError: one lies outside.
    """
    for name, (least, most) in ranges.items():
        value = getattr(args, name)
        if value is not None and not least <= value <= most:
            expected = f'at least {least:g}' if math.isinf(most) else f'{least:g} to {most:g}'
            raise ValueError(f'--{name.replace("_", "-")} is {value}, expected {expected}')


def add_device_arguments(
    parser: argparse.ArgumentParser, threads: int = DEFAULT_THREADS, engine: str = ''
) -> None:
    """Declares the processor and its threads and, where there is help for it, the engine."""
    parser.add_argument('--device', default='cpu', help='cpu, cuda or cuda:INDEX')
    parser.add_argument(
        '--threads',
        type=int,
        default=threads,
        help='CPU threads; times that are measured hold for a node with the same number',
    )
    if engine:
        parser.add_argument('--engine', choices=ENGINES, default='auto', help=engine)


def _check(option: str, place: Path, folder: Path) -> None:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir():
        raise ValueError(f'{option} is {place}, but {there} is a file; expected a folder')
    for path in (there, place):  # a file is replaced by one that is written beside it
        if path.exists() and not os.access(path, os.W_OK):
            raise ValueError(
                f'{option} is {place}, but this user may not write {path}; expected another place'
            )


THREADS = (
    1,
    1024,
)  # of a command; OpenMP ends the process, without a word, where it cannot start so many
DEFAULT_WEIGHTS = Path(f'models/{DEFAULT_MODEL}.safetensors')
