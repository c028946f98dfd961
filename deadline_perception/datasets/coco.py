"""Images annotated in the COCO format: one JSON file beside a folder of images."""
from __future__ import annotations

import json
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path

from deadline_perception.datasets.drive import CLASS_NAMES
from deadline_perception.datasets.image_file import load_image
from deadline_perception.datasets.records import Frame, Sequence
from deadline_perception.datasets.truth_repair import TruthCollector


def read_coco(annotations: Path, rate_hz: float = 10.0) -> Sequence:
    """Images in the order of the file, with stamps made up at a fixed rate.

    Labels follow `drive.CLASS_NAMES` when the file names no other class, else the order of category ids. Boxes that
    reach over the image are clipped and boxes without area dropped, with one warning that counts them.

    Args:
        annotations: the JSON file; images are looked for relative to its folder.
        rate_hz: of the made-up stamps, > 0.

    Raises:
        ValueError: the file is no COCO file, an image is missing, an id occurs twice or refers to nothing.
        FileNotFoundError: there is no such file.
    """
    annotations = Path(annotations)
    if rate_hz <= 0:
        raise ValueError(f'rate is {rate_hz} Hz, expected more than 0')
    if not annotations.is_file():
        raise FileNotFoundError(f'{annotations} does not exist, expected a COCO annotation file')
    try:
        content = json.loads(annotations.read_text(encoding='utf-8'))
        return _sequence(content, annotations, rate_hz)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f'{annotations} is no JSON file: {error}') from error
    except KeyError as error:
        raise ValueError(f'{annotations} lacks the key {error}, expected the COCO format') from error
    except (TypeError, AttributeError) as error:
        raise ValueError(f'{annotations} is not in the COCO format: {error}') from error


def _sequence(content: dict, file: Path, rate_hz: float) -> Sequence:
    images, marked, categories = content['images'], content['annotations'], content['categories']
    _refuse_duplicates(file, 'image', images)
    _refuse_duplicates(file, 'annotation', marked)
    _refuse_duplicates(file, 'category', categories)
    names = {category['id']: category['name'] for category in sorted(categories, key=lambda c: c['id'])}
    class_names = CLASS_NAMES if set(names.values()) <= set(CLASS_NAMES) else tuple(names.values())
    by_image = defaultdict(list)
    for annotation in marked:
        if annotation['category_id'] not in names:
            raise ValueError(f'{file}: annotation {annotation["id"]} has category {annotation["category_id"]}, '
                             f'expected one of {sorted(names)}')
        by_image[annotation['image_id']].append(annotation)
    strangers = set(by_image) - {image['id'] for image in images}
    if strangers:
        raise ValueError(f'{file}: annotations belong to image {min(strangers, key=str)}, which the file does not list')
    missing = [image['file_name'] for image in images if not (file.parent / image['file_name']).is_file()]
    if missing:
        raise ValueError(f'{file}: {len(missing)} of {len(images)} images are missing, the first is '
                         f'{file.parent / missing[0]}')
    collector = TruthCollector(str(file))
    frames = []
    for index, image in enumerate(images):
        own = by_image[image['id']]
        boxes = [(x, y, x + width, y + height) for x, y, width, height in (a['bbox'] for a in own)]
        truth = collector.collect(boxes, [class_names.index(names[a['category_id']]) for a in own],
                                  [bool(a.get('iscrowd', 0)) for a in own], image['width'], image['height'])
        frames.append(Frame(image['file_name'], round(index * 1e9 / rate_hz),
                            partial(load_image, file.parent / image['file_name']), None, truth))
    collector.report()
    return Sequence(f'{file.parent.name}-{file.stem}', class_names, tuple(frames))


def _refuse_duplicates(file: Path, what: str, rows: list[dict]) -> None:
    number, count = Counter(row['id'] for row in rows).most_common(1)[0] if rows else (None, 1)
    if count > 1:
        raise ValueError(f'{file}: {what} id {number} occurs {count} times, expected once')
