"""Images annotated in the COCO format: one JSON file beside a folder of images."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path

from deadline_perception.core.annotation_file import (
    GroundTruthCollector,
    expected_format,
    read_json,
)
from deadline_perception.core.errors import printable
from deadline_perception.core.images.image_file import image_size, load_image
from deadline_perception.core.records import Frame, Sequence, check_class_names


def read_coco(annotations: Path, rate_hz: float = 10.0) -> Sequence:
    """Images in the order of the file, with stamps made up at a fixed rate.

    Classes are the file's own, in the order of their ids. Boxes that reach over the image are clipped, boxes outside it
    or without area dropped, with one warning that counts them; so are images that cannot be decoded.

    Args:
        annotations: the JSON file; images are looked for relative to its folder.
        rate_hz: of the made-up stamps, > 0.

    Raises:
        ValueError: the file is no COCO file, an image is missing, lies elsewhere or is of another size than the file
            says, an id, a category's name or an image's file occurs twice, an id refers to nothing, or a box is no box.
        FileNotFoundError: there is no such file.
    """
    annotations = Path(annotations)
    if not annotations.is_file():
        raise FileNotFoundError(f'{annotations} does not exist, expected a COCO annotation file')
    with expected_format(annotations, 'COCO'):
        return _sequence(read_json(annotations), annotations, rate_hz)


def _sequence(content: dict, file: Path, rate_hz: float) -> Sequence:
    images, marked, categories = content['images'], content['annotations'], content['categories']
    check_class_names(tuple(category['name'] for category in categories))
    for what, rows in (('image', images), ('annotation', marked), ('category', categories)):
        _refuse_duplicates(file, what, rows, 'id')
    _refuse_duplicates(file, 'image', images, 'file_name')
    names = {
        category['id']: category['name'] for category in sorted(categories, key=lambda c: c['id'])
    }
    numbers = {identity: number for number, identity in enumerate(names)}
    by_image = defaultdict(list)
    for annotation in marked:
        if annotation['category_id'] not in names:
            raise ValueError(
                f'{file}: annotation {annotation["id"]} has category {annotation["category_id"]}, '
                f'expected one of {sorted(names)}'
            )
        by_image[annotation['image_id']].append(annotation)
    strangers = set(by_image) - {image['id'] for image in images}
    if strangers:
        raise ValueError(
            f'{file}: annotations belong to image {min(strangers, key=str)}, which the file does not list'
        )
    absolute = [image['file_name'] for image in images if Path(image['file_name']).is_absolute()]
    if absolute:
        raise ValueError(
            f'{file}: image {printable(absolute[0])} is an absolute path, expected one from the folder of '
            f'the annotations'
        )
    missing = [
        image['file_name'] for image in images if not (file.parent / image['file_name']).is_file()
    ]
    if missing:
        raise ValueError(
            f'{file}: {len(missing)} of {len(images)} images are missing, the first is '
            f'{file.parent / missing[0]}'
        )
    corrupt: dict[object, ValueError] = {}
    for image in images:
        try:
            size = image_size(file.parent / image['file_name'])
        except ValueError as error:
            corrupt[image['id']] = error
            continue
        if size != (image['width'], image['height']):
            raise ValueError(
                f'{file}: image {image["file_name"]} is {size[0]} x {size[1]} px, expected '
                f'{image["width"]} x {image["height"]} px, as its boxes are meant for'
            )
    if corrupt:
        warnings.warn(
            f'{file}: {len(corrupt)} of {len(images)} images are left out, the first: '
            f'{next(iter(corrupt.values()))}',
            stacklevel=3,
        )
        images = [image for image in images if image['id'] not in corrupt]
    collector = GroundTruthCollector(str(file))
    frames = []
    for index, image in enumerate(images):
        own = by_image[image['id']]
        boxes = [_corners(annotation, file) for annotation in own]
        ground_truth = collector.collect(
            boxes,
            [numbers[a['category_id']] for a in own],
            [bool(a.get('iscrowd', 0)) for a in own],
            image['width'],
            image['height'],
        )
        frames.append(
            Frame(
                image['file_name'],
                round(index * 1e9 / rate_hz),
                partial(load_image, file.parent / image['file_name']),
                None,
                ground_truth,
            )
        )
    collector.report()
    return Sequence(
        f'{file.absolute().parent.name}-{file.stem}', tuple(names.values()), tuple(frames)
    )


def _corners(annotation: dict, file: Path) -> tuple[float, float, float, float]:
    """Left, top, right, bottom in px of a box that COCO writes as left, top, width, height."""
    box = annotation['bbox']
    if (
        not isinstance(box, list)
        or len(box) != 4
        or not all(isinstance(value, (int, float)) for value in box)
    ):
        raise ValueError(
            f'{file}: annotation {annotation["id"]} has the box {box!r}, expected four numbers: left, '
            f'top, width and height in px'
        )
    x, y, width, height = box
    return x, y, x + width, y + height


def _refuse_duplicates(file: Path, what: str, rows: list[dict], key: str) -> None:
    value, count = Counter(row[key] for row in rows).most_common(1)[0] if rows else (None, 1)
    if count > 1:
        raise ValueError(f'{file}: {what} {key} {value} occurs {count} times, expected once')
