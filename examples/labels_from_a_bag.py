"""Boxes of a network on the images of a bag, a video or a folder, as a COCO file.

python examples/labels_from_a_bag.py SOURCE OUT.json [MODEL]     (`deadline-perception label` does more: several models)
"""

import json
import sys
from pathlib import Path

from deadline_perception.deadline_detector import DeadlineDetector
from deadline_perception.extras.data.source import open_source


def main(source: str, out: str, model: str = 'street', min_score: float = 0.5) -> dict:
    images, boxes = [], []
    with DeadlineDetector(model) as detector:
        categories = [
            {'id': number, 'name': name} for number, name in enumerate(detector.class_names, 1)
        ]
        for number, frame in enumerate(open_source(source).frames, 1):
            image_bgr = frame.load_bgr()
            height, width = image_bgr.shape[:2]
            images.append(
                {
                    'id': number,
                    'file_name': f'{frame.stamp_ns}.png',
                    'height': height,
                    'width': width,
                }
            )
            answer = detector.detect(image_bgr, budget_ms=60_000.0)  # time enough for the best path
            for label, score, (left, top, right, bottom) in zip(
                answer.result.labels.tolist(), answer.scores, answer.boxes_xyxy_px.tolist()
            ):
                if score >= min_score:
                    boxes.append(
                        {
                            'id': len(boxes) + 1,
                            'image_id': number,
                            'category_id': label + 1,
                            'iscrowd': 0,
                            'bbox': [left, top, right - left, bottom - top],
                            'area': (right - left) * (bottom - top),
                        }
                    )
    content = {'images': images, 'annotations': boxes, 'categories': categories}
    Path(out).write_text(json.dumps(content))
    print(f'{len(boxes)} boxes on {len(images)} images in {out}')
    return content


if __name__ == '__main__':
    main(*sys.argv[1:])
