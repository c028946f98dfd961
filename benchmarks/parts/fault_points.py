"""Runs the real detector node with points at which a call can be made to hang or to fail.

    FAULT_ORDERS=FILE python benchmarks/parts/fault_points.py --ros-args ...

The node's code is untouched. Each of four functions that it calls is wrapped by one that reads FILE, which may be written
anew: an object of POINT to {"calls": how many are struck, "hang_s": time that each sleeps without Python's lock, "error":
text of the RuntimeError that it then raises, "exits": it calls sys.exit()}. The points that were reached are appended to
a file beside it.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from rclpy.publisher import Publisher

from deadline_perception.core.images import image_message
from deadline_perception.networks.passes import PassesRun

_PUBLICATIONS = {'Detection2DArray': 'publication', 'FrameLatency': 'record'}


class Orders:
    """What is struck next, as a file says it, which need not exist."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read_ns = 0
        self._orders: dict[str, dict] = {}
        self._lock = threading.Lock()

    def strike(self, point: str) -> None:
        """Hangs or fails where that is ordered; otherwise returns at once."""
        with self._lock:
            written_ns = self._file.stat().st_mtime_ns if self._file.exists() else 0
            if written_ns != self._read_ns:
                self._read_ns = written_ns
                self._orders = json.loads(self._file.read_text(encoding='utf-8'))
            order = self._orders.get(point)
            if order is None or order['calls'] < 1:
                return
            order['calls'] -= 1
            with self._file.with_suffix('.struck').open('a', encoding='utf-8') as struck:
                struck.write(f'{point}\n')
        time.sleep(order['hang_s'])
        if order.get('exits'):
            sys.exit(3)
        if order['error']:
            raise RuntimeError(order['error'])


def strike_before(orders: Orders, owner: object, name: str, point_of: Callable) -> None:
    """Wraps a function of a module or class; `point_of` says by its arguments where a call is, None: nowhere."""
    function = getattr(owner, name)

    @functools.wraps(function)
    def struck(*given, **named):
        if point := point_of(*given):
            orders.strike(point)
        return function(*given, **named)

    setattr(owner, name, struck)


def lay(orders: Orders) -> None:
    """Puts the points around the functions. To be called before the node's modules are loaded."""
    strike_before(orders, image_message, 'to_bgr', lambda *_: 'conversion')
    strike_before(orders, PassesRun, 'run_segment', lambda *_: 'network')
    strike_before(
        orders, Publisher, 'publish', lambda _, message: _PUBLICATIONS.get(type(message).__name__)
    )


if __name__ == '__main__':
    lay(Orders(Path(os.environ['FAULT_ORDERS'])))
    from deadline_perception.nodes import detector

    sys.exit(detector.main())
