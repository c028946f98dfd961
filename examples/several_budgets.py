"""The same image in less and less time: which path runs.   python examples/several_budgets.py [MODEL]"""

import sys

from deadline_perception.deadline_detector import DeadlineDetector
from deadline_perception.extras.data.source import open_source


def main(
    model: str = 'street', budgets_ms: tuple[float, ...] = (200.0, 100.0, 50.0, 25.0, 10.0, 1.0)
) -> None:
    image_bgr = next(iter(open_source('drive:seconds=1').frames)).load_bgr()
    with DeadlineDetector(model) as detector:
        for budget_ms in budgets_ms:
            answer = detector.detect(image_bgr, budget_ms)
            print(
                f'{budget_ms:5.0f} ms: {answer.outcome.name.lower():8} on {answer.path or "no path"} in '
                f'{answer.latency_ms:.1f} ms, bound {answer.bound_ms:.1f} ms; {answer.reason}'
            )


if __name__ == '__main__':
    main(*sys.argv[1:])
