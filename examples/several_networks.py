"""Two networks on one thread: the image of the earliest deadline goes first.

.venv/bin/python examples/several_networks.py
"""

import sys
import threading
from pathlib import Path

from deadline_perception.core.images.image_file import load_image
from deadline_perception.deadline_detector import DeadlineDetector
from deadline_perception.runtime.executor import Executor


def main(
    far: str = 'street', near: str = 'street', budgets_ms: tuple[float, float] = (200.0, 400.0)
) -> list[str]:
    image_bgr = load_image(Path(__file__).with_name('street.jpg'))
    told: list[str] = []
    with Executor() as executor:
        detectors = {
            'far': DeadlineDetector(far, executor=executor),
            'near': DeadlineDetector(near, executor=executor),
        }
        answered = threading.Semaphore(0)
        for (name, detector), budget_ms in zip(detectors.items(), budgets_ms):

            def tell(answer, name=name):
                told.append(
                    f'{name}: {answer.outcome.name.lower()} on {answer.path} in {answer.latency_ms:.1f} ms'
                )
                answered.release()

            detector.stream(tell).submit(image_bgr, 0, budget_ms)
        for _ in detectors:
            answered.acquire()
    print('\n'.join(told))
    return told


if __name__ == '__main__':
    main(*sys.argv[1:])
