"""What the kernel says of real threads of this process."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from waiting import wait

from deadline_perception.system.kernel_thread import (
    allowed_cores,
    describe_scheduling,
    lives,
    name_thread,
    parse_cores,
    scheduling_policy,
    thread_name,
    threads_started_by,
)


def in_thread(call):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result(20.0)


def test_the_kernel_knows_a_named_thread():
    def work():
        name_thread('a name that is too long')
        tid = threading.get_native_id()
        return thread_name(tid), Path(f'/proc/self/task/{tid}/comm').read_text()

    assert in_thread(work) == ('a name that is ', 'a name that is \n')


def test_a_thread_lives_until_it_ends_and_then_has_no_name():
    tid = in_thread(threading.get_native_id)
    wait(lambda: not lives(tid), 'the end of the thread')
    assert thread_name(tid) == '' and lives(threading.get_native_id())
    with pytest.raises(ProcessLookupError):
        scheduling_policy(tid)


def test_threads_of_libraries_bear_the_name_of_the_one_that_started_them():
    torch = pytest.importorskip('torch')

    def work():
        name_thread('starter')
        tid = threading.get_native_id()
        before = threads_started_by(tid)
        other = threading.Thread(target=time.sleep, args=(5.0,), daemon=True)
        other.start()  # of Python: it has the name too
        torch.set_num_threads(2)
        # shared out by torch itself: the maths library may judge one thread to be enough
        torch.rand(1 << 22).exp()
        return before, threads_started_by(tid), tid, other.native_id

    threads = torch.get_num_threads()
    try:
        before, started, own, pythons = in_thread(work)
    finally:
        torch.set_num_threads(threads)
    assert before == [] and len(started) >= 1 and not {own, pythons} & set(started)


def test_scheduling_is_told_as_the_kernel_has_it():
    def work():
        tid = threading.get_native_id()
        os.sched_setaffinity(tid, {min(os.sched_getaffinity(0))})
        os.setpriority(os.PRIO_PROCESS, tid, 19)
        os.sched_setscheduler(tid, os.SCHED_BATCH | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        return scheduling_policy(tid), describe_scheduling(tid)

    core = min(os.sched_getaffinity(0))
    assert in_thread(work) == (os.SCHED_BATCH, f'SCHED_BATCH, nice 19, cores {core}')


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


def test_a_thread_that_has_ended_has_no_cores():
    assert allowed_cores(2**22 + 1) == ''
