"""Moves the time stamps of serialised messages to another clock, without decoding what need not be decoded."""

from __future__ import annotations

import struct
from collections import OrderedDict
from enum import Enum
from typing import Any

import numpy as np
from rosbags.interfaces import Nodetype
from rosbags.typesys.store import Typestore

from deadline_perception.core.errors import printable
from deadline_perception.extras.data.bag_file import BagError, damage_errors

_HEADER = 'std_msgs/msg/Header'
_TIME = 'builtin_interfaces/msg/Time'
_BILLION = 1_000_000_000
_STAMP_BYTES = slice(4, 12)  # behind the four bytes that name the encoding
_REMEMBERED = 64


class HeaderPlace(Enum):
    """Where a message type carries headers."""

    NONE = 'none'
    FRONT = 'front'  # only as its first field
    NESTED = 'nested'  # elsewhere, or in several places


def header_place(store: Typestore, msgtype: str) -> HeaderPlace:
    """Where a type carries headers, by its definition in a rosbags type store."""
    fields = store.fielddefs[msgtype][1]
    places = [_holds_header(store, kind, set()) for _, kind in fields]
    if not any(places):
        return HeaderPlace.NONE
    is_front = fields[0][1] == (Nodetype.NAME, _HEADER)
    return HeaderPlace.FRONT if is_front and not any(places[1:]) else HeaderPlace.NESTED


def _holds_header(store: Typestore, kind: tuple[Nodetype, Any], seen: set[str]) -> bool:
    node, detail = kind
    if node in (Nodetype.ARRAY, Nodetype.SEQUENCE):
        return _holds_header(store, detail[0], seen)
    if node != Nodetype.NAME or detail in seen:
        return False
    return detail == _HEADER or any(
        _holds_header(store, inner, seen | {detail}) for _, inner in store.fielddefs[detail][1]
    )


class Restamper:
    """Gives every distinct stamp of a bag one new stamp, so that messages that belonged together still do.

    Stamps of zero mean that there is none and stay zero.

    Args:
        store: rosbags type store with the definitions of the messages.
    """

    def __init__(self, store: Typestore) -> None:
        self._store = store
        self._places: dict[str, HeaderPlace] = {}
        self._moved: OrderedDict[int, int] = OrderedDict()

    def prepare(self, msgtype: str) -> None:
        """Makes now what the first message of a type would wait for: 60 ms for ground truth, by which the image of the
        same stamp came late."""
        self._places[msgtype] = header_place(self._store, msgtype)
        if self._places[msgtype] is HeaderPlace.NESTED:
            self._store.get_msgdef(msgtype)  # compiles what reads and writes it

    def restamp(self, raw: bytes, msgtype: str, now_ns: int) -> bytes:
        """The message with its stamps moved: those seen for the first time to now, others to where they went then.

        `raw` is in CDR, `now_ns` on the clock of the new stamps.

        Raises:
            BagError: the message is cut off or damaged.
        """
        try:
            return self._restamped(raw, msgtype, now_ns)
        except damage_errors() as error:
            raise BagError(
                f'the bag holds a damaged {msgtype} of {len(raw)} bytes: {printable(error)}'
            ) from error

    def _restamped(self, raw: bytes, msgtype: str, now_ns: int) -> bytes:
        if msgtype not in self._places:
            self.prepare(msgtype)
        place = self._places[msgtype]
        if place is HeaderPlace.NONE:
            return raw
        if place is HeaderPlace.NESTED:
            message = self._store.deserialize_cdr(raw, msgtype)
            self._move_all(message, now_ns)
            return bytes(self._store.serialize_cdr(message, msgtype))
        order = '<' if raw[1] & 1 else '>'
        seconds, nanoseconds = struct.unpack(f'{order}iI', raw[_STAMP_BYTES])
        moved = struct.pack(
            f'{order}iI',
            *divmod(self._new_stamp(seconds * _BILLION + nanoseconds, now_ns), _BILLION),
        )
        return b''.join((raw[:4], moved, memoryview(raw)[12:]))

    def _new_stamp(self, stamp_ns: int, now_ns: int) -> int:
        if stamp_ns == 0:
            return 0
        if stamp_ns not in self._moved:
            self._moved[stamp_ns] = now_ns
            if len(self._moved) > _REMEMBERED:
                self._moved.popitem(last=False)
        return self._moved[stamp_ns]

    def _move_all(self, value: Any, now_ns: int) -> None:
        """Moves every header's stamp within a decoded message."""
        if getattr(value, '__msgtype__', '') == _HEADER:
            seconds, nanoseconds = divmod(
                self._new_stamp(value.stamp.sec * _BILLION + value.stamp.nanosec, now_ns), _BILLION
            )
            object.__setattr__(
                value, 'stamp', self._store.types[_TIME](sec=seconds, nanosec=nanoseconds)
            )
        elif isinstance(value, list):
            for element in value:
                self._move_all(element, now_ns)
        elif hasattr(value, '__dataclass_fields__') and not isinstance(value, np.ndarray):
            for name in value.__dataclass_fields__:
                self._move_all(getattr(value, name), now_ns)
