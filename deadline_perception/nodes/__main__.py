"""`python -m deadline_perception.nodes NAME`: one node as a process, which SIGINT ends cleanly from the start."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from pathlib import Path

if __name__ == '__main__':
    names = sorted(
        file.stem
        for file in Path(__file__).parent.glob('*.py')
        if '\ndef main(' in file.read_text('utf-8')
    )
    if len(sys.argv) < 2 or sys.argv[1] not in names:
        sys.exit(
            f'node is {"missing" if len(sys.argv) < 2 else repr(sys.argv[1])}, expected one of {", ".join(names)}'
        )
    # While modules load, nothing has begun that must be ended; Python's own answer is a traceback.
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    module = importlib.import_module(f'deadline_perception.nodes.{sys.argv.pop(1)}')
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(module.main())
