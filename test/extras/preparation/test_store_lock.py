"""A folder of prepared segments has one writer at a time."""

import subprocess
import sys

import pytest

from deadline_perception.engines.segment_store import default_store_folder

HOLDER = """
import sys
from pathlib import Path
from deadline_perception.extras.preparation.store_lock import store_lock
with store_lock(Path(sys.argv[1]), lambda: print('waits', flush=True)):
    print('holds', flush=True)
    sys.stdin.readline()
"""


def start(folder):
    return subprocess.Popen(
        [sys.executable, '-c', HOLDER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    return default_store_folder('compact', 'ab')


def end(process):
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_a_second_process_waits_for_the_first(folder):
    first = start(folder)
    assert first.stdout.readline() == 'holds\n'
    second = start(folder)
    try:
        assert second.stdout.readline() == 'waits\n'
        first.stdin.write('\n')
        first.stdin.flush()
        assert second.stdout.readline() == 'holds\n'
    finally:
        end(first)
        end(second)
