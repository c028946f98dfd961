"""Rendered drives to train on; several processes share the rendering out."""
from __future__ import annotations

import multiprocessing
from collections.abc import Sequence as Many
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np

from deadline_perception.rendering.drive import render_drive
from deadline_perception.datasets.records import Sequence


def render_drives(seeds: Many[int], seconds: float, rate_hz: float, processes: int) -> list[Sequence]:
    """A drive per seed, its images rendered already and held in memory.

    Args:
        seeds: each decides a drive.
        seconds: duration of each.
        rate_hz: frames per second.
        processes: that render at the same time; with one, this process renders.
    """
    render = partial(_held_drive, seconds, rate_hz)
    processes = min(processes, len(seeds))
    if processes < 2:
        return [render(seed) for seed in seeds]
    # Spawned, because a fork would copy locks that other threads of this process hold.
    with ProcessPoolExecutor(processes, multiprocessing.get_context('spawn')) as pool:
        return list(pool.map(render, seeds))


def _held_drive(seconds: float, rate_hz: float, seed: int) -> Sequence:
    drive = render_drive(seconds=seconds, rate_hz=rate_hz, seed=seed)
    return replace(drive, frames=tuple(replace(frame, load_bgr=partial(np.asarray, frame.load_bgr()))
                                       for frame in drive.frames))
