"""Say what this machine has: ROS, torch, GPU, sensors, clocks, models; and for what is missing, how to get it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict

from deadline_perception.tools.support.environment_checks import Finding, State, examine_machine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument('--json', action='store_true', help='print JSON instead of a table')


def run(args: argparse.Namespace) -> int:
    """Prints the findings; returns 0 when the demo can run, 1 otherwise."""
    findings = examine_machine()
    ready = all(finding.state is not State.MISSING for finding in findings)
    if args.json:
        rows = [{**asdict(finding), 'state': finding.state.value} for finding in findings]
        print(json.dumps({'ready': ready, 'findings': rows}, indent=2))
    else:
        print_table(findings)
        print(
            'The demo can run.'
            if ready
            else 'The demo cannot run yet: see the rows marked "missing".'
        )
    return 0 if ready else 1


def print_table(findings: Iterable[Finding]) -> None:
    """One row per finding, with its remedy below it; plain lines where rich is not installed."""
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        for finding in findings:
            print(f'{finding.topic:16}{finding.state.value:9}{finding.found}')
            if finding.remedy:
                print(f'{"":25}-> {finding.remedy}')
        return
    styles = {State.FINE: 'green', State.NOTE: 'yellow', State.MISSING: 'bold red'}
    table = Table('', '', 'found', title='This machine', title_justify='left')
    for finding in findings:
        found = Text(finding.found, overflow='fold')
        if finding.remedy:
            found.append(f'\n-> {finding.remedy}', style='cyan')
        table.add_row(finding.topic, Text(finding.state.value, style=styles[finding.state]), found)
    Console().print(table)
