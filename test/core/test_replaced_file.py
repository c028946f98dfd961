"""A file that is replaced is the old one or the new one, whenever its writer dies."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from contextlib import nullcontext

import pytest

from deadline_perception.core.replaced_file import replace_file

WRITER = """
import sys
from pathlib import Path
from deadline_perception.core.replaced_file import replace_file
for number in range(1_000_000):
    replace_file(Path(sys.argv[1]), bytes([number % 256]) * 3_000_000)
    print(number, flush=True)
"""


def start_writer(file):
    """Which replaces the file again and again, and says so each time."""
    return subprocess.Popen([sys.executable, '-c', WRITER, str(file)], stdout=subprocess.PIPE)


def test_a_file_is_replaced_with_the_mode_of_other_files(tmp_path):
    file = tmp_path / 'folder' / 'file'
    before = os.umask(0o027)
    try:
        replace_file(file, b'one')
        replace_file(file, b'two')
    finally:
        os.umask(before)
    assert file.read_bytes() == b'two' and file.stat().st_mode & 0o777 == 0o640
    assert list(file.parent.iterdir()) == [file]


def test_whoever_is_killed_leaves_a_whole_file_and_the_next_writer_removes_the_rest(tmp_path):
    file, left = tmp_path / 'a[b].bin', 0
    for _ in range(4):
        writer = start_writer(file)
        for _ in range(3):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        content = file.read_bytes()
        assert len(content) == 3_000_000 and len(set(content)) == 1
        left += len(list(tmp_path.iterdir())) - 1
        assert len(list(tmp_path.iterdir())) <= 2  # the writer after it has removed what it left
    replace_file(file, b'last')
    assert list(tmp_path.iterdir()) == [file]


def test_what_another_writer_is_writing_is_left_alone(tmp_path):
    writers = [start_writer(tmp_path / 'file') for _ in range(2)]
    try:
        for _ in range(15):
            for writer in writers:
                assert writer.stdout.readline().strip().isdigit()  # none failed
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
            writer.stdout.close()


@pytest.mark.parametrize('fault', [OSError(errno.ENOLCK, 'No locks'), KeyboardInterrupt()])
def test_without_locks_files_are_written_all_the_same(tmp_path, fault, monkeypatch):
    def refuse(handle, kind):
        raise fault

    file = tmp_path / 'file'
    replace_file(file, b'before')
    monkeypatch.setattr(fcntl, 'flock', refuse)
    with nullcontext() if isinstance(fault, OSError) else pytest.raises(KeyboardInterrupt):
        replace_file(file, b'after')
    assert file.read_bytes() == (b'after' if isinstance(fault, OSError) else b'before')
    assert list(tmp_path.iterdir()) == [file]
