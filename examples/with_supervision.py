"""An answer in the hands of supervision, which has annotators, zones and counters (`pip install supervision`).

.venv/bin/python examples/with_supervision.py [PHOTO] [OUT.jpg] [MODEL]
"""

import sys
from pathlib import Path

import cv2
import supervision as sv

from deadline_perception import DeadlineDetector
from deadline_perception.core.images.image_file import load_image

STREET = Path(__file__).with_name('street.jpg')


def main(file: str | Path = STREET, out: str = 'found.jpg', model: str = 'street') -> sv.Detections:
    picture = load_image(Path(file)).copy()
    with DeadlineDetector(model) as detector:
        found = detector.detect(picture.copy(), budget_ms=None).to_supervision()
    for annotator in (sv.BoxAnnotator(), sv.LabelAnnotator()):
        picture = annotator.annotate(picture, found)
    return cv2.imwrite(out, picture) and found


if __name__ == '__main__':
    main(*sys.argv[1:])
