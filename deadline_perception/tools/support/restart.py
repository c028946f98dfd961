"""Programs that start themselves anew with the settings that libraries only read as they load."""

from __future__ import annotations

import os
import sys

from deadline_perception.core.device import missing_environment, process_environment
from deadline_perception.tools.support.file_arguments import THREADS

_RESTARTED = 'DEADLINE_PERCEPTION_RESTARTED'


def restart_with_environment(threads: int) -> None:
    """Starts this program anew, once, with the settings that libraries only read as they load; else does nothing.

    Raises:
        ValueError: the number of threads lies outside `THREADS`.
    """
    if not THREADS[0] <= threads <= THREADS[1]:
        raise ValueError(f'--threads is {threads}, expected {THREADS[0]} to {THREADS[1]}')
    if not missing_environment(threads) or _RESTARTED in os.environ:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    environment = {**os.environ, **process_environment(threads), _RESTARTED: '1'}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
