"""Prepares the segments of a network as a node is configured, so that a new device needs no command.

The quantised models of shipped weights lie beside them (`engines/segment_models.py`); compiling them for this device
takes about a minute, once.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from rclpy.impl.rcutils_logger import RcutilsLogger

from deadline_perception.core.child_command import module_command
from deadline_perception.core.errors import printable
from deadline_perception.timing.contention.load import LoadError, start_tied, stop_tied


def prepare_segments(
    weights: Path, threads: int, log: RcutilsLogger, on_progress: Callable[[str], None]
) -> None:
    """Prepare segments in a process of its own, and wait for it.

    What is prepared stays when it is interrupted; the next call goes on with the rest. After a failure, which is
    logged, the network runs eagerly.

    Args:
        weights: file of the network.
        threads: threads per network operation that the segments are prepared for.
        log: of the node.
        on_progress: gets how far it is, a line every 20 s.
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
    log.info(f'prepares the segments of {weights} for this device, once, in about a minute')
    on_progress('preparing segments')
    try:
        process = start_tied(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors='replace'
        )
    except (LoadError, OSError) as error:
        log.warning(f'segments stay unprepared, and run eagerly: {error}')
        return
    last_line = ''
    try:
        for line in process.stderr:
            last_line = printable(line.strip()) or last_line
            log.info(last_line)
            on_progress(last_line)
        status = process.wait()
    finally:
        stop_tied(process)
    if status:
        log.warning(f'segments stay unprepared, and run eagerly: {last_line or f"status {status}"}')
