"""What is in an image, in 100 ms, drawn.   .venv/bin/python examples/image.py [FILE] [MODEL]"""

import sys
from pathlib import Path

import cv2

from deadline_perception import DeadlineDetector
from deadline_perception.core.images.image_file import load_image

STREET = Path(__file__).with_name('street.jpg')


def main(
    file: str | Path = STREET, model: str = 'street', out: str = 'out/examples/image.jpg'
) -> None:
    image_bgr = load_image(Path(file))
    with DeadlineDetector(model) as detector:
        answer = detector.detect(image_bgr, budget_ms=100.0)
    print(f'{answer.latency_ms:.1f} ms of {answer.budget_ms:.0f}, in time: {answer.in_time}')
    print(f'path {answer.path or "none"}: {answer.reason}')
    for found in answer:
        print(f'{found.name} {found.score:.2f} at {found.box_xyxy_px.round()} px')
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(out, answer.draw())
    print(f'drawn in {out}')


if __name__ == '__main__':
    try:
        main(*sys.argv[1:])
    except ValueError as error:  # of a file that is no image
        sys.exit(str(error))
