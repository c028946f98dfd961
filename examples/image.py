"""What is in an image, in 100 ms.   python examples/image.py [FILE] [MODEL]"""

import sys

import cv2

from deadline_perception.deadline_detector import DeadlineDetector
from deadline_perception.extras.data.source import open_source


def main(file: str = '', model: str = 'street') -> None:
    image_bgr = (
        cv2.imread(file) if file else next(iter(open_source('drive:seconds=1').frames)).load_bgr()
    )
    with DeadlineDetector(model) as detector:
        answer = detector.detect(image_bgr, budget_ms=100.0)
    print(
        f'{answer.latency_ms:.1f} ms of {answer.budget_ms:.0f}, in time: {answer.in_time}, path {answer.path}'
    )
    for name, score, box in zip(answer.names, answer.scores, answer.boxes_xyxy_px):
        if score >= 0.3:
            print(f'{name} {score:.2f} at {box.round()} px')


if __name__ == '__main__':
    main(*sys.argv[1:])
