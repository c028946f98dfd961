"""Keeps the latest items by their stamp until what belongs to them comes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

Item = TypeVar('Item')


class StampCache(Generic[Item]):
    """At most `size` items by stamp; the oldest goes when it is full."""

    def __init__(self, size: int) -> None:
        self._items: OrderedDict[int, Item] = OrderedDict()
        self._size = size
        self.unused = 0  # items that went without having been taken

    def put(self, stamp_ns: int, item: Item) -> None:
        """Keeps an item; one with the same stamp is replaced."""
        self._items.pop(stamp_ns, None)
        self._items[stamp_ns] = item
        if len(self._items) > self._size:
            self._items.popitem(last=False)
            self.unused += 1

    def take(self, stamp_ns: int) -> Item | None:
        """Removes and returns the item of a stamp; None when there is none."""
        return self._items.pop(stamp_ns, None)

    def clear(self) -> None:
        """Forgets all items."""
        self._items.clear()
