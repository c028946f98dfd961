"""Two cameras, or videos, on one thread that computes: the image of the earliest deadline goes first.

.venv/bin/python examples/two_cameras.py SOURCE SOURCE
"""

import sys
from concurrent.futures import ThreadPoolExecutor

from deadline_perception import DeadlineDetector
from deadline_perception.extras.data.shown_source import open_shown
from deadline_perception.runtime.executor import Executor


def main(*cameras: str, model: str = 'street', budget_ms: float = 200.0) -> None:
    def show(camera: str) -> None:
        frames = (frame.image_bgr for frame in open_shown(camera).images())
        with DeadlineDetector(model, executor=executor) as detector:
            for answer in detector.answers(frames, budget_ms):
                print(f'{camera}: {answer}\n', end='')  # in one piece, as both threads print

    with Executor() as executor, ThreadPoolExecutor(len(cameras)) as threads:
        list(threads.map(show, cameras))


if __name__ == '__main__':
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
