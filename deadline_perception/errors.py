"""The one root of the package's own failures, and the commands that their messages name."""
from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

_PROGRAM = 'deadline-perception'


class DeadlinePerceptionError(Exception):
    """A failure that one line explains; commands print it and return 1, nodes log it and degrade."""


def command_line(arguments: str) -> str:
    """A command of this package as it can be pasted here: `ros2 run ...` where a colcon workspace has installed it."""
    program = _PROGRAM
    if shutil.which(_PROGRAM) is None:
        beside = Path(sys.executable).with_name(_PROGRAM)  # an environment that is not activated
        if beside.is_file():
            program = str(beside)
        elif os.environ.get('AMENT_PREFIX_PATH'):
            program = f'ros2 run deadline_perception {_PROGRAM}'
    return f'{program} {arguments}'
