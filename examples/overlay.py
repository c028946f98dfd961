"""A video, a webcam, a folder or a bag with boxes, ids and times drawn on it, as a video.

.venv/bin/python examples/overlay.py SOURCE [OUT.mp4] [MODEL]
"""

import sys
from itertools import chain

import cv2

from deadline_perception import DeadlineDetector
from deadline_perception.extras.data.shown_source import open_shown

MP4 = cv2.VideoWriter_fourcc(*'mp4v')


def main(file: str, out: str = 'overlay.mp4', model: str = 'street', ms: float = 80.0) -> None:
    source = open_shown(file)
    frames = (frame.image_bgr for frame in source.images())
    with DeadlineDetector(model) as detector:
        pictures = (each.draw() for each in detector.answers(frames, ms, rate_hz=source.rate_hz))
        first = next(pictures)
        video = cv2.VideoWriter(out, MP4, source.rate_hz, first.shape[1::-1])
        for picture in chain([first], pictures):
            video.write(cv2.resize(picture, first.shape[1::-1]))  # others would be left out


if __name__ == '__main__':
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
