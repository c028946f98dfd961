import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from waiting import wait

from deadline_perception.system.kernel_thread import (
    allowed_cores,
    lives,
    parse_cores,
    scheduling_policy,
    thread_name,
)


def in_thread(call):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result(20.0)


def test_a_thread_lives_until_it_ends_and_then_has_no_name():
    tid = in_thread(threading.get_native_id)
    wait(lambda: not lives(tid), 'the end of the thread')
    assert thread_name(tid) == allowed_cores(tid) == '' and lives(threading.get_native_id())
    with pytest.raises(ProcessLookupError):
        scheduling_policy(tid)


def test_cores_are_read_from_numbers_and_ranges(monkeypatch):
    monkeypatch.setattr(os, 'sched_getaffinity', lambda _: {0, 1, 2, 3, 5})
    assert parse_cores('') == parse_cores(' ') == frozenset()
    assert parse_cores('5, 0-2') == {0, 1, 2, 5}
    for wrong in ('a', '1-', '-1', '3-1', '1;2', '0x1'):
        with pytest.raises(ValueError, match='expected numbers and ranges of cores such as 0,2-3'):
            parse_cores(wrong)
    own = allowed_cores(os.getpid())
    assert parse_cores(own) <= os.sched_getaffinity(0)
    with pytest.raises(
        ValueError, match=rf"cores is '3-4', expected some of {own}, which this process may use"
    ):
        parse_cores('3-4')
