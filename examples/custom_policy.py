"""A policy of your own: this one leaves half of the time to others.   .venv/bin/python examples/custom_policy.py [MODEL]"""

import sys
from pathlib import Path

from deadline_perception.core.images.image_file import load_image
from deadline_perception.deadline_detector import DeadlineDetector
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.policy import Choice
from deadline_perception.runtime.loading import NetworkOptions


class HalfTheTime(FrontierPolicy):
    name = 'half_the_time'

    def plan(self, remaining_ms: float, factor: float) -> Choice:
        return super().plan(remaining_ms / 2.0, factor)


def main(model: str = 'street', budget_ms: float = 100.0) -> None:
    image_bgr = load_image(Path(__file__).with_name('street.jpg'))
    for policy in ('frontier', HalfTheTime):  # called with path space, forecast and quality
        with DeadlineDetector(NetworkOptions(model, policy=policy)) as detector:
            answer = detector.detect(image_bgr, budget_ms)
        print(
            f'{detector.loaded.task.policy.name}: {answer.path}, {answer.latency_ms:.1f} ms; {answer.reason}'
        )


if __name__ == '__main__':
    main(*sys.argv[1:])
