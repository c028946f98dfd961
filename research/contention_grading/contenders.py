"""Realistic work beside a camera's network, as programs: radar, fusion of sensors, and lidar.

    python research/contention_grading/contenders.py radar|fusion|lidar

Each does the work of a sensor's period again and again, at the sensor's own rate while it keeps up.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from scipy.ndimage import uniform_filter1d

RATES_HZ = {'radar': 20.0, 'fusion': 20.0, 'lidar': 10.0}
SEED = 4
_CHIRPS = 64
_SAMPLES = 256
_ANTENNAS = 8
_POINTS = 1500
_CLUSTERS = 24
_ROUNDS = 8
_GUARD = 2
_TRAINING = 8


def radar():
    """FMCW radar: range FFT, Doppler FFT, power summed over antennas, and cell-averaging CFAR detection."""
    rng = np.random.default_rng(SEED)
    shape = (_ANTENNAS, _CHIRPS, _SAMPLES)
    real = rng.normal(size=shape)
    cube = (real + 1j * rng.normal(size=shape)).astype(np.complex64)
    window = np.hanning(_SAMPLES).astype(np.float32)
    whole = 2 * (_TRAINING + _GUARD) + 1
    guarded = 2 * _GUARD + 1

    def work() -> int:
        ranges = np.fft.fft(cube * window, axis=2)
        doppler = np.fft.fftshift(np.fft.fft(ranges, axis=1), axes=1)
        power = np.square(np.abs(doppler)).sum(axis=0)
        around = whole * uniform_filter1d(power, whole, axis=1, mode='constant')
        inner = guarded * uniform_filter1d(power, guarded, axis=1, mode='constant')
        return int((power > 4.0 * (around - inner) / (2 * _TRAINING)).sum())

    return work


def fusion():
    """Fusion of sensors: detections of several sensors clustered in space and speed, as k-means does."""
    rng = np.random.default_rng(SEED)
    points = rng.normal(size=(_POINTS, 4)).astype(np.float32) + rng.integers(
        -8, 8, size=(_POINTS, 1)
    )

    def work() -> int:
        centres = points[:: _POINTS // _CLUSTERS][:_CLUSTERS].copy()
        nearest = np.zeros(_POINTS, np.int64)
        for _ in range(_ROUNDS):
            distances = np.square(points[:, None] - centres[None]).sum(axis=2)
            nearest = distances.argmin(axis=1)
            for number in range(len(centres)):
                members = points[nearest == number]
                if len(members):
                    centres[number] = members.mean(axis=0)
        return int(nearest.sum())

    return work


def lidar():
    """Lidar: points scattered into pillars on a bird's-eye grid, and a second network over it, on one thread."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    points = rng.uniform(0.0, 1.0, size=(20_000, 4)).astype(np.float32)
    layers = []
    channels = 16
    for wider, stride in ((32, 2), (32, 1), (64, 2), (64, 1), (128, 2)):
        layers.append(torch.nn.Conv2d(channels, wider, 3, stride, 1))
        layers.append(torch.nn.ReLU())
        channels = wider
    network = torch.nn.Sequential(*layers, torch.nn.Conv2d(channels, 14, 1)).eval()
    embed = torch.nn.Linear(4, 16)

    def work() -> int:
        with torch.inference_mode():
            features = embed(torch.from_numpy(points)).relu()
            rows = (points[:, 0] * 199).astype(np.int64)
            columns = (points[:, 1] * 199).astype(np.int64)
            cells = torch.from_numpy(rows * 200 + columns)
            grid = torch.zeros(200 * 200, 16).index_add_(0, cells, features)
            return int(network(grid.T.reshape(1, 16, 200, 200)).argmax())

    return work


CONTENDERS = {'radar': radar, 'fusion': fusion, 'lidar': lidar}


def main(name: str) -> None:
    work = CONTENDERS[name]()
    period_s = 1.0 / RATES_HZ[name]
    print(flush=True)  # for `beside_programs`, which waits for it
    due_s = time.monotonic()
    while True:
        work()
        # What could not be kept up with is left out.
        due_s = max(due_s + period_s, time.monotonic() - period_s)
        time.sleep(max(0.0, due_s - time.monotonic()))


if __name__ == '__main__':
    main(sys.argv[1])
