import gc
import signal
import threading

import pytest
from waiting import WAIT_S

from deadline_perception.runtime.executor import Executor
from deadline_perception.system.priority import ThreadPriority


@pytest.fixture
def executor():
    with Executor() as executor:
        yield executor


def test_garbage_is_collected_between_frames_alone_while_asked_to(executor):
    executor.start(ThreadPriority('off'), lambda error: None, collects_garbage=True)
    assert not gc.isenabled()
    assert executor.stop(1.0)
    assert gc.isenabled()
    executor.start(ThreadPriority('off'), lambda error: None)
    assert gc.isenabled()
    gc.freeze()  # as conftest.py has left it


def test_a_closed_executor_takes_no_calls_and_has_no_threads():
    before = set(threading.enumerate())
    executor = Executor()
    executor.start(ThreadPriority('off'), lambda error: None)
    assert executor.close()
    assert not set(threading.enumerate()) - before
    assert executor.fault == 'the inference thread ended'
    with pytest.raises(RuntimeError, match='the executor is closed'):
        executor.do(lambda: None)


def test_a_call_behind_one_that_hangs_does_not_wait_longer_than_the_executor_is_open():
    executor, goes_on, said = Executor(), threading.Event(), []
    executor.submit(goes_on.wait)

    def call():
        with pytest.raises(RuntimeError, match='closed'):
            executor.do(lambda: said.append('ran'))
        said.append('refused')

    caller = threading.Thread(target=call)
    caller.start()
    assert not executor.close(timeout_s=0.3)
    caller.join(WAIT_S)
    goes_on.set()
    assert said == ['refused']


def test_a_signal_that_another_thread_gets_is_handled_while_the_work_goes_on(executor):
    class Heard(Exception):
        pass

    def hear(*_):
        raise Heard

    def get_signal():
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        freed.append(gate.wait(WAIT_S))

    gate, freed = threading.Event(), []
    before = signal.signal(signal.SIGUSR1, hear)
    try:
        with pytest.raises(Heard):
            executor.do(get_signal)
    finally:
        signal.signal(signal.SIGUSR1, before)
        gate.set()
    assert executor.wait_until_idle(WAIT_S)
    assert freed == [True]
