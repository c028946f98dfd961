"""Runs all nodes on a bag in a process of their own, and waits until they are done."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from deadline_perception.core.child_command import module_command
from deadline_perception.core.errors import DeadlinePerceptionError

BRINGUP = 'deadline_perception.nodes', 'bringup'
_LOOK_EVERY_S = 0.5
_LOG_TAIL = 12
_STOP_S = 20.0  # the supervisor ends every node within this time


class NodeRunError(DeadlinePerceptionError):
    """The nodes failed; the message ends with the last lines of their log."""


def free_domain() -> int:
    """A ROS domain whose discovery ports nobody on this machine uses.

    Raises:
        NodeRunError: all are in use.
    """
    for domain in random.SystemRandom().sample(range(1, 102), 101):
        try:
            for port in (7400 + 250 * domain, 7410 + 250 * domain):  # DDS-RTPS 2.5, section 9.6.2.4
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                    probe.bind(('', port))
            return domain
        except OSError:
            continue
    raise NodeRunError(
        'no ROS domain from 1 to 101 is free on this machine, expected one; set ROS_DOMAIN_ID'
    )


def keep_to_this_machine() -> None:
    """Takes a ROS domain that nobody uses, heard on this machine alone, unless ROS_DOMAIN_ID says which to take.

    So a robot's own odometry does not reach the nodes of a demo, nor do two demos hear each other.
    """
    if 'ROS_DOMAIN_ID' not in os.environ:
        os.environ['ROS_DOMAIN_ID'] = str(free_domain())
        os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')


def run_nodes(
    arguments: list[str], log: Path, *, limit_s: float, tick: Callable[[float], None]
) -> None:
    """Starts the nodes, blocks until they have ended, and keeps what they print in a file.

    They have a ROS domain of their own unless ROS_DOMAIN_ID is set, see `keep_to_this_machine`.

    Args:
        arguments: of the start-up, see `python -m deadline_perception.nodes bringup --help`.
        log: file for their output.
        limit_s: after so long they are stopped.
        tick: called twice a second with the seconds passed.

    Raises:
        NodeRunError: they failed or took too long.
    """
    keep_to_this_machine()
    with log.open('wb') as output:
        process = subprocess.Popen(
            module_command(*BRINGUP, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, 'PYTHONUNBUFFERED': '1'},
            start_new_session=True,
        )
    started_s = time.monotonic()
    try:
        while True:
            try:
                process.wait(_LOOK_EVERY_S)
                break
            except subprocess.TimeoutExpired:
                passed_s = time.monotonic() - started_s
                tick(passed_s)
                if passed_s > limit_s:
                    raise NodeRunError(
                        f'the nodes did not end within {limit_s:.0f} s; their log {log} ends with:\n'
                        f'{_tail(log)}'
                    ) from None
    finally:
        _stop(process)
    if process.returncode:
        raise NodeRunError(
            f'the nodes ended with status {process.returncode}; their log {log} ends with:\n'
            f'{_tail(log)}'
        )


def _stop(process: subprocess.Popen) -> None:
    """Asks the start-up to end all nodes; kills it when it does not."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _tail(log: Path) -> str:
    lines = log.read_text(encoding='utf-8', errors='replace').splitlines()
    return '\n'.join(f'  {line}' for line in lines[-_LOG_TAIL:]) or '  (nothing)'
