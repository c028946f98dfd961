"""A folder of prepared segments has one writer at a time, and is used where nobody else may write."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from deadline_perception.engines.segment_store import SegmentStore, StoreError, default_store_folder
from deadline_perception.engines.store_lock import Turns, foreign_writer, store_lock

HOLDER = """
import os, subprocess, sys, time
from pathlib import Path
from deadline_perception.engines.store_lock import store_lock
with store_lock(Path(sys.argv[1]), lambda: print('waits', flush=True)) as lock:
    if sys.argv[2:]:
        subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(float("' + sys.argv[2] + '"))'],
                         pass_fds=(lock,))
    print('holds', flush=True)
    sys.stdin.readline()
"""


def start(folder, *words):
    return subprocess.Popen(
        [sys.executable, '-c', HOLDER, str(folder), *words],
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


def test_workers_of_a_process_that_was_killed_hold_the_lock_on(folder):
    first = start(folder, '1.5')
    assert first.stdout.readline() == 'holds\n'
    first.send_signal(signal.SIGKILL)
    first.wait()
    second = start(folder)
    try:
        assert [second.stdout.readline() for _ in range(2)] == ['waits\n', 'holds\n']
    finally:
        end(first)
        end(second)


def test_a_cache_that_is_cleared_meanwhile_has_a_lock_of_its_own(folder):
    with store_lock(folder):
        waiting = start(folder)
        assert waiting.stdout.readline() == 'waits\n'
        shutil.rmtree(folder)
        folder.mkdir(parents=True)
    try:
        assert waiting.stdout.readline() == 'holds\n' and (folder / '.lock').exists()
    finally:
        end(waiting)


def test_a_folder_that_everybody_may_write_is_not_used(folder):
    SegmentStore.resume(folder, {})
    assert foreign_writer(folder) == '' and SegmentStore.load(folder, {}).segments == {}
    for place in (folder, folder.parent):
        place.chmod(0o777)
        with pytest.raises(
            StoreError, match='since they are code: .* may be written by everybody, .* chmod o-w'
        ):
            SegmentStore.load(folder, {})
        place.chmod(0o755)
    assert SegmentStore.load(folder, {}).segments == {}


@pytest.mark.skipif(os.geteuid() != 0, reason='needs to give a folder away')
def test_a_folder_of_another_user_is_not_used(folder):
    SegmentStore.resume(folder, {})
    os.chown(folder, 12345, -1)
    with pytest.raises(StoreError, match='belongs to the user 12345, expected 0'):
        SegmentStore.load(folder, {})
    assert foreign_writer(folder / 'below').startswith(str(folder))


PROCESS = """
import json, sys, time
from deadline_perception.engines.store_lock import Turns

turns, began_s, worked, timed = Turns(sys.argv[1]), time.monotonic(), [], []
while len(timed) < 15:
    worked.append((time.monotonic(), time.sleep(0.004 + 0.002 * int(sys.argv[2])), time.monotonic())[::2])
    turns.give_way()
    if len(worked) % 3 == 0:
        with turns.alone():
            timed.append((time.monotonic(), time.sleep(0.003), time.monotonic())[::2])
print(json.dumps([worked, timed]))
"""


def overlap(one, other):
    return one[0] < other[1] and other[0] < one[1]


def test_nobody_works_while_another_has_the_machine_for_itself_and_all_get_their_turns(tmp_path):
    processes = [
        subprocess.Popen(
            [sys.executable, '-c', PROCESS, str(tmp_path / 'turns'), str(number)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    said = [json.loads(process.communicate(timeout=60)[0]) for process in processes]
    for number, (_, timed) in enumerate(said):
        assert len(timed) == 15
        for other in said[:number] + said[number + 1 :]:
            assert not [
                (mine, theirs)
                for mine in timed
                for theirs in other[0] + other[1]
                if overlap(mine, theirs)
            ]
    assert any(
        overlap(mine, theirs) for mine in said[0][0] for theirs in said[1][0] + said[2][0]
    )  # they do share it


def test_who_dies_while_alone_lets_the_others_go_on(tmp_path):
    dies = subprocess.Popen(
        [
            sys.executable,
            '-c',
            f"""
import time
from deadline_perception.engines.store_lock import Turns
with Turns({str(tmp_path / 'turns')!r}).alone():
    print('alone', flush=True)
    time.sleep(600)
""",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert dies.stdout.readline() == 'alone\n'
    dies.kill()
    dies.communicate()
    with Turns(tmp_path / 'turns').alone():
        pass


def test_one_process_waits_for_nobody():
    turns = Turns()
    with pytest.raises(ZeroDivisionError), turns.alone():
        1 / 0
    turns.give_way()
    with turns.alone():
        pass
