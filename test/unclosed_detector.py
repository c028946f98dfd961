"""A program that ends without closing its detector, for tests of that: `python unclosed_detector.py CASE`.

Its network computes in native code of torch, where a thread that Python ends aborts the process.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading

import numpy as np
import torch
from invented_networks import MAGNIFIER, InventedNetwork, InventedRun

from deadline_perception.deadline_detector import DeadlineDetector

IMAGE = np.zeros((48, 64, 3), np.uint8)
IS_HEAVY = threading.Event()


class HeavyRun(InventedRun):
    def compute(self, name, key):
        super().compute(name, key)
        if IS_HEAVY.is_set():
            for _ in range(4):
                torch.mm(torch.ones(1500, 1500), torch.ones(1500, 1500))


class HeavyNetwork(InventedNetwork):
    def __init__(self):
        super().__init__(MAGNIFIER)

    def start(self, image_bgr, path):
        return HeavyRun(self, image_bgr, path)


def main(case: str) -> None:
    torch.set_num_threads(1)
    detector = DeadlineDetector(HeavyNetwork())
    detector.detect(IMAGE, 20_000.0)
    IS_HEAVY.set()
    if case == 'stream':
        detector.halt()
        kept = detector.stream()
        kept.submit(IMAGE, 1, 20_000.0)
    elif case == 'at exit':
        atexit.register(lambda: detector.detect(IMAGE, 8.0))
    else:
        detector.detect(IMAGE, 8.0)
    if case == 'error':
        raise ValueError('expected')
    if case == 'interrupted':
        os.kill(os.getpid(), signal.SIGINT)
    if case == 'exit':
        sys.exit(3)
    globals()['kept_until_the_end'] = detector


if __name__ == '__main__':
    main(sys.argv[1])
