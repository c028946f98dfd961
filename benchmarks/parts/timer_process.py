"""How late a thread of real-time priority wakes: `python timer_process.py`, until its input ends; then a JSON line.

It does nothing else, and ranks above the detector's own threads, so it is late by the machine alone. The line
holds for each wake-up when it was due, ns of the system clock, and how late it was, ns.
"""

from __future__ import annotations

import json
import select
import sys
import time

from observer_process import raise_priority

PERIOD_NS = 5_000_000


def main() -> None:
    raise_priority()
    print('ready', flush=True)
    found: list[tuple[int, int]] = []
    due_ns = time.time_ns() + PERIOD_NS
    while not select.select([sys.stdin], [], [], max(0, due_ns - time.time_ns()) / 1e9)[0]:
        late_ns = time.time_ns() - due_ns
        found.append((due_ns, late_ns))
        due_ns += PERIOD_NS * (1 + late_ns // PERIOD_NS)
    print(json.dumps(found))


if __name__ == '__main__':
    main()
