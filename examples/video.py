"""A video or a webcam, the newest image whenever the network is free; the answers become a video.

.venv/bin/python examples/video.py [FILE|0] [MODEL]
"""

import sys
import time
from collections import Counter
from pathlib import Path

import cv2

from deadline_perception.deadline_detector import DeadlineDetector
from deadline_perception.runtime.answer import Answer


def main(
    source: str = '0',
    model: str = 'street',
    budget_ms: float = 80.0,
    seconds: float = 30.0,
    out: str = 'out/examples/video.mp4',
) -> Counter:
    video = cv2.VideoCapture(int(source) if source.isdecimal() else source)
    if not video.isOpened():
        sys.exit(f'{source} cannot be opened, expected a video or the number of a camera')
    outcomes: Counter = Counter()
    answers: list[Answer] = []

    def keep(answer: Answer) -> None:  # on a thread of the detector: short
        outcomes[answer.outcome.name] += 1
        outcomes['superseded'] += answer.superseded
        answers.append(answer)

    with DeadlineDetector(model) as detector, detector.stream(keep) as stream:
        begun_s = time.monotonic()
        while (played_s := time.monotonic() - begun_s) < seconds:
            is_there, image_bgr = video.read()
            if not is_there:
                break
            if not source.isdecimal():  # a file gives its images at once; a camera's are waited for
                due_s = begun_s + video.get(cv2.CAP_PROP_POS_MSEC) / 1000.0
                time.sleep(max(0.0, due_s - time.monotonic()))
            stream.submit(image_bgr, time.time_ns(), budget_ms)
    pictures = [answer.draw() for answer in answers]
    if pictures:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        size, rate_hz = pictures[0].shape[1::-1], min(max(1.0, len(pictures) / played_s), 60.0)
        written = cv2.VideoWriter(out, cv2.VideoWriter_fourcc(*'mp4v'), rate_hz, size)
        for picture in pictures:
            written.write(picture)
        written.release()
    print(f'{dict(outcomes)}, drawn in {out}')
    return outcomes


if __name__ == '__main__':
    main(*sys.argv[1:])
