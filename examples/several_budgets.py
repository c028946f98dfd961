"""The same image in less and less time: which path runs.   .venv/bin/python examples/several_budgets.py [MODEL]"""

import sys
from pathlib import Path

from deadline_perception.core.images.image_file import load_image
from deadline_perception.deadline_detector import DeadlineDetector


def main(
    model: str = 'street', budgets_ms: tuple[float, ...] = (200.0, 100.0, 50.0, 25.0, 10.0, 1.0)
) -> None:
    image_bgr = load_image(Path(__file__).with_name('street.jpg'))
    with DeadlineDetector(model) as detector:
        for budget_ms in budgets_ms:
            answer = detector.detect(image_bgr, budget_ms)
            print(
                f'{budget_ms:5.0f} ms: {answer.outcome.name.lower():8} on {answer.path or "no path"} in '
                f'{answer.latency_ms:.1f} ms, bound {answer.bound_ms:.1f} ms; {answer.reason}'
            )


if __name__ == '__main__':
    main(*sys.argv[1:])
