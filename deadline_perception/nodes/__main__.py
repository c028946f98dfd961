"""`python -m deadline_perception.nodes NAME`: one node as a process, which SIGINT ends cleanly from the start."""
from __future__ import annotations

import importlib
import os
import signal
import sys

if __name__ == '__main__':
    # While modules load, nothing has begun that must be ended; Python's own answer is a traceback.
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    module = importlib.import_module(f'deadline_perception.nodes.{sys.argv.pop(1)}')
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(module.main())
