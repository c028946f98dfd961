from __future__ import annotations

import signal
import sys
import threading

import pytest

from deadline_perception.runtime.work_thread import WorkThread, short_turns

WAIT_S = 20.0


def test_all_work_is_done_in_order_on_one_thread():
    worker = WorkThread('worker')
    done = []
    futures = [worker.submit(lambda number=number: done.append((number, threading.get_ident()))) for number in range(5)]
    for future in futures:
        future.result(WAIT_S)
    assert [number for number, _ in done] == list(range(5))
    assert {thread for _, thread in done} != {threading.get_ident()}
    assert len({thread for _, thread in done}) == 1
    assert worker.stop(WAIT_S)


def test_an_error_reaches_whoever_asked_and_the_thread_goes_on():
    worker = WorkThread('worker')
    with pytest.raises(ZeroDivisionError):
        worker.submit(lambda: 1 / 0).result(WAIT_S)
    assert worker.submit(lambda: 'next').result(WAIT_S) == 'next'
    assert worker.stop(WAIT_S)


def test_work_that_hangs_does_not_hold_up_the_stop():
    worker, gate = WorkThread('worker'), threading.Event()
    worker.submit(lambda: gate.wait(WAIT_S))
    assert not worker.stop(0.05)
    gate.set()
    assert worker.stop(WAIT_S)


def test_a_signal_that_another_thread_gets_is_handled_while_the_work_goes_on():
    class Heard(Exception):
        pass

    def hear(*_):
        raise Heard

    def get_signal():
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        freed.append(gate.wait(WAIT_S))

    worker, gate, freed = WorkThread('worker'), threading.Event(), []
    before = signal.signal(signal.SIGUSR1, hear)
    try:
        with pytest.raises(Heard):
            worker.do(get_signal)
    finally:
        signal.signal(signal.SIGUSR1, before)
        gate.set()
    assert worker.stop(WAIT_S)
    assert freed == [True]


def test_turns_are_short_only_as_long_as_they_are_asked_for():
    before = sys.getswitchinterval()
    with pytest.raises(KeyError), short_turns():
        assert sys.getswitchinterval() == pytest.approx(1e-4)
        raise KeyError
    assert sys.getswitchinterval() == before
