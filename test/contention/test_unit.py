from __future__ import annotations

import subprocess
import sys
import time

import pytest

from deadline_perception.contention.unit import make_work


@pytest.mark.parametrize('kind', ['core', 'memory'])
def test_rounds_take_processor_time_however_often_they_are_repeated(kind):
    work, taken_s = make_work(kind), []
    for _ in range(40):  # more than it takes to pass through all of its memory
        begun_s = time.thread_time()
        work()
        taken_s.append(time.thread_time() - begun_s)
    assert min(taken_s) > 0.0


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="kind of a contention unit is 'disk', expected one of core, memory, gpu"):
        make_work('disk')
    run = subprocess.run([sys.executable, '-m', 'deadline_perception.contention.unit', 'disk'], capture_output=True,
                         text=True, timeout=60, check=False)
    assert run.returncode == 1 and len(run.stderr.splitlines()) == 1 and run.stdout == ''
