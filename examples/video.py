"""A video or a webcam, the newest image whenever the network is free.   python examples/video.py [FILE|0] [MODEL]"""

import sys
import time
from collections import Counter

import cv2

from deadline_perception.deadline_detector import DeadlineDetector
from deadline_perception.runtime.answer import Answer


def main(
    source: str = '0', model: str = 'street', budget_ms: float = 80.0, seconds: float = 30.0
) -> Counter:
    video = cv2.VideoCapture(int(source) if source.isdecimal() else source)
    if not video.isOpened():
        sys.exit(f'{source} cannot be opened, expected a video or the number of a camera')
    period_s = 0.0 if source.isdecimal() else 1.0 / (video.get(cv2.CAP_PROP_FPS) or 30.0)
    outcomes: Counter = Counter()

    def show(answer: Answer) -> None:  # on a thread of the detector: short
        outcomes[answer.outcome.name] += 1
        outcomes['superseded'] += answer.superseded

    with DeadlineDetector(model) as detector, detector.stream(show) as stream:
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            is_there, image_bgr = video.read()
            if not is_there:
                break
            stream.submit(image_bgr, time.time_ns(), budget_ms)
            time.sleep(
                period_s
            )  # a file gives its images at once; a camera's are waited for, or would queue
    print(dict(outcomes))
    return outcomes


if __name__ == '__main__':
    main(*sys.argv[1:])
