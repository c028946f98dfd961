"""A network at any share of its neurons.   python examples/elastic_network.py ELASTIC.safetensors

`deadline-perception network elastic resnet18 --weights resnet18.pth --data IMAGES` writes such a file.
"""

import sys

from deadline_perception.deadline_detector import DeadlineDetector
from deadline_perception.extras.data.source import open_source


def main(weights: str, budgets_ms: tuple[float, ...] = (1000.0, 100.0, 10.0, 1.0)) -> list:
    image_bgr = next(iter(open_source('drive:seconds=1').frames)).load_bgr()
    with DeadlineDetector(weights) as detector:
        answers = [detector.detect(image_bgr, budget_ms) for budget_ms in budgets_ms]
    for answer in answers:
        best = max(zip(answer.scores.tolist(), answer.names), default='nothing')
        print(f'{answer.budget_ms:.0f} ms: {answer.path} in {answer.latency_ms:.1f} ms: {best}')
    return answers


if __name__ == '__main__':
    main(*sys.argv[1:])
