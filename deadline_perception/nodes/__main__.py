"""`python -m deadline_perception.nodes NAME`: one node as a process, which SIGINT ends cleanly from the start."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from pathlib import Path

_USAGE = """usage: python -m deadline_perception.nodes NAME [--ros-args -p PARAMETER:=VALUE -r TOPIC:=OTHER ...]

NAME is one of {names}.
`bringup` starts them all, each in a process of its own: bringup --help. NAME --help lists the parameters of a node."""


def _help_of(name: str) -> str:
    """What a node does and its parameters; empty of a program that has an own --help."""
    module = importlib.import_module(f'deadline_perception.nodes.{name}')
    if not hasattr(module, 'PARAMETERS'):
        return ''
    from deadline_perception.nodes.parameter_document import document_of

    usage = (
        f'usage: python -m deadline_perception.nodes {name} [--ros-args -p PARAMETER:=VALUE ...]'
    )
    purpose = ' '.join((module.__doc__ or '').split())
    parameters = document_of(name).partition('ros__parameters:')[2]
    return f'{usage}\n\n{purpose}\n\nParameters, with their defaults:{parameters}'


def run_named() -> int:
    """Runs the node that is named; returns its exit status."""
    names = sorted(
        file.stem
        for file in Path(__file__).parent.glob('*.py')
        if '\ndef main(' in file.read_text('utf-8')
    )
    wanted = sys.argv[1] if len(sys.argv) > 1 else ''
    if wanted in ('-h', '--help'):
        print(_USAGE.format(names=', '.join(names)))
        return 0
    if wanted not in names:
        shown = repr(wanted) if wanted else 'missing'
        print(f'node is {shown}, expected one of {", ".join(names)}', file=sys.stderr)
        return 1
    if sys.argv[2:] in (['-h'], ['--help']):
        words = _help_of(wanted)
        if words:
            print(words)
            return 0
    # While modules load, nothing has begun that must be ended; Python's own answer is a traceback.
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    module = importlib.import_module(f'deadline_perception.nodes.{sys.argv.pop(1)}')
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return module.main()


if __name__ == '__main__':
    sys.exit(run_named())
