"""Prepare the segments of a network in a process of its own, so that a new device needs no command.

The quantised models of shipped weights lie beside them (`extras/preparation/segment_models.py`); compiling them for this
device takes about a minute, once.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from deadline_perception.core.child_command import module_command
from deadline_perception.core.errors import printable
from deadline_perception.core.tied_process import LoadError, start_tied, stop_tied


def prepare_segments(weights: Path, threads: int, on_progress: Callable[[str], None] | None) -> str:
    """Prepare segments in a process of its own, and wait for it.

    What is prepared stays when it is interrupted; the next call goes on with the rest.

    Args:
        weights: file of the network.
        threads: threads per network operation that the segments are prepared for.
        on_progress: gets how far it is, a line every 20 s; None: the terminal does, as a bar.

    Returns:
        Why segments stay unprepared, so that the network runs eagerly; empty where all are prepared.
    """
    command = module_command(
        'deadline_perception.tools.command_line',
        'profile',
        '--prepare-only',
        '--weights',
        str(weights),
        '--threads',
        str(threads),
    )
    try:
        process = start_tied(
            command,
            stdout=subprocess.DEVNULL,
            stderr=on_progress and subprocess.PIPE,
            text=True,
            errors='replace',
        )
    except (LoadError, OSError) as error:
        return str(error)
    last_line = ''
    try:
        for line in process.stderr or ():
            last_line = printable(line.strip()) or last_line
            if on_progress:
                on_progress(last_line)
        status = process.wait()
    finally:
        stop_tied(process)
    return (last_line or f'status {status}') if status else ''


def prepare_aloud(weights: Path, threads: int) -> None:
    """Prepare segments, with its progress on standard error."""

    def say(words: str) -> None:
        print(words, file=sys.stderr, flush=True)

    failure = prepare_segments(weights, threads, None if sys.stderr.isatty() else say)
    if failure:
        say(f'segments of {weights.stem} stay unprepared, and run eagerly: {failure}')
