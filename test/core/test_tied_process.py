import subprocess
import sys

import pytest
from waiting import is_gone, wait

from deadline_perception.core.tied_process import LoadError, has_ended, start_tied, stop_tied

PROGRAM = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, '-c', 'import signal, time; signal.signal(2, lambda *_: 0)\\n'
                          'signal.signal(15, lambda *_: 0)\\nprint("up", flush=True)\\ntime.sleep(120)'],
                         stdout=subprocess.PIPE)
child.stdout.readline()
try:
    print(child.pid, flush=True)
    time.sleep(120)
except KeyboardInterrupt:
    open(sys.argv[1], 'w').write('asked')
"""


def test_a_program_is_asked_to_end_before_it_is_killed_and_takes_its_own_programs_along(tmp_path):
    command = [sys.executable, '-c', PROGRAM, str(tmp_path / 'said')]
    program = start_tied(command, stdout=subprocess.PIPE, text=True)
    child = int(program.stdout.readline())
    stop_tied(program, asks=True)
    assert (tmp_path / 'said').read_text() == 'asked' and has_ended(program)
    wait(lambda: is_gone(child), 'the program that it had started')


def test_a_program_that_does_not_exist_is_named():
    with pytest.raises(LoadError, match="program 'no-such-program' is not found"):
        start_tied(['no-such-program'])
