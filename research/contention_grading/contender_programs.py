"""Programs that a vehicle runs beside its detector, for benchmarks of contention: real work of the kinds that the
contention paper has (section 5.2): RADAR by FFT, fusion by clustering, LiDAR by a second network.

Each copy is a process of its own that ends with the benchmark. All are started at once, load their libraries, print a
line, and are stopped by a signal until they are wanted, so that a change of contention takes effect at once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping

from deadline_perception.core.tied_process import start_tied, stop_tied

CODES = {
    # 32 chirps of 1,024 samples at 8 antennas to a range-Doppler map, as a 77 GHz sensor's processing does.
    'radar': 'import numpy as np\ncube = np.random.default_rng(0).standard_normal((8, 32, 1024)).astype(np.complex64)\n'
    'print(flush=True)\nwhile True:\n    np.abs(np.fft.fft(np.fft.fft(cube, axis=2), axis=1)).sum(0)\n',
    # Points of several sensors to objects: neighbours within a radius, then their connected components.
    'fusion': 'import numpy as np\nfrom scipy.sparse import coo_matrix\n'
    'from scipy.sparse.csgraph import connected_components\nfrom scipy.spatial import cKDTree\n'
    'points = np.random.default_rng(0).random((4000, 3)) * 40\nprint(flush=True)\nwhile True:\n'
    '    pairs = cKDTree(points).query_pairs(1.0, output_type="ndarray")\n    ones = np.ones(len(pairs))\n'
    '    connected_components(coo_matrix((ones, (pairs[:, 0], pairs[:, 1])), (4000, 4000)), False)\n',
    # A point cloud as a bird's eye view through a small convolutional network.
    'lidar': 'import torch\ntorch.set_num_threads(1)\n'
    'c = lambda a, b: torch.nn.Sequential(torch.nn.Conv2d(a, b, 3, 2, 1), torch.nn.ReLU())\n'
    'network = torch.nn.Sequential(c(16, 32), c(32, 64), c(64, 128), c(128, 128)).eval()\n'
    'view = torch.rand(1, 16, 256, 256)\nprint(flush=True)\n'
    'with torch.inference_mode():\n    while True:\n        network(view)\n',
}
_ONE_THREAD = dict.fromkeys(('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS'), '1')


def _of_code(kind: str) -> list[str]:
    return [sys.executable, '-c', CODES[kind]]


class Contenders:
    """A pool of them, of which any number of each kind may work. A context manager: none outlives it.

    Args:
        most: copies of each kind.
        command: program and arguments of a kind; by default what runs its code of `CODES`.
    """

    def __init__(
        self, most: Mapping[str, int], command: Callable[[str], list[str]] = _of_code
    ) -> None:
        self._pool = {
            kind: [
                start_tied(command(kind), env={**os.environ, **_ONE_THREAD}, stdout=subprocess.PIPE)
                for _ in range(count)
            ]
            for kind, count in most.items()
        }
        for pool in self._pool.values():
            for program in pool:
                with program.stdout as said:
                    said.readline()  # it has loaded its libraries

    def __enter__(self) -> Contenders:
        return self

    def __exit__(self, *error: object) -> None:
        for pool in self._pool.values():
            for program in pool:
                stop_tied(program)

    def set(self, counts: Mapping[str, int]) -> None:
        """Has exactly so many copies of each kind work from now on.

        Raises:
            RuntimeError: one has ended by itself.
        """
        for kind, pool in self._pool.items():
            for number, program in enumerate(pool):
                if program.poll() is not None:
                    raise RuntimeError(f'contender {kind} ended with status {program.returncode}')
                program.send_signal(
                    signal.SIGCONT if number < counts.get(kind, 0) else signal.SIGSTOP
                )
