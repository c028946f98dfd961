"""Boxes of a network on the images of a bag, a video or a folder, as a COCO file to train on.

.venv/bin/python examples/labels_from_a_bag.py SOURCE OUT.json [MODEL]

The images are written beside OUT. `deadline-perception label` does more: several models, thresholds, missing classes.
"""

import sys
from pathlib import Path

import cv2

from deadline_perception.deadline_detector import DeadlineDetector
from deadline_perception.extras.data.source import open_source
from deadline_perception.extras.report.answer_view import viewed
from deadline_perception.extras.report.found_objects import FoundObjects


def main(source: str, out: str, model: str = 'street', min_score: float = 0.5) -> FoundObjects:
    folder = Path(out).with_suffix('')
    folder.mkdir(parents=True, exist_ok=True)
    with DeadlineDetector(model, min_score=min_score) as detector:
        found = FoundObjects(detector.class_names)
        for frame in open_source(source).frames:
            image_bgr = frame.load_bgr()
            cv2.imwrite(str(folder / f'{frame.stamp_ns}.png'), image_bgr)
            answer = detector.detect(image_bgr, budget_ms=60_000.0)  # time enough for the best path
            shown = viewed(image_bgr, answer, frame.stamp_ns / 1e9)
            found.add(f'{folder.name}/{frame.stamp_ns}.png', shown)
    found.write(Path(out), Path(out).with_suffix('.csv'))
    print(f'{sum(found.counts.values())} boxes on {found.images} images in {out}')
    return found


if __name__ == '__main__':
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
