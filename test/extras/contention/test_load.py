"""Units are real processes: they work when told to, slow what runs beside them, and are gone with whoever started
them."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from waiting import WAIT_S, is_gone, state, wait

from deadline_perception.core.tied_process import LoadError
from deadline_perception.extras.contention.load import ContentionLoad, busy_programs, check_units

OWNER = """
import sys, time
from deadline_perception.extras.contention.load import ContentionLoad
with ContentionLoad({'core': 1, 'memory': 1}) as load:
    load.set({'core': 1})
    print(*load.pids, flush=True)
    time.sleep(120)
"""


def ticks(pid: int) -> int:
    """Processor time of a process so far."""
    fields = Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    return int(fields[11]) + int(fields[12])


def test_exactly_the_units_that_are_asked_for_work():
    core = min(os.sched_getaffinity(0))
    with ContentionLoad({'core': 2, 'memory': 1}, cores={core}) as load:
        assert all(os.sched_getaffinity(pid) == {core} for pid in load.pids)
        first, second, memory = load.pids
        load.set({'core': 1, 'memory': 1})
        assert load.working == {'core': 1, 'memory': 1}
        wait(lambda: state(second) == 'T', 'the signal')
        before = [ticks(pid) for pid in load.pids]
        wait(lambda: ticks(first) > before[0] + 3 and ticks(memory) > before[2] + 3, 'the units')
        assert ticks(second) == before[1]
        load.set({})
        wait(lambda: all(state(pid) == 'T' for pid in load.pids), 'the signals')
        stopped = [ticks(pid) for pid in load.pids]
        time.sleep(0.3)
        assert [ticks(pid) for pid in load.pids] == stopped and load.working == {}
        pids = load.pids
    assert all(map(is_gone, pids))


def test_a_unit_asks_for_its_share_of_a_core_and_a_busy_program_for_all():
    def asked(load: ContentionLoad) -> list[int]:
        """System calls that gave the core away, of each."""
        texts = [Path(f'/proc/{pid}/status').read_text() for pid in load.pids]
        return [int(re.search(r'^voluntary\w*:\s*(\d+)', text, re.M)[1]) for text in texts]

    with ContentionLoad({'core': 1}) as unit, busy_programs(1) as busy:
        unit.set({'core': 1})
        before, before_busy, begun = asked(unit), asked(busy), ticks(unit.pids[0])
        wait(lambda: ticks(unit.pids[0]) > begun + 10, 'a tenth of a second of work')
        assert asked(unit)[0] - before[0] >= 3  # it rests after every 10 ms
        assert asked(busy)[0] - before_busy[0] <= 2


@pytest.mark.parametrize('number', [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_units_end_with_their_owner_however_it_ends(number):
    owner = subprocess.Popen(
        [sys.executable, '-c', OWNER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    pids = [int(word) for word in owner.stdout.readline().split()]
    assert len(pids) == 2 and not any(map(is_gone, pids))
    owner.send_signal(number)
    owner.communicate(timeout=WAIT_S)
    wait(lambda: all(map(is_gone, pids)), f'units after {number}')


def test_a_kind_that_this_machine_lacks_is_named():
    torch = pytest.importorskip('torch')
    if torch.cuda.is_available():
        pytest.skip('a GPU is here')
    with pytest.raises(LoadError, match='of the kind gpu cannot be started: .* there is none'):
        ContentionLoad({'core': 1, 'gpu': 1})


@pytest.mark.parametrize(
    'units, message',
    [
        ({'disk': 1}, "kind of contention units is 'disk', expected one of core, memory, gpu"),
        ({'core': -1}, 'number of core units is -1'),
        ({'core': 1.5}, 'number of core units is 1.5'),
        ({'core': 257}, 'expected 0 to 256'),
        ({'core': True}, 'is True'),
    ],
)
def test_impossible_units_are_refused(units, message):
    with pytest.raises(ValueError, match=message):
        check_units(units)


def test_more_units_or_kinds_than_there_are_and_killed_ones_are_named():
    with (
        ContentionLoad({}) as load,
        pytest.raises(ValueError, match='at most the 0 that were started'),
    ):
        load.set({'core': 1})
    with pytest.raises(ValueError, match='share of a unit is 0.0'):
        ContentionLoad({}, share=0.0)
    with ContentionLoad({'core': 2}, at_work=True) as load:
        os.kill(load.pids[1], signal.SIGKILL)
        wait(lambda: is_gone(load.pids[1]), 'its end')
        with pytest.raises(LoadError, match='a core unit ended by itself'):
            load.set({})
