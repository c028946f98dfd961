"""What is in the photographs of a folder, as a file of COCO's results, which `pycocotools` loads.

.venv/bin/python examples/folder_to_coco.py FOLDER [OUT.json] [MODEL]
"""

import json
import sys
from pathlib import Path

from deadline_perception import DeadlineDetector
from deadline_perception.core.images.image_file import load_image


def main(folder: str, out: str = 'results.json', model: str = 'street') -> None:
    images = map(load_image, sorted(Path(folder).glob('*.jpg')))
    with DeadlineDetector(model) as detector:
        found = [detector.detect(each, None).to_coco(id_) for id_, each in enumerate(images, 1)]
    Path(out).write_text(json.dumps(sum(found, [])))


if __name__ == '__main__':
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
