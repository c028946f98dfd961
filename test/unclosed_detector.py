"""Programs that end without closing their detector, for tests of that: `python unclosed_detector.py CASE ...`.

Their network computes in native code of torch, where a thread that Python ends aborts the process. Each is a process
that ends as Python ends one; they are forked from one that has imported torch, which takes longer than all of them.
"""

import atexit
import json
import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import torch
from invented_networks import MAGNIFIER, InventedNetwork, InventedRun

from deadline_perception.deadline_detector import DeadlineDetector
from deadline_perception.timing import profile

IMAGE = np.zeros((48, 64, 3), np.uint8)
IS_HEAVY = threading.Event()


class HeavyRun(InventedRun):
    def compute(self, name, key):
        super().compute(name, key)
        if IS_HEAVY.is_set():
            for _ in range(4):
                torch.mm(torch.ones(900, 900), torch.ones(900, 900))


def main(case: str) -> None:
    torch.set_num_threads(1)
    profile.wait_for_frame = lambda: None  # the times that it measures are of no interest
    detector = DeadlineDetector(InventedNetwork(MAGNIFIER, run_type=HeavyRun))
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


def ended_in_fork(case: str, cache: Path) -> tuple[int, str]:
    """Status of a forked process that goes on to the end of this program as CASE, negative for a signal, and its
    standard error."""
    said = Path(f'{case} {cache.name}.log')
    process = os.fork()
    if process == 0:
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT), 2)
        os.environ['XDG_CACHE_HOME'] = str(cache.absolute())
        main(case)
        sys.exit()
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), said.read_text()


if __name__ == '__main__':
    # The first one measures a profile, with which it is run once more, and all others are.
    kept = Path('kept')
    ends = {'at first': ended_in_fork(sys.argv[1], kept)}
    ends |= {case: ended_in_fork(case, kept) for case in sys.argv[1:]}
    print(json.dumps(ends))
