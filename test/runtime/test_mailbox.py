import math
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadline_perception.core.stopwatch import now_ms
from deadline_perception.runtime.mailbox import Mailbox


def test_gives_the_task_that_is_due_first_and_of_equals_the_one_that_came_first_if_released():
    mailbox = Mailbox()
    for task, due_ms in (('late', 30.0), ('early', 10.0), ('middle', 20.0), ('equal', 20.0)):
        mailbox.put(task, due_ms, due_ms)
    assert [mailbox.take(0)[0] for _ in range(4)] == ['early', 'middle', 'equal', 'late']
    begun_ms = now_ms()
    mailbox.put('released', 'late', begun_ms + 9000.0)
    mailbox.put('waits', 'early', begun_ms + 90.0, math.inf)
    assert mailbox.take() == ('released', 'late') and mailbox.take(20e-3) is None
    mailbox.put('waits', 'earlier', begun_ms + 90.0, begun_ms + 80.0)
    assert mailbox.take() == ('waits', 'earlier') and now_ms() >= begun_ms + 80.0


def test_a_postponed_item_goes_last_and_no_other_task_sees_it_waiting():
    mailbox = Mailbox()
    mailbox.put('first', 'a', 1.0)
    mailbox.put('second', 'b', 2.0)
    mailbox.postpone('first', 'another')
    assert mailbox.waiting_others('second') == mailbox.waiting_others('first') == 1
    mailbox.postpone('first', 'a')
    assert (mailbox.waiting_others('second'), mailbox.waiting_others('first')) == (0, 1)
    assert [mailbox.take(0) for _ in range(2)] == [('second', 'b'), ('first', 'a')]
    mailbox.postpone('first', 'a')
    assert mailbox.take(0) is None


def test_close_wakes_every_waiting_taker_and_what_comes_after_is_given_back():
    mailbox = Mailbox()
    results = []
    takers = [threading.Thread(target=lambda: results.append(mailbox.take())) for _ in range(3)]
    for taker in takers:
        taker.start()
    mailbox.close()
    for taker in takers:
        taker.join(timeout=10)
    assert results == [None, None, None]
    assert mailbox.put('task', 'b', 1.0) == 'b'
    assert mailbox.closed and mailbox.take(0) is None
    other = Mailbox()
    other.put('task', 'a', 1.0)
    assert other.close() == [('task', 'a')]


@settings(max_examples=15, deadline=None)
@given(counts=st.lists(st.integers(0, 60), min_size=1, max_size=4), takers=st.integers(1, 3))
def test_every_item_is_given_out_once_whatever_the_threads_do(counts, takers):
    mailbox = Mailbox()
    taken = [[] for _ in range(takers)]
    replaced = [[] for _ in counts]

    def put_all(task):
        for number in range(counts[task]):
            before = mailbox.put(task, number, float(number))
            if before is not None:
                replaced[task].append(before)

    def take_all(mine):
        while (found := mailbox.take()) is not None:
            mine.append(found)

    takes = [threading.Thread(target=take_all, args=(mine,)) for mine in taken]
    puts = [threading.Thread(target=put_all, args=(task,)) for task in range(len(counts))]
    for thread in takes + puts:
        thread.start()
    for thread in puts:
        thread.join()
    mailbox.close()
    for thread in takes:
        thread.join()
    for task, count in enumerate(counts):
        given_out = list(replaced[task])
        for mine in taken:
            numbers = [number for origin, number in mine if origin == task]
            assert numbers == sorted(numbers)
            given_out += numbers
        assert len(given_out) == len(set(given_out)) >= count - 1  # the last may wait for ever


def test_is_idle_once_nothing_waits_and_what_was_taken_is_done_with():
    mailbox = Mailbox()
    mailbox.put('one', 'a', 1.0)
    mailbox.put('other', 'b', 2.0)
    assert not mailbox.wait_until_idle(timeout_s=0.0)
    mailbox.take(0)
    assert mailbox.at_work == ('one',)
    mailbox.discard('other')
    assert mailbox.wait_until_idle('other', 0.0) and not mailbox.wait_until_idle('one', 0.0)
    threading.Timer(0.05, mailbox.done, ('one',)).start()
    assert mailbox.wait_until_idle(timeout_s=20.0) and mailbox.at_work == ()


def in_background(act):
    """What the act gives, in a list, once it has; the thread is likely to wait within it by now."""
    given = []
    thread = threading.Thread(target=lambda: given.append(act()), daemon=True)
    thread.start()
    thread.join(timeout=0.05)
    return thread, given


@pytest.mark.parametrize('timeout_s', [None, 20.0])
def test_a_taker_that_waits_is_woken_by_what_comes(timeout_s):
    mailbox = Mailbox()
    thread, taken = in_background(lambda: mailbox.take(timeout_s))
    mailbox.put('task', 'a', 1.0)
    thread.join(timeout=20)
    assert taken == [('task', 'a')]


@pytest.mark.parametrize('is_taken', [True, False])
def test_whoever_waits_for_idle_is_woken_once_the_last_is_done_or_dropped(is_taken):
    mailbox = Mailbox()
    mailbox.put('task', 'a', 1.0)
    if is_taken:
        mailbox.take()
    thread, idle = in_background(lambda: mailbox.wait_until_idle('task'))
    assert idle == []
    (mailbox.done if is_taken else mailbox.discard)('task')
    thread.join(timeout=20)
    assert idle == [True]
