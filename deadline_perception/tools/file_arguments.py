"""What a command is told of, tried before it works for minutes: places to write, numbers, and where it computes."""
from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

from deadline_perception.core.device import DEFAULT_THREADS
from deadline_perception.core.share_folder import DEFAULT_MODEL
from deadline_perception.engines.choice import ENGINES


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


def add_device_arguments(parser: argparse.ArgumentParser, threads: int = DEFAULT_THREADS, engine: str = '') -> None:
    """Declares the processor and its threads and, where there is help for it, the engine."""
    parser.add_argument('--device', default='cpu', help='cpu, cuda or cuda:INDEX')
    parser.add_argument('--threads', type=int, default=threads,
                        help='CPU threads; times that are measured hold for a node with the same number')
    if engine:
        parser.add_argument('--engine', choices=ENGINES, default='auto', help=engine)


def _check(option: str, place: Path) -> None:
    there = next(path for path in (place, *place.absolute().parents) if path.exists())
    if there != place and not there.is_dir():
        raise ValueError(f'{option} is {place}, but {there} is a file; expected a folder')
    if not os.access(there, os.W_OK):
        raise ValueError(f'{option} is {place}, but this user may not write {there}; expected another place')


DEFAULT_WEIGHTS = Path(f'models/{DEFAULT_MODEL}.safetensors')
