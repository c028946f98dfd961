"""A network at any share of its neurons.   .venv/bin/python examples/elastic_network.py ELASTIC.safetensors

`deadline-perception network elastic resnet18 --weights resnet18.pth --data IMAGES` writes such a file.
"""

import sys
from pathlib import Path

from deadline_perception.core.images.image_file import load_image
from deadline_perception.deadline_detector import DeadlineDetector


def main(weights: str, budgets_ms: tuple[float, ...] = (1000.0, 100.0, 10.0, 1.0)) -> list:
    image_bgr = load_image(Path(__file__).with_name('street.jpg'))
    with DeadlineDetector(weights) as detector:
        answers = [detector.detect(image_bgr, budget_ms) for budget_ms in budgets_ms]
    for answer in answers:
        best = max(zip(answer.scores.tolist(), answer.names), default='nothing')
        print(f'{answer.budget_ms:.0f} ms: {answer.path} in {answer.latency_ms:.1f} ms: {best}')
    return answers


if __name__ == '__main__':
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
