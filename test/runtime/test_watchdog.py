import math
import threading

import pytest
from waiting import WAIT_S, wait

from deadline_perception.core.stopwatch import now_ms
from deadline_perception.runtime import watchdog as watchdog_module
from deadline_perception.runtime.watchdog import Watchdog, tell


class Due:
    """Acts that are due one after the other."""

    def __init__(self, *acts, at_ms=0.0):
        self.acts, self.at_ms = list(acts), at_ms

    def __call__(self, at_ms):
        if not self.acts or at_ms < self.at_ms:
            return (self.at_ms if self.acts else math.inf), None
        return at_ms, self.acts.pop(0)


@pytest.fixture
def watchdog():
    failures = []
    watchdog = Watchdog(failures.append)
    watchdog.failures = failures
    yield watchdog
    watchdog.stop()


def watch(watchdog, due):
    watchdog.watch(due)
    watchdog.arm(due.at_ms)


def still_acts(watchdog):
    acted = threading.Event()
    watch(watchdog, Due(acted.set))
    return acted.wait(WAIT_S)


def test_acts_when_due_and_not_before_and_needs_no_further_thread_for_it(watchdog, monkeypatch):
    monkeypatch.setattr(watchdog_module, 'LONGEST_WAIT_S', 1e6)  # nothing is done by chance
    acted, threads = [], watchdog.threads
    for at_ms in (1e300, math.inf):  # are waited for
        watch(watchdog, Due(int, at_ms=at_ms))
    for _ in range(2):
        due = Due(lambda: acted.append(now_ms()), at_ms=now_ms() + 20.0)
        watch(watchdog, due)
        wait(lambda: len(acted) == 1 and watchdog.hanging == 0)
        assert acted.pop() >= due.at_ms
    assert (watchdog.threads, watchdog.failures, watchdog.fault) == (threads, [], '')


def test_what_the_preparation_of_a_thread_raises_is_told_or_logged_and_it_watches_all_the_same(
    caplog,
):
    failures = []
    watchdog = Watchdog(failures.append, prepare=lambda: 1 / 0)
    assert still_acts(watchdog)
    wait(lambda: len(failures) == 2)
    watchdog.stop()
    assert {type(failure) for failure in failures} == {ZeroDivisionError}
    tell(lambda error: 1 / 0, ValueError('too hot'))
    assert 'could not be reported: ValueError: too hot' in caplog.text


def test_an_earlier_time_wakes_it(watchdog):
    far, near = threading.Event(), threading.Event()
    watch(watchdog, Due(far.set, at_ms=now_ms() + 900.0))
    begun_ms = now_ms()
    watch(watchdog, Due(near.set, at_ms=now_ms() + 1.0))
    assert near.wait(WAIT_S) and not far.is_set() or now_ms() - begun_ms > 900.0


def test_what_is_forgotten_is_asked_no_more(watchdog):
    asked = []

    def look(at_ms):
        asked.append(at_ms)
        return math.inf, None

    watchdog.watch(look)
    for _ in range(2):
        watchdog.forget(look)
    before = len(asked)
    assert still_acts(watchdog) and len(asked) == before


def test_an_act_or_a_look_that_raises_is_told_and_the_watch_goes_on(watchdog):
    acted, looks = threading.Event(), []

    def end():
        raise SystemExit

    def look(at_ms):
        looks.append(at_ms)
        if len(looks) == 1:
            raise OverflowError('timestamp out of range')
        return math.inf, None

    watch(watchdog, Due(*[end] * 50, lambda: 1 / 0, acted.set))  # no act ends a thread
    assert acted.wait(WAIT_S)
    watchdog.watch(look)
    watchdog.arm(-1.0)
    wait(lambda: len(looks) > 1)
    failed = [type(failure) for failure in watchdog.failures]
    assert failed[-2:] == [ZeroDivisionError, OverflowError]
    assert {*failed[:-2]} <= {SystemExit} and watchdog.fault == ''


def test_however_many_acts_hang_another_thread_watches_and_the_last_says_so(watchdog, monkeypatch):
    monkeypatch.setattr(watchdog_module, 'LONGEST_WAIT_S', 1e6)
    gate, hanging = threading.Event(), []

    def living():
        return sum(thread.name == 'watchdog' for thread in threading.enumerate())

    usual = living()

    def hang():
        hanging.append(1)
        gate.wait(WAIT_S)

    for count in range(1, watchdog_module.MAX_THREADS + 1):
        assert watchdog.fault == ''
        watch(watchdog, Due(hang))
        wait(lambda: len(hanging) == count)
    assert watchdog.fault == f'all {watchdog_module.MAX_THREADS} threads of the watchdog hang'
    gate.set()
    wait(lambda: watchdog.hanging == 0)
    assert watchdog.fault == ''
    wait(lambda: living() == usual)  # what stood in has ended
    assert still_acts(watchdog)


def test_stop_returns_once_idle_threads_have_ended(monkeypatch):
    monkeypatch.setattr(watchdog_module, 'LONGEST_WAIT_S', 1e6)
    watchdog = Watchdog(print)
    threads, acted = watchdog.threads, []
    watch(watchdog, Due(lambda: acted.append(1)))  # then one watches and the other waits for it
    wait(lambda: acted and watchdog.hanging == 0)
    assert threads and all(thread.is_alive() for thread in threads)
    assert all(thread.daemon for thread in threads)  # one that hangs does not keep the process
    watchdog.stop()
    assert not any(thread.is_alive() for thread in threads)


def test_stop_waits_for_no_thread_while_one_hangs(watchdog, monkeypatch):
    gate, joined = threading.Event(), []
    watch(watchdog, Due(lambda: gate.wait(WAIT_S)))
    wait(lambda: watchdog.hanging == 1)
    monkeypatch.setattr(threading.Thread, 'join', lambda *of, **more: joined.append(of))
    watchdog.stop()
    gate.set()
    assert joined == []


def test_nobody_watches_once_no_thread_lives_as_in_a_fork(watchdog):
    living, ended = watchdog.threads, threading.Thread()
    watchdog._threads.append(ended)
    assert watchdog.fault == ''
    watchdog._threads[:] = [ended]
    assert watchdog.fault == 'the threads of the watchdog have ended'
    watchdog._threads[:] = living
