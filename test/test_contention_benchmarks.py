"""What the benchmarks of contention make of their measurements; here with runs made up by hand."""

from __future__ import annotations

import math
import random
import subprocess
import sys
import time

import pytest


def test_frames_lost_are_found_under_noise_that_is_ten_times_as_large(load_benchmark):
    cost, rng = load_benchmark('monitor_cost'), random.Random(3)
    pairs = []
    for number in range(1500):
        pace_ms = 3.0 + math.sin(number / 40.0)  # the machine's own
        outlier = 4.0 if rng.random() < 0.05 else 1.0
        busy = (
            0.02 if rng.random() < 0.5 else 0.0
        )  # in every second stretch: 1 % in the mean, 0 or 2 in the median
        working, held = (
            cost.Stretch(pace_ms * factor * rng.lognormvariate(0.0, 0.05), share)
            for factor, share in ((outlier / (1.0 - busy), busy), (1.0, 0.0))
        )
        pairs.append(
            (working, held) if number % 2 else (working, cost.Stretch(held.frame_ms * outlier, 0.0))
        )
    found = cost.frames_lost(pairs, 0.01)
    low, high = found['frames_lost_95']
    assert low < 0.01 < high and high - low < 0.015
    assert found['core_share_in_stretches'] == pytest.approx(0.01, rel=0.1)
    doubled = cost.frames_lost(pairs, 0.02)  # a node that does twice as much while nobody stops it
    assert doubled['frames_lost'] == pytest.approx(2.0 * found['frames_lost'])
    assert math.isnan(cost.frames_lost(pairs[:5], 0.01)['frames_lost'])


def test_a_held_process_does_nothing_and_goes_on_afterwards(load_benchmark):
    cost = load_benchmark('monitor_cost')
    busy = subprocess.Popen([sys.executable, '-c', 'while True: pass'])
    try:
        pairs = cost.compare(lambda number: time.sleep(0.0005), busy.pid, 0.3, random.Random(1))
        assert len(pairs) >= 2 and all(held.node_share < 0.01 for _, held in pairs)
        assert max(working.node_share for working, _ in pairs) > 0.05
        assert cost.undisturbed(lambda number: time.sleep(0.001), busy.pid, 0.1) > 0.05
    finally:
        busy.kill()
        busy.wait()
