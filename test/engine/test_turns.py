"""Turns of real processes, seen by the times that each of them wrote down."""
from __future__ import annotations

import json
import subprocess
import sys

import pytest

from deadline_perception.engine.turns import Turns

PROCESS = """
import json, sys, time
from deadline_perception.engine.turns import Turns

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
    processes = [subprocess.Popen([sys.executable, '-c', PROCESS, str(tmp_path / 'turns'), str(number)],
                                  stdout=subprocess.PIPE, text=True) for number in range(3)]
    said = [json.loads(process.communicate(timeout=60)[0]) for process in processes]
    for number, (_, timed) in enumerate(said):
        assert len(timed) == 15
        for other in said[:number] + said[number + 1:]:
            assert not [(mine, theirs) for mine in timed for theirs in other[0] + other[1] if overlap(mine, theirs)]
    assert any(overlap(mine, theirs) for mine in said[0][0] for theirs in said[1][0] + said[2][0])  # they do share it


def test_who_dies_while_alone_lets_the_others_go_on(tmp_path):
    dies = subprocess.Popen([sys.executable, '-c', f"""
import time
from deadline_perception.engine.turns import Turns
with Turns({str(tmp_path / 'turns')!r}).alone():
    print('alone', flush=True)
    time.sleep(600)
"""], stdout=subprocess.PIPE, text=True)
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
