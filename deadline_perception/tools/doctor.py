"""Say what this machine has: ROS, torch, GPU, sensors, clocks, models; and for what is missing, how to get it.

With --camera TOPIC: what is wrong with the topic of a camera while its driver runs, and the remedy.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict

from deadline_perception.core.child_command import module_command
from deadline_perception.core.errors import DeadlinePerceptionError, command_line
from deadline_perception.tools.support.environment_checks import Finding, State, examine_machine

_TOPIC = re.compile('/?[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*')
_LONGEST_S = 120.0  # of a watch, on a machine that is busy


class CameraNotWatched(DeadlinePerceptionError):
    """ROS cannot be loaded, or the topic has no name of one."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument('--json', action='store_true', help='print JSON instead of a table')
    parser.add_argument(
        '--camera',
        default='',
        metavar='TOPIC',
        help='watch the images of a running camera, such as /camera/image_raw, for some seconds instead',
    )


def run(args: argparse.Namespace) -> int:
    """Prints the findings; returns 0 when the demo can run or nothing is wrong with the camera, 1 otherwise."""
    if args.camera:
        return _examine_camera(args)
    findings = examine_machine()
    ready = all(finding.state is not State.MISSING for finding in findings)
    if args.json:
        rows = [{**asdict(finding), 'state': finding.state.value} for finding in findings]
        print(json.dumps({'ready': ready, 'findings': rows}, indent=2))
    else:
        print_table(findings)
        print(
            f'The demo can run: {command_line("demo")}'
            if ready
            else 'The demo cannot run yet: see the rows marked "missing".'
        )
    return 0 if ready else 1


def watch_camera(topic: str) -> dict:
    """What is seen of a topic, and its faults; ROS runs in a process of its own.

    Raises:
        CameraNotWatched: that process failed.
        ValueError: it is no name of a topic.
    """
    if not _TOPIC.fullmatch(topic):
        raise ValueError(
            f'--camera is {topic!r}, expected a topic such as /camera/image_raw: letters, digits, _ and /'
        )
    command = module_command('deadline_perception.nodes', 'camera_doctor', '--', topic)
    shown = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_S)
    if shown.returncode:
        why = (shown.stderr.strip().splitlines() or ['no word'])[-1]
        raise CameraNotWatched(f'{topic} cannot be watched: {why}')
    return json.loads(shown.stdout.splitlines()[-1])


def _examine_camera(args: argparse.Namespace) -> int:
    seen = watch_camera(args.camera)
    if args.json:
        print(json.dumps(seen, indent=2))
        return 1 if seen['faults'] else 0
    came = f'{seen["images"]} images in {seen["watched_s"]} s'
    print_table(
        [Finding(seen['topic'], State.FINE, came)]
        + [
            Finding(fault['name'], State.MISSING, fault['found'], fault['remedy'])
            for fault in seen['faults']
        ],
        title='This camera',
        states={State.FINE: 'seen', State.MISSING: 'fault'},
    )
    count = len(seen['faults'])
    print(f'{count} fault{"" if count == 1 else "s"}.' if count else 'Nothing is wrong.')
    return 1 if seen['faults'] else 0


def print_table(
    findings: Iterable[Finding],
    title: str = 'This machine',
    states: Mapping[State, str] | None = None,
) -> None:
    """One row per finding, with its remedy below it; plain lines where rich is not installed."""
    words = states or {state: state.value for state in State}
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        for finding in findings:
            print(f'{finding.topic:16}{words[finding.state]:9}{finding.found}')
            if finding.remedy:
                print(f'{"":25}-> {finding.remedy}')
        return
    styles = {State.FINE: 'green', State.NOTE: 'yellow', State.MISSING: 'bold red'}
    table = Table('', '', 'found', title=title, title_justify='left')
    for finding in findings:
        found = Text(finding.found, overflow='fold')
        if finding.remedy:
            found.append(f'\n-> {finding.remedy}', style='cyan')
        table.add_row(finding.topic, Text(words[finding.state], style=styles[finding.state]), found)
    Console().print(table)
