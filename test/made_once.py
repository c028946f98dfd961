import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """The folder `name` among the run's temporary ones, which `make` has filled; blocks while another worker does."""
    base = factory.getbasetemp()
    # each worker has a folder of its own in there
    root = base.parent if 'PYTEST_XDIST_WORKER' in os.environ else base
    folder, whole = root / name, root / f'{name}.whole'
    with (root / f'{name}.lock').open('w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a worker that failed half-way
            folder.mkdir()
            make(folder)
            whole.touch()
    return folder
