from __future__ import annotations

import math
import threading

import pytest
from hypothesis import given, settings, strategies as st

from deadline_perception.runtime.mailbox import Mailbox


def test_gives_the_newest_and_counts_the_replaced():
    slot = Mailbox()
    for item in 'abc':
        slot.put(item)
    assert slot.take(0) == ('c', 2)
    slot.put('d')
    assert slot.take(0) == ('d', 0)
    assert (slot.put_total, slot.taken_total, slot.replaced_total, slot.pending) == (4, 2, 2, 0)


def test_gives_nothing_when_the_time_is_up():
    slot = Mailbox()
    assert slot.take(0) is None
    assert slot.take(-1.0) is None
    assert slot.take(0.01) is None


def test_none_is_an_item_like_any_other():
    slot = Mailbox()
    slot.put(None)
    assert slot.take(0) == (None, 0)


def test_timeout_of_nan_is_refused_and_an_infinite_one_accepted():
    slot = Mailbox()
    with pytest.raises(ValueError, match='timeout is NaN s'):
        slot.take(math.nan)
    slot.put(1)
    assert slot.take(math.inf) == (1, 0)


def test_close_wakes_every_waiting_taker():
    slot = Mailbox()
    results = []
    takers = [threading.Thread(target=lambda: results.append(slot.take())) for _ in range(3)]
    for taker in takers:
        taker.start()
    slot.close()
    for taker in takers:
        taker.join(timeout=10)
    assert results == [None, None, None]


def test_after_close_nothing_is_given_and_what_comes_is_counted_apart():
    slot = Mailbox()
    slot.put('a')
    slot.close()
    slot.put('b')
    assert slot.closed and slot.take(0) is None
    assert (slot.put_total, slot.pending, slot.refused_total, slot.replaced_total) == (1, 1, 1, 0)


@settings(max_examples=15, deadline=None)
@given(counts=st.lists(st.integers(0, 60), min_size=1, max_size=4), takers=st.integers(1, 3))
def test_every_item_is_counted_once_whatever_the_threads_do(counts, takers):
    slot: Mailbox[tuple[int, int]] = Mailbox()
    taken: list[list[tuple[tuple[int, int], int]]] = [[] for _ in range(takers)]

    def put_all(source: int) -> None:
        for number in range(counts[source]):
            slot.put((source, number))

    def take_all(mine: list) -> None:
        while (found := slot.take()) is not None:
            mine.append(found)

    takes = [threading.Thread(target=take_all, args=(mine,)) for mine in taken]
    puts = [threading.Thread(target=put_all, args=(source,)) for source in range(len(counts))]
    for thread in takes + puts:
        thread.start()
    for thread in puts:
        thread.join()
    slot.close()
    for thread in takes:
        thread.join()
    found = [entry for mine in taken for entry in mine]
    items = [item for item, _ in found]
    assert slot.put_total == sum(counts)
    assert slot.taken_total == len(items) == len(set(items))
    assert slot.put_total == slot.taken_total + slot.replaced_total + slot.pending
    assert sum(replaced for _, replaced in found) <= slot.replaced_total
    for mine in taken:
        for source in range(len(counts)):
            numbers = [number for (origin, number), _ in mine if origin == source]
            assert numbers == sorted(numbers)
